"""Tenants: each sees its own jobs, schedules, documents and keys, through the same methods as the app's."""

import asyncio
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, SyncActionCtx, every
from evertick.app.documents import indexing
from evertick.app.documents.indexing import build_indexes
from evertick.base.errors import InvalidTenant, NotUnique, WriteConflict
from evertick.base.ids import DEFAULT_TENANT, TENANT_CHARS_MAX
from evertick.store.transaction.documents import Documents
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

ODD = (
    "acme.example",
    "Ökonomie & Söhne",
    "東京 支店",
    "a'b\"c\\d",
    "%s :now --",
    "ada@example.org",
    "{}[]$",
    "NULL",
    "😀",
)


def notes(open_app: OpenApp, **options: Any) -> App:
    """An app whose functions write and read notes."""
    app = open_app(**options)

    @app.mutation(name="add")
    def add(ctx: MutationCtx, text: str) -> str:
        return ctx.db.insert("notes", {"text": text, "tenant": ctx.tenant})

    @app.query(name="texts")
    def texts(ctx: QueryCtx) -> list[str]:
        return [note["text"] for note in ctx.db.query("notes")]

    @app.mutation(name="fan_out")
    def fan_out(ctx: MutationCtx, text: str) -> None:
        ctx.scheduler.run_after(0, add, text)
        ctx.schedules.create(f"of {text}", when=every(days=1), do=add.with_args(text))

    @app.action(name="ask")
    async def ask(ctx: ActionCtx, text: str) -> str:
        await ctx.run_mutation(add, text)
        await ctx.scheduler.run_after(0, add, f"{text} later")
        return ctx.tenant

    @app.action(name="ask_in_a_thread")
    def ask_in_a_thread(ctx: SyncActionCtx, text: str) -> str:
        ctx.run_mutation(add, text)
        return ctx.tenant

    return app


def test_a_tenant_sees_its_own_data_through_every_method(open_app: OpenApp) -> None:
    app = notes(open_app)
    acme, other = app.tenant("acme"), app.tenant("other")

    acme.call("add", "hello")
    acme.scheduler.run_after(60, "add", "later")
    acme.schedules.create("daily", when=every(days=1), do=app.functions.resolve("add").with_args("daily"))

    assert acme.call("texts") == ["hello"]
    assert other.call("texts") == app.call("texts") == []
    assert [row.id for row in acme.schedules.list().schedules] == ["daily"]
    assert other.schedules.list().schedules == app.schedules.list().schedules == ()
    assert [job["name"] for job in acme.db.query("_scheduled_functions").collect()] == ["add"]
    assert other.db.query("_scheduled_functions").collect() == []


def test_a_function_runs_with_the_tenant_of_its_job(open_app: OpenApp) -> None:
    app = notes(open_app)
    acme = app.tenant("acme")

    with Engine(app) as engine:
        acme.scheduler.run_after(0, "fan_out", "mutation")
        acme.scheduler.run_after(0, "ask", "action")
        acme.scheduler.run_after(0, "ask_in_a_thread", "thread")
        found = engine.until(lambda: texts if len(texts := acme.call("texts")) == 4 else None)

    assert sorted(found) == ["action", "action later", "mutation", "thread"]
    assert {note["tenant"] for note in acme.db.query("notes").collect()} == {"acme"}
    assert [row.id for row in acme.schedules.list().schedules] == ["of mutation"]
    assert app.call("texts") == []


def test_a_called_action_belongs_to_the_tenant_too(open_app: OpenApp) -> None:
    app = notes(open_app)

    assert app.tenant("acme").call("ask", "called") == "acme"
    assert asyncio.run(app.tenant("acme").call_async(app.functions.resolve("ask_in_a_thread"), "awaited")) == "acme"
    assert app.tenant("acme").call("texts") == ["called", "awaited"]
    assert app.call("texts") == []


def test_idempotency_keys_are_the_tenants_own(open_app: OpenApp) -> None:
    app = notes(open_app)
    add: Any = app.functions.resolve("add")

    first = app.tenant("acme").call_once("key", add, "one")

    assert app.tenant("acme").call_once("key", add, "one") == first
    assert app.tenant("other").call_once("key", add, "two") != first


