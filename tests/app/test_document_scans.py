"""Walking over documents on both databases: what is read, what a document is in its turn, and how long one may walk."""

import base64
import json
from typing import Any

import pytest

from evertick import MutationCtx, QueryCtx
from evertick.base.errors import InvalidArguments, Misuse
from tests.app.conftest import OpenApp
from tests.app.test_documents import numbers, with_index

pytestmark = pytest.mark.sql


@pytest.mark.parametrize("descending", [False, True])
def test_a_table_is_read_without_the_tables_whose_names_begin_alike(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, *, descending: bool
) -> None:
    app = open_app()
    others = ["user_events", "user_e", "user_1", "user_" + "0" * 30, "user_Z", "user__", "user_files"]
    rows: list[int] = []

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(300):
            for other in others:
                ctx.db.insert(other, {})
            if n % 100 == 0:
                ctx.db.insert("user", {"n": n})

    @app.query
    def look(ctx: QueryCtx) -> tuple[list[Any], Any]:
        users = ctx.db.query("user").order("desc" if descending else "asc")
        return numbers(users), users.first()

    app.call(fill)
    transaction = type(app.environment.store.read(lambda transaction: transaction))
    scan = transaction.scan_documents

    def counted(*args: Any, **options: Any) -> Any:
        found = scan(*args, **options)
        rows.append(len(found))
        return found

    monkeypatch.setattr(transaction, "scan_documents", counted)
    everything, first = app.call(look)
    assert everything == ([200, 100, 0] if descending else [0, 100, 200])
    assert first["n"] == everything[0]
    assert sum(rows) < 300 * len(others)  # of each other table less than one page, of most nothing
    assert len(rows) < 4 * len(others)


@pytest.mark.parametrize("index", [None, "by_n"])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("touch", [False, True])
def test_each_document_comes_as_it_is_in_its_turn(
    open_app: OpenApp, index: str | None, *, stored: bool, touch: bool
) -> None:
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> list[str]:
        return [ctx.db.insert("t", {"n": n}) for n in range(5)]

    @app.mutation
    def walk(ctx: MutationCtx, ids: list[str]) -> list[Any]:
        ids = ids or ctx.run_mutation(fill)
        seen = []
        query = ctx.db.query("t")
        for document in query if index is None else query.with_index(index):
            seen.append((document["n"], document.get("kind")))
            if document["n"] == 0:
                ctx.db.delete(ids[2])
                ctx.db.patch(ids[3], {"kind": "changed meanwhile"})
                if touch:
                    ctx.db.system.query("_scheduled_functions").collect()  # the database itself is told
        return seen

    assert app.call(walk, app.call(fill) if stored else []) == [
        (0, None),
        (1, None),
        (3, "changed meanwhile"),
        (4, None),
    ]


def test_what_is_moved_or_born_ahead_does_not_come_again(open_app: OpenApp) -> None:
    """Whatever the database itself has been told meanwhile; in many more documents than are read at a time."""
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(600):
            ctx.db.insert("t", {"n": n})

    @app.mutation(timeout=60)
    def move(ctx: MutationCtx) -> list[int]:
        seen = []
        for document in ctx.db.query("t").with_index("by_n"):
            seen.append(document["n"])
            ctx.db.patch(document["_id"], {"n": document["n"] + 1_000})
            ctx.db.insert("t", {"n": 5_000})
            if document["n"] % 100 == 0:
                ctx.db.system.query("_scheduled_functions").first()  # the database itself is told
            assert len(seen) <= 600
        return seen

    app.call(fill)
    assert app.call(move) == list(range(600))


def test_an_iteration_sees_again_what_an_inner_mutation_took_back(open_app: OpenApp) -> None:
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(4):
            ctx.db.insert("t", {"n": n})

    @app.mutation(internal=True)
    def spoil(ctx: MutationCtx, *, touch: bool) -> None:
        for document in ctx.db.query("t"):
            ctx.db.delete(document["_id"])
        if touch:
            ctx.db.system.query("_scheduled_functions").collect()
        raise ValueError("spoiled")

    @app.mutation
    def walk(ctx: MutationCtx, *, touch: bool) -> list[int]:
        seen = []
        for document in ctx.db.query("t"):
            seen.append(document["n"])
            with pytest.raises(ValueError, match="spoiled"):
                ctx.run_mutation(spoil, touch=touch)
        return seen

    app.call(fill)
    assert app.call(walk, touch=False) == [0, 1, 2, 3]
    assert app.call(walk, touch=True) == [0, 1, 2, 3]


def test_a_context_that_is_kept_longer_than_its_function_runs_is_refused(open_app: OpenApp) -> None:
    """Its writes would be written nowhere, and its reads would be done on a connection that others use by now."""
    app = with_index(open_app)
    kept: list[Any] = []

    @app.mutation
    def keep(ctx: MutationCtx, *, fails: bool) -> None:
        ctx.db.insert("t", {"n": 1})
        kept[:] = [ctx, ctx.db, ctx.scheduler, ctx.db.query("t"), iter(ctx.db.query("t").with_index("by_n"))]
        if fails:
            raise ValueError("kept")

    @app.query
    def look(ctx: QueryCtx) -> tuple[list[Any], list[Any]]:
        kept[:] = [ctx, ctx.db, None, ctx.db.query("t"), iter(ctx.db.query("t").with_index("by_n"))]
        return numbers(ctx.db.query("t")), ctx.db.system.query("_scheduled_functions").collect()

    def refused(*uses: Any) -> None:
        for use in uses:
            with pytest.raises(Misuse, match="this function has ended"):
                use()

    def reads() -> tuple[Any, ...]:
        ctx, db, _, query, iterator = kept
        some_id = "t_" + "0" * 28
        return (lambda: ctx.connection, lambda: db.get(some_id), query.first, lambda: next(iterator))

    def writes() -> tuple[Any, ...]:
        _, db, scheduler, _, _ = kept
        return (lambda: db.insert("t", {"n": 2}), lambda: scheduler.run_after(0, keep, fails=False))

    app.call(keep, fails=False)
    refused(*reads(), *writes())
    with pytest.raises(ValueError, match="kept"):
        app.call(keep, fails=True)
    refused(*reads(), *writes())
    assert app.call(look) == ([1], [])
    refused(*reads())
    assert app.call(look) == ([1], [])


@pytest.mark.parametrize("place", ["\ud800", "\x00", "", "t_", "u_" + "0" * 28])
@pytest.mark.parametrize("index", [None, "by_n"])
def test_a_cursor_whose_place_is_no_document_of_the_table_is_refused(
    open_app: OpenApp, index: str | None, place: str
) -> None:
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        ctx.db.insert("t", {"n": 1})
        ctx.db.insert("t", {"n": 2})

    @app.query
    def page(ctx: QueryCtx, cursor: str | None = None) -> str:
        query = ctx.db.query("t") if index is None else ctx.db.query("t").with_index(index)
        return query.paginate(num_items=1, cursor=cursor).continue_cursor

    app.call(fill)
    identity, position = json.loads(base64.urlsafe_b64decode(app.call(page)))
    forged = base64.urlsafe_b64encode(json.dumps([identity, [*position[:-1], place]]).encode()).decode()
    with pytest.raises(InvalidArguments, match="not a cursor of a page"):
        app.call(page, forged)
