"""`ctx.db` on both databases: what only real statements, savepoints and pages of rows can show."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from evertick import UNSET, App, MutationCtx, QueryCtx
from evertick.base.errors import InvalidArguments, RegistrationError, ValueTooLarge
from tests.app.conftest import OpenApp

pytestmark = pytest.mark.sql

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "big": 2**300,
    "negative": -(2**63) - 1,
    "float": 0.1 + 0.2,
    "whole": 1.0,
    "infinite": float("-inf"),
    "text": "naïve 漢字 🎉 \x00 ' \" \\ \ud800 $",
    "bytes": bytes(range(256)),
    "moment": datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC),
    "day": date(2026, 2, 28),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=7),
    "list": [1, [2.5, None], {"a": [b"\xff"]}],
    "object": {"": 1, "k": {"x": Decimal("0.0")}},
}


def test_every_value_comes_back_as_it_went(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation
    def put(ctx: MutationCtx) -> str:
        document_id = ctx.db.insert("t", VALUES)
        seen_before_the_commit = ctx.db.get(document_id)
        assert seen_before_the_commit is not None
        assert repr({k: seen_before_the_commit[k] for k in VALUES}) == repr(VALUES)
        return document_id

    @app.query
    def is_as_it_went(ctx: QueryCtx, document_id: str) -> bool:
        document = ctx.db.get(document_id)
        assert document is not None
        return repr({key: document[key] for key in VALUES}) == repr(VALUES)

    assert app.call(is_as_it_went, app.call(put))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "cannot hold a object"),
        ({1, 2}, "cannot hold a set"),
        (datetime(2026, 1, 1), "has no time zone"),
        ({1: "x"}, "keys of documents must be text"),
        ({"$bytes": "x"}, "reserved"),
        ([{"a": {"$x": 1}}], "reserved"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused(open_app: OpenApp, value: Any, says: str) -> None:
    app = open_app()

    @app.mutation
    def put(ctx: MutationCtx) -> None:
        ctx.db.insert("t", {"value": value})

    with pytest.raises(InvalidArguments, match=says):
        app.call(put)


@pytest.mark.parametrize("letter", ["x", "é", "漢", "🎉"])
def test_the_size_of_a_document_is_that_of_its_utf8(open_app: OpenApp, letter: str) -> None:
    app = open_app()

    @app.mutation
    def put(ctx: MutationCtx, count: int) -> bool:
        text = letter * count
        document = ctx.db.get(ctx.db.insert("t", {"text": text}))
        return document is not None and document["text"] == text

    fits = (1024 * 1024 - len('{"text":""}')) // len(letter.encode())
    assert app.call(put, fits)
    with pytest.raises(ValueTooLarge, match=r"the document has 10485\d\d bytes; the limit is 1048576"):
        app.call(put, fits + 1)


def with_index(open_app: OpenApp, **options: Any) -> App:
    app = open_app(**options)
    app.table("t", indexes={"by_n": ["n"], "by_kind_n": ["kind", "n"]})
    return app


def numbers(query: Any) -> list[Any]:
    return [document.get("n") for document in query]


def test_an_index_follows_every_change_within_and_after_the_transaction(open_app: OpenApp) -> None:
    app = with_index(open_app)

    def by_n(ctx: QueryCtx) -> list[Any]:
        return numbers(ctx.db.query("t").with_index("by_n"))

    @app.mutation
    def change(ctx: MutationCtx) -> list[list[Any]]:
        seen = []
        ids = [ctx.db.insert("t", {"n": n, "kind": "a"}) for n in (3, 1, 2)]
        seen.append(by_n(ctx))
        ctx.db.patch(ids[0], {"n": 0})
        seen.append(by_n(ctx))
        ctx.db.replace(ids[1], {"n": 9})
        seen.append(by_n(ctx))
        ctx.db.delete(ids[2])
        seen.append(by_n(ctx))
        ctx.db.patch(ids[1], {"n": UNSET})
        seen.append(by_n(ctx))
        return seen

    @app.query
    def look(ctx: QueryCtx) -> list[Any]:
        return by_n(ctx)

    assert app.call(change) == [[1, 2, 3], [0, 1, 2], [0, 2, 9], [0, 9], [None, 0]]
    assert app.call(look) == [None, 0]


def test_what_waits_to_be_written_is_merged_with_what_is_stored(open_app: OpenApp) -> None:
    app = with_index(open_app)

    @app.mutation
    def even(ctx: MutationCtx) -> list[str]:
        return [ctx.db.insert("t", {"n": n}) for n in range(0, 20, 2)]

    @app.mutation
    def odd_and_look(ctx: MutationCtx, ids: list[str]) -> list[list[Any]]:
        for n in range(1, 20, 2):
            ctx.db.insert("t", {"n": n})
        ctx.db.delete(ids[0])
        ctx.db.patch(ids[1], {"n": 100})
        by_n = ctx.db.query("t").with_index("by_n")
        return [
            numbers(by_n.take(4)),
            numbers(by_n.order("desc").take(4)),
            numbers(ctx.db.query("t").with_index("by_n", lambda r: r.gte("n", 5).lt("n", 9))),
            numbers(ctx.db.query("t").order("desc").take(3)),
            numbers(ctx.db.query("t").take(3)),
        ]

    ids = app.call(even)
    expected = [[1, 3, 4, 5], [100, 19, 18, 17], [5, 6, 7, 8], [19, 17, 15], [100, 4, 6]]
    assert app.call(odd_and_look, ids) == expected


def test_thousands_are_read_page_by_page_in_order(open_app: OpenApp) -> None:
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(1_500):
            ctx.db.insert("t", {"n": n % 7, "kind": "x"})

    @app.query
    def look(ctx: QueryCtx) -> tuple[int, bool, bool]:
        by_n = numbers(ctx.db.query("t").with_index("by_n"))
        ids = [document["_id"] for document in ctx.db.query("t").order("desc")]
        return len(by_n), by_n == sorted(by_n), ids == sorted(ids, reverse=True)

    app.call(fill)
    assert app.call(look) == (1_500, True, True)


def test_documents_can_be_deleted_and_changed_while_they_are_iterated(open_app: OpenApp) -> None:
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(600):
            ctx.db.insert("t", {"n": n})

    @app.mutation
    def thin_out(ctx: MutationCtx) -> int:
        seen = 0
        for document in ctx.db.query("t"):
            seen += 1
            if document["n"] % 2:
                ctx.db.delete(document["_id"])
            else:
                ctx.db.patch(document["_id"], {"kind": "even"})
        return seen

    @app.query
    def look(ctx: QueryCtx) -> tuple[int, int]:
        return len(ctx.db.query("t").collect()), len(ctx.db.query("t").with_index("by_kind_n", kind="even").collect())

    app.call(fill)
    assert app.call(thin_out) == 600
    assert app.call(look) == (300, 300)


def test_pages_can_be_walked_while_documents_are_written(open_app: OpenApp) -> None:
    app = with_index(open_app)

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(10):
            ctx.db.insert("t", {"n": n})

    @app.mutation
    def next_page(ctx: MutationCtx, cursor: str | None) -> tuple[list[int], str, bool]:
        page = ctx.db.query("t").with_index("by_n").paginate(num_items=3, cursor=cursor)
        for document in page.page:
            ctx.db.delete(document["_id"])
            if document["n"] < 10:
                ctx.db.insert("t", {"n": document["n"] + 100})
        return numbers(page.page), page.continue_cursor, page.is_done

    app.call(fill)
    seen: list[int] = []
    cursor, is_done = None, False
    while not is_done:
        page, cursor, is_done = app.call(next_page, cursor)
        seen += page

    assert seen == [*range(10), *range(100, 110)]


def nested(app: App) -> tuple[Any, Any]:
    @app.mutation
    def child(ctx: MutationCtx, n: int, *, touch: bool, fails: bool) -> None:
        ctx.db.insert("t", {"n": n})
        for document in ctx.db.query("t").with_index("by_n", n=0):
            ctx.db.patch(document["_id"], {"n": 50 + n})
        if touch:
            ctx.db.system.query("_scheduled_functions").collect()  # makes the database open a savepoint
        ctx.scheduler.run_after(60, look_back, n)
        if fails:
            raise ValueError(n)

    @app.mutation
    def parent(ctx: MutationCtx, *, touch: bool, fails: bool) -> None:
        ctx.db.insert("t", {"n": 0})
        for n in (1, 2):
            try:
                ctx.run_mutation(child, n, touch=touch, fails=n == 1)
            except ValueError:
                ctx.db.insert("t", {"n": 10 + n})
        if fails:
            raise KeyError("parent")

    @app.mutation
    def look_back(ctx: MutationCtx, n: int) -> None: ...

    @app.query
    def look(ctx: QueryCtx) -> tuple[list[Any], list[Any], list[Any]]:
        jobs = [job["args"][0]["n"] for job in ctx.db.system.query("_scheduled_functions")]
        return numbers(ctx.db.query("t")), numbers(ctx.db.query("t").with_index("by_n")), jobs

    return parent, look


@pytest.mark.parametrize("touch", [False, True])
def test_a_nested_mutation_that_raises_is_undone_with_its_index_entries_and_jobs(
    open_app: OpenApp, *, touch: bool
) -> None:
    app = with_index(open_app)
    parent, look = nested(app)

    app.call(parent, touch=touch, fails=False)

    assert app.call(look) == ([52, 11, 2], [2, 11, 52], [2])


@pytest.mark.parametrize("touch", [False, True])
def test_a_parent_that_raises_undoes_its_children_that_succeeded(open_app: OpenApp, *, touch: bool) -> None:
    app = with_index(open_app)
    parent, look = nested(app)

    with pytest.raises(KeyError, match="parent"):
        app.call(parent, touch=touch, fails=True)

    assert app.call(look) == ([], [], [])


def test_an_index_declared_later_is_built_from_what_is_there(open_app: OpenApp) -> None:
    old = open_app()

    @old.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in range(700):
            ctx.db.insert("t", {"n": 699 - n})
        ctx.db.insert("t_other", {"n": -1})

    old.call(fill)
    old.close()
    new = with_index(open_app)

    @new.query
    def smallest(ctx: QueryCtx) -> list[Any]:
        return numbers(ctx.db.query("t").with_index("by_n").take(3))

    assert new.call(smallest) == [0, 1, 2]


def test_a_table_declared_while_the_app_is_open_is_indexed_at_once(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation
    def fill(ctx: MutationCtx) -> None:
        for n in (3, 1, 2):
            ctx.db.insert("t", {"n": n, "price": Decimal(n)})

    @app.query
    def in_order(ctx: QueryCtx) -> list[Any]:
        return numbers(ctx.db.query("t").with_index("by_n"))

    app.call(fill)
    with pytest.raises(InvalidArguments, match="Decimal"):
        app.table("t", indexes={"by_n": ["n"], "by_price": ["price"]})
    app.table("t", indexes={"by_n": ["n"]})  # what was refused is not half declared
    assert app.call(in_order) == [1, 2, 3]


def test_an_index_that_cannot_be_built_names_itself_and_the_document(open_app: OpenApp) -> None:
    old = open_app()

    @old.mutation
    def put(ctx: MutationCtx) -> str:
        return ctx.db.insert("t", {"n": Decimal(1)})

    document_id = old.call(put)
    old.close()
    with pytest.raises(InvalidArguments, match=rf"index t\.by_n cannot be built over {document_id}: Decimal"):
        with_index(open_app).call("nothing")


@pytest.mark.parametrize("fields", [[""], [1], ["a", None], None, {"a"}])
def test_fields_of_an_index_are_names_in_an_order(fields: Any) -> None:
    with pytest.raises(RegistrationError, match=r"index t\.i"):
        App("local").table("t", indexes={"i": fields})


def test_an_index_whose_fields_changed_is_built_again(open_app: OpenApp) -> None:
    first = open_app()
    first.table("t", indexes={"by": ["a"]})

    @first.mutation
    def fill(ctx: MutationCtx) -> None:
        ctx.db.insert("t", {"a": 1, "b": 2})
        ctx.db.insert("t", {"a": 2, "b": 1})

    first.call(fill)
    first.close()
    second = open_app()
    second.table("t", indexes={"by": ["b"]})

    @second.query
    def in_order(ctx: QueryCtx) -> list[int]:
        return [document["a"] for document in ctx.db.query("t").with_index("by")]

    assert second.call(in_order) == [2, 1]


def test_an_index_key_that_is_too_long_is_refused_and_nothing_is_written(open_app: OpenApp) -> None:
    app = with_index(open_app)

    @app.mutation
    def put(ctx: MutationCtx, size: int) -> None:
        ctx.db.insert("t", {"n": "x" * size})

    @app.query
    def count(ctx: QueryCtx) -> int:
        return len(ctx.db.query("t").collect())

    app.call(put, 1_900)
    with pytest.raises(ValueTooLarge, match="index key"):
        app.call(put, 3_000)
    assert app.call(count) == 1