def test_what_is_awaited_has_the_names_of_what_blocks(open_app: OpenApp) -> None:
    app = notes(open_app)

    def names(access: object) -> set[str]:
        return {name for name in dir(access) if not name.startswith("_")}

    own = {"environment", "aio", "call_async", "bind", "functions", "actor", "tenant_id"}
    assert names(app.tenant("acme").aio) == names(app.tenant("acme")) - own
    assert names(app.aio) == names(app.tenant("acme").aio) | {"audit_log", "pools", "tenants", "tokens"}


def test_what_is_awaited_has_the_same_methods(open_app: OpenApp) -> None:
    app = notes(open_app)
    aio = app.tenant("acme").aio

    async def story() -> list[Any]:
        await aio.scheduler.run_after(60, "add", "later")
        await aio.schedules.create("daily", when=every(days=1), do=app.functions.resolve("add").with_args("daily"))
        note = await aio.db.insert("notes", {"text": "b"})
        await aio.db.patch(note, {"text": "a"})
        texts = await aio.call(app.functions.resolve("texts"))
        return [texts, await aio.db.get(note), await aio.db.query("notes").order("desc").first()]

    texts, got, first = asyncio.run(story())

    assert texts == ["a"]
    assert got == first == app.tenant("acme").db.query("notes").unique()
    assert [row.id for row in app.tenant("acme").schedules.list().schedules] == ["daily"]


def test_documents_are_read_and_written_from_outside(open_app: OpenApp) -> None:
    app = open_app()
    app.table("notes", indexes={"by_text": ["text"]})
    ids = [app.db.insert("notes", {"text": text}) for text in "cab"]

    app.db.replace(ids[0], {"text": "d"})
    app.db.patch(ids[1], {"done": True})
    app.db.delete(ids[2])

    assert app.db.get(ids[2]) is None
    assert [note["text"] for note in app.db.query("notes").with_index("by_text").collect()] == ["a", "d"]
    assert [n["text"] for n in app.db.query("notes").filter(lambda n: "done" in n).take(5)] == ["a"]
    page = app.db.query("notes").paginate(num_items=1)
    assert not page.is_done
    assert app.db.query("notes").paginate(num_items=1, cursor=page.continue_cursor).page[0]["text"] == "a"
    with pytest.raises(NotUnique):
        app.db.query("notes").unique()


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_names(open_app: OpenApp, name: str) -> None:
    app = notes(open_app)

    with Engine(app) as engine:
        app.tenant(name).scheduler.run_after(0, "add", "hello")
        engine.until(lambda: app.tenant(name).call("texts") or None)

    assert app.tenant(name).db.query("notes").unique()["tenant"] == name  # type: ignore[index]
    assert app.call("texts") == []


@pytest.mark.parametrize(
    "name",
    ["", "~", ".", "..", " ", " acme", "acme ", "a\nb", "a\0b", "\ud800", "a\u2028b", "x" * (TENANT_CHARS_MAX + 1),
     "e\u0301", 7, None],
)  # fmt: skip
def test_what_cannot_be_a_name_is_refused_with_the_rule(open_app: OpenApp, name: Any) -> None:
    app = notes(open_app)

    for use in (
        app.tenant,
        lambda name: app.bind(None, tenant=name) if name is not None else app.tenant(name),
        lambda name: app.schedules.using(tenant=name) if name is not None else app.tenant(name),
    ):
        with pytest.raises(InvalidTenant, match=r"tenant's name|cannot be called"):
            use(name)


# -- indexes


def write_notes(app: App, tenants: list[str], per_tenant: int) -> None:
    for tenant in tenants:
        for number in range(per_tenant):
            app.tenant(tenant).db.insert("notes", {"number": number})


def numbers(app: App, tenant: str) -> list[int]:
    return [
        note["number"] for note in app.tenant(tenant).db.query("notes").with_index("by_number").order("desc").collect()
    ]


def test_a_declared_index_is_built_for_every_tenant(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, however the documents lie among the tenants; and built anew where its fields changed."""
    tenants = ["default", *(f"t{n:02}" for n in range(9))]
    write_notes(open_app(), tenants, 3)
    monkeypatch.setattr(indexing, "BATCH", 4)
    app = open_app()
    app.table("notes", indexes={"by_number": ["number"]})

    assert {tenant: numbers(app, tenant) for tenant in tenants} == {tenant: [2, 1, 0] for tenant in tenants}

    changed = open_app()
    changed.table("notes", indexes={"by_number": ["number", "other"]})
    assert {tenant: numbers(changed, tenant) for tenant in tenants} == {tenant: [2, 1, 0] for tenant in tenants}
    entries = changed.environment.store.read(
        lambda tx: tx.connection.execute("select count(*) from index_entries").fetchone()[0]
    )
    assert entries == 3 * len(tenants)


def test_an_index_that_is_no_longer_declared_is_dropped_for_every_tenant(open_app: OpenApp) -> None:
    app = open_app()
    app.table("notes", indexes={"by_number": ["number"]})
    write_notes(app, ["default", "acme"], 2)

    without = open_app()
    without.table("notes")

    store = without.environment.store
    assert store.read(lambda tx: tx.connection.execute("select count(*) from index_entries").fetchone()[0]) == 0
    assert store.read(lambda tx: tx.tenants_with_entries(after="", limit=5)) == []


def test_building_goes_on_where_a_killed_process_left_off(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = [f"t{n}" for n in range(5)]
    write_notes(open_app(), tenants, 3)
    monkeypatch.setattr(indexing, "BATCH", 2)
    written = 0
    original = Documents.put_index_entries

    def put(self: Any, tenant: Any, entries: Any) -> None:
        nonlocal written
        written += len(entries)
        if written == 9:
            raise KeyboardInterrupt
        original(self, tenant, entries)

    monkeypatch.setattr(Documents, "put_index_entries", put)
    app = open_app()
    app.table("notes", indexes={"by_number": ["number"]})
    with pytest.raises(KeyboardInterrupt):
        app.environment  # noqa: B018
    assert all(numbers(app, tenant) == [2, 1, 0] for tenant in tenants)
    assert written < 2 * 15, "it began anew"


def test_processes_that_build_at_once_share_the_work(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interleaved batch by batch; one of another release that wants other fields is not fought with."""
    write_notes(open_app(), ["a", "b", "c"], 3)
    monkeypatch.setattr(indexing, "BATCH", 2)
    first, second, other = open_app("first"), open_app("second"), open_app("other")
    for app in (first, second):
        app.tables.add(indexing.Table("notes", {"by_number": indexing.Index("notes.by_number", ("number",))}))
    other.tables.add(indexing.Table("notes", {"by_number": indexing.Index("notes.by_number", ("other",))}))
    store = open_app("store").environment.store
    turns = 0

    def interleaved(work: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns == 4:
            build_indexes(list(second.tables), store.read, store.write)
        return store.write(work)

    build_indexes(list(first.tables), store.read, interleaved)
    assert all(numbers(first, tenant) == [2, 1, 0] for tenant in "abc")

    turns = -1_000

    def with_another(work: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns == -998:
            build_indexes(list(first.tables), store.read, store.write)
        if turns == -996:
            raise WriteConflict("another process was first")
        return store.write(work)

    build_indexes(list(other.tables), store.read, with_another)
    built = store.read(lambda tx: tx.document_indexes(indexing.EVERY_TENANT))
    assert built == {"notes.by_number": '["number"]'}


def test_crons_of_the_code_belong_to_the_default_tenant(open_app: OpenApp) -> None:
    app = notes(open_app)
    app.crons.add("daily", every(days=1), app.functions.resolve("fan_out"), "x")
    app.sync_crons()

    assert [row.id for row in app.schedules.list().schedules] == ["daily"]
    assert app.tenant("acme").schedules.list().schedules == ()
    assert app.tenant(DEFAULT_TENANT).schedules.get("daily").id == "daily"
