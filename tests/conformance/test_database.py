"""`ctx.db`, as Convex's database behaves: ids, updates, indexes, order, pages, and serializability."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from evertick import UNSET, App, MutationCtx, QueryCtx
from evertick.base.errors import (
    DocumentNotFound,
    InvalidArguments,
    Misuse,
    NotUnique,
    RegistrationError,
)
from evertick.documents import Document
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("database")
app.table("scores", indexes={"by_player": ["player", "score"], "by_score": ["score"]})


@app.mutation
def insert(ctx: MutationCtx, table: str, fields: dict[str, Any]) -> str:
    return ctx.db.insert(table, fields)


@app.mutation
def patch(ctx: MutationCtx, document_id: str, fields: dict[str, Any], *unset: str) -> None:
    ctx.db.patch(document_id, fields | dict.fromkeys(unset, UNSET))


@app.mutation
def replace(ctx: MutationCtx, document_id: str, fields: dict[str, Any]) -> None:
    ctx.db.replace(document_id, fields)


@app.mutation
def delete(ctx: MutationCtx, document_id: str) -> None:
    ctx.db.delete(document_id)


@pytest.fixture
def w(world: OpenWorld) -> Iterator[World]:
    opened: World = world(app)
    yield opened


def scored(w: World) -> None:
    for player, score in (("ada", 5), ("bob", 1), ("ada", 9), ("cy", 5), ("ada", 1)):
        w.call(insert, "scores", {"player": player, "score": score})


def pairs(documents: list[Document]) -> list[tuple[str, int]]:
    return [(document["player"], document["score"]) for document in documents]


@fact("cvx-db-003")
def test_unique_over_two_documents_raises_and_lists_both(w: World) -> None:
    ids = [w.call(insert, "scores", {"player": "ada", "score": n}) for n in range(2)]

    with pytest.raises(NotUnique, match=f"table 'scores'.*{ids[0]}, {ids[1]}"):
        w.read(lambda db: db.query("scores").with_index("by_player", player="ada").unique())


def test_unique_over_one_document_is_it_and_over_none_is_none(w: World) -> None:
    document_id = w.call(insert, "scores", {"player": "ada", "score": 1})

    found = w.read(lambda db: db.query("scores").with_index("by_player", player="ada").unique())
    assert found is not None
    assert found["_id"] == document_id
    assert w.read(lambda db: db.query("scores").with_index("by_player", player="bob").unique()) is None


@fact("cvx-db-003")
def test_get_of_a_deleted_id_is_none_and_updates_of_it_raise(w: World) -> None:
    document_id = w.call(insert, "messages", {"body": "hi"})
    w.call(delete, document_id)

    assert w.get(document_id) is None
    for update, args in ((patch, ({},)), (replace, ({},)), (delete, ())):
        with pytest.raises(DocumentNotFound, match=f"does not exist: {document_id}"):
            w.call(update, document_id, *args)


@pytest.mark.parametrize("value", ["", "x", "messages", "messages_123", "job_" + "0" * 28])
def test_what_is_no_id_of_a_document_is_refused(w: World, value: str) -> None:
    with pytest.raises(InvalidArguments):
        w.get(value)


def test_an_id_names_its_table(w: World) -> None:
    document_id = w.call(insert, "messages", {})

    assert document_id.startswith("messages_")
    assert w.read(lambda db: db.normalize_id("messages", document_id)) == document_id
    assert w.read(lambda db: db.normalize_id("message", document_id)) is None
    assert w.read(lambda db: db.normalize_id("messages", "nonsense")) is None


def test_tables_whose_names_begin_alike_do_not_mix(w: World) -> None:
    for table in ("a", "a_b", "a_b_c"):
        w.call(insert, table, {"of": table})

    assert [document["of"] for document in w.query("a")] == ["a"]
    assert [document["of"] for document in w.query("a_b")] == ["a_b"]


def test_insert_sets_the_id_and_the_creation_time_which_grows_within_a_transaction(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def three(ctx: MutationCtx) -> None:
        for n in range(3):
            ctx.db.insert("t", {"n": n})

    w = world(local)
    w.call(three)
    times = [document["_creation_time"] for document in w.query("t")]

    assert times == sorted(set(times))
    assert all(0 <= time - w.now.timestamp() * 1000 < 1 for time in times)


def test_patch_merges_shallowly_and_removes_what_is_unset(w: World) -> None:
    document_id = w.call(insert, "t", {"a": 1, "b": {"x": 1, "y": 2}, "c": 3})
    before = w.get(document_id)
    w.call(patch, document_id, {"b": {"x": 9}, "d": None}, "c", "never_there")

    assert before is not None
    assert w.get(document_id) == {
        "a": 1, "b": {"x": 9}, "d": None, "_id": document_id, "_creation_time": before["_creation_time"],
    }  # fmt: skip


def test_replace_writes_all_fields_anew_and_keeps_the_system_ones(w: World) -> None:
    document_id = w.call(insert, "t", {"a": 1, "b": 2})
    before = w.get(document_id)
    assert before is not None
    w.call(replace, document_id, {"c": 3})
    assert w.get(document_id) == {"c": 3, "_id": document_id, "_creation_time": before["_creation_time"]}

    w.call(replace, document_id, before)  # what was read can be written back
    assert w.get(document_id) == before


@pytest.mark.parametrize("field", ["_id", "_mine", "$x"])
def test_reserved_names_of_fields_are_refused(w: World, field: str) -> None:
    with pytest.raises(InvalidArguments, match="reserved"):
        w.call(insert, "t", {field: 1})


@pytest.mark.parametrize("table", ["", "_scheduled_functions", "1t", "a b", "x" * 65])
def test_a_table_that_cannot_be_is_refused(w: World, table: str) -> None:
    with pytest.raises((RegistrationError, Misuse)):
        w.call(insert, table, {})
    with pytest.raises((RegistrationError, Misuse)):
        w.query(table) if table != "_scheduled_functions" else w.read(lambda db: db.query(table).collect())


def test_the_default_order_is_that_of_creation_and_may_be_turned_once(w: World) -> None:
    scored(w)

    ascending = pairs(w.query("scores"))
    assert ascending == [("ada", 5), ("bob", 1), ("ada", 9), ("cy", 5), ("ada", 1)]
    assert pairs(w.read(lambda db: db.query("scores").order("desc").collect())) == ascending[::-1]
    with pytest.raises(Misuse, match="ordered only once"):
        w.read(lambda db: db.query("scores").order("desc").order("asc"))
    with pytest.raises(Misuse, match="'asc' or 'desc'"):
        w.read(lambda db: db.query("scores").order("up"))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (lambda r: r, [("ada", 1), ("ada", 5), ("ada", 9), ("bob", 1), ("cy", 5)]),
        (lambda r: r.eq("player", "ada"), [("ada", 1), ("ada", 5), ("ada", 9)]),
        (lambda r: r.eq("player", "ada").eq("score", 5), [("ada", 5)]),
        (lambda r: r.eq("player", "ada").gt("score", 1), [("ada", 5), ("ada", 9)]),
        (lambda r: r.eq("player", "ada").gte("score", 5), [("ada", 5), ("ada", 9)]),
        (lambda r: r.eq("player", "ada").lt("score", 5), [("ada", 1)]),
        (lambda r: r.eq("player", "ada").lte("score", 5), [("ada", 1), ("ada", 5)]),
        (lambda r: r.eq("player", "ada").gt("score", 1).lt("score", 9), [("ada", 5)]),
        (lambda r: r.eq("player", "ada").gt("score", 9), []),
        (lambda r: r.gt("player", "ada"), [("bob", 1), ("cy", 5)]),
        (lambda r: r.gte("player", "b").lt("player", "c"), [("bob", 1)]),
        (lambda r: r.eq("player", "ad"), []),
    ],
)
def test_an_index_gives_a_range_in_its_order_both_ways(w: World, chosen: Any, expected: list[Any]) -> None:
    scored(w)

    assert pairs(w.read(lambda db: db.query("scores").with_index("by_player", chosen).collect())) == expected
    turned = w.read(lambda db: db.query("scores").with_index("by_player", chosen).order("desc").collect())
    assert pairs(turned) == expected[::-1]


@pytest.mark.parametrize(
    "chosen",
    [
        lambda r: r.eq("score", 5),  # not the first field
        lambda r: r.gt("player", "a").eq("score", 5),  # after a bound
        lambda r: r.gt("player", "a").gt("player", "b"),  # two lower bounds
        lambda r: r.eq("player", "a").eq("score", 5).eq("more", 1),  # beyond the last field
        lambda r: r.eq("nosuch", 1),
    ],
)
def test_a_range_that_does_not_follow_the_indexes_fields_is_refused(w: World, chosen: Any) -> None:
    with pytest.raises(Misuse, match=r"index scores\.by_player"):
        w.read(lambda db: db.query("scores").with_index("by_player", chosen))


def test_an_index_that_is_not_declared_is_refused_with_the_cure(w: World) -> None:
    with pytest.raises(Misuse, match=r"declared: by_player, by_score.*declare it with app\.table"):
        w.read(lambda db: db.query("scores").with_index("by_age"))
    with pytest.raises(Misuse, match="one index"):
        w.read(lambda db: db.query("scores").with_index("by_score").with_index("by_player"))


def test_equal_index_keys_are_in_the_order_of_creation(w: World) -> None:
    for player in ("z", "y", "x"):
        w.call(insert, "scores", {"player": player, "score": 1})

    documents = w.read(lambda db: db.query("scores").with_index("by_score", score=1).collect())
    assert [document["player"] for document in documents] == ["z", "y", "x"]


def test_an_index_orders_missing_null_numbers_booleans_text_bytes_lists_and_objects(w: World) -> None:
    """As Convex does, but integers and floats are one kind here, as in Python, and moments follow bytes."""
    for place in reversed(range(len(IN_ORDER))):
        w.call(insert_value, place)
    w.call(insert, "scores", {"player": "missing"})

    documents = w.read(lambda db: db.query("scores").with_index("by_score").collect())
    assert "score" not in documents[0]
    assert [document["score"] for document in documents[1:]] == IN_ORDER


IN_ORDER: list[Any] = [
    None, -2, -1.5, 0, 1, 2.5, 2**60, False, True, "", "a", "b", b"", b"a", datetime(2026, 1, 1, tzinfo=UTC),
    [], [1], {}, {"a": 1},
]  # fmt: skip


@app.mutation
def insert_value(ctx: MutationCtx, place: int) -> None:
    ctx.db.insert("scores", {"score": IN_ORDER[place]})


def test_filters_run_after_the_range_and_add_up(w: World) -> None:
    scored(w)

    def question(db: Any) -> Any:
        query = db.query("scores").with_index("by_score", lambda r: r.gte("score", 5))
        return query.filter(lambda d: d["player"] != "cy").filter(lambda d: d["score"] < 9).collect()

    assert pairs(w.read(question)) == [("ada", 5)]


def test_first_and_take(w: World) -> None:
    scored(w)

    first = w.read(lambda db: db.query("scores").first())
    assert first is not None
    assert first["score"] == 5
    assert w.read(lambda db: db.query("nothing").first()) is None
    assert pairs(w.read(lambda db: db.query("scores").take(2))) == [("ada", 5), ("bob", 1)]
    assert w.read(lambda db: db.query("scores").take(0)) == []
    assert len(w.read(lambda db: db.query("scores").take(99))) == 5
    for wrong in (-1, 1.5, True):
        with pytest.raises(Misuse, match="take"):
            w.read(lambda db, n=wrong: db.query("scores").take(n))  # type: ignore[misc]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("index", [None, "by_score"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_pages_give_every_document_once_in_order(w: World, size: int, index: str | None, descending: bool) -> None:
    scored(w)

    def query(db: Any) -> Any:
        chosen = db.query("scores")
        chosen = chosen if index is None else chosen.with_index(index)
        return chosen.order("desc") if descending else chosen

    expected = w.read(lambda db: query(db).collect())
    found: list[Document] = []
    cursor: str | None = None
    while True:
        page = w.read(lambda db, c=cursor: query(db).paginate(num_items=size, cursor=c))  # type: ignore[misc]
        found += page.page
        cursor = page.continue_cursor
        assert len(page.page) == size or page.is_done
        if page.is_done:
            break

    assert found == expected


def test_a_page_goes_on_after_its_last_document_whatever_was_written_meanwhile(w: World) -> None:
    ids = [w.call(insert, "t", {"n": n}) for n in range(4)]
    first = w.read(lambda db: db.query("t").paginate(num_items=2))
    w.call(delete, ids[1])
    w.call(delete, ids[2])
    w.call(insert, "t", {"n": 4})
    rest = w.read(lambda db: db.query("t").paginate(num_items=5, cursor=first.continue_cursor))

    assert [document["n"] for document in first.page] == [0, 1]
    assert [document["n"] for document in rest.page] == [3, 4]
    assert (first.is_done, rest.is_done) == (False, True)


def test_a_page_of_nothing_is_done(w: World) -> None:
    page = w.read(lambda db: db.query("t").paginate(num_items=3))

    assert (page.page, page.is_done) == ([], True)
    later = w.read(lambda db: db.query("t").paginate(num_items=3, cursor=page.continue_cursor))
    assert (later.page, later.is_done) == ([], True)


def test_a_filter_thins_out_pages_without_losing_any(w: World) -> None:
    for n in range(10):
        w.call(insert, "t", {"n": n})

    def page(cursor: str | None) -> Any:
        return w.read(lambda db: db.query("t").filter(lambda d: d["n"] % 3 == 0).paginate(num_items=2, cursor=cursor))

    first = page(None)
    second = page(first.continue_cursor)
    assert [d["n"] for d in first.page + second.page] == [0, 3, 6, 9]
    assert (first.is_done, second.is_done) == (False, True)


@pytest.mark.parametrize("cursor", ["", "nonsense", "e30=", "bm8="])
def test_a_cursor_that_is_none_is_refused(w: World, cursor: str) -> None:
    with pytest.raises(InvalidArguments, match="cursor"):
        w.read(lambda db: db.query("t").paginate(num_items=1, cursor=cursor))


def test_a_cursor_of_another_query_is_refused(w: World) -> None:
    scored(w)
    page = w.read(lambda db: db.query("scores").paginate(num_items=1))

    for other in (
        lambda db: db.query("t"),
        lambda db: db.query("scores").order("desc"),
        lambda db: db.query("scores").with_index("by_score"),
    ):
        with pytest.raises(InvalidArguments, match="belongs to another query"):
            w.read(lambda db, o=other: o(db).paginate(num_items=1, cursor=page.continue_cursor))  # type: ignore[misc]
    for size in (0, -1, 5000, True, "2"):
        with pytest.raises(Misuse, match="num_items"):
            w.read(lambda db, s=size: db.query("t").paginate(num_items=s))  # type: ignore[misc]


def test_a_query_cannot_write(w: World) -> None:
    def write(db: Any) -> None:
        db.insert("t", {})

    with pytest.raises(AttributeError):
        w.read(write)


@fact("cvx-db-005")
def test_a_functions_clock_stands_still_and_it_cannot_wait(world: OpenWorld) -> None:
    """Python cannot take a function's network away. What it can do: refuse `async def`, freeze `ctx.now`, hand out
    `ctx.random`, and end a function that takes too long.
    """
    local = App("local")
    readings: list[object] = []

    @local.mutation
    def read_twice(ctx: MutationCtx) -> None:
        first = ctx.now
        for n in range(1000):
            ctx.db.insert("t", {"n": n})
        readings.append((first, ctx.now, ctx.random.random()))

    w = world(local)
    w.conflict_next(read_twice, times=2)
    w.app.scheduler.run_after(1, read_twice)
    w.drain()

    assert len(readings) == 3
    for first, second, _ in readings:  # type: ignore[misc]
        assert first == second  # type: ignore[has-type]
    with pytest.raises(RegistrationError, match="transaction must not wait"):

        @local.mutation
        async def waits(ctx: MutationCtx) -> None: ...


@fact("cvx-db-001")
@pytest.mark.postgres
def test_two_transactions_that_miss_each_others_inserts_cannot_both_commit(postgres_url: str) -> None:
    """No phantoms. Convex reruns A whenever what A read has changed; Evertick promises that there is an order in which
    the transactions happened one after another, and reruns A only if there is none. So here B reads what A writes, too.
    """
    local = App("local", database_url=postgres_url)
    local.table("rows", indexes={"by_owner": ["owner"]})
    seen: list[int] = []

    def rows_of(ctx: QueryCtx, owner: str) -> int:
        return len(ctx.db.query("rows").with_index("by_owner", owner=owner).collect())

    @local.mutation
    def b(ctx: MutationCtx) -> None:
        assert rows_of(ctx, "A") == 0
        ctx.db.insert("rows", {"owner": "B"})

    @local.mutation
    def a(ctx: MutationCtx) -> None:
        seen.append(rows_of(ctx, "B"))
        if len(seen) == 1:
            meanwhile = threading.Thread(target=local.call, args=(b,))
            meanwhile.start()
            meanwhile.join()
        ctx.db.insert("rows", {"owner": "A"})

    local.migrate()
    local.call(a)
    local.close()

    assert seen == [0, 1]


@pytest.mark.postgres
def test_a_change_that_no_order_forbids_needs_no_second_run(postgres_url: str) -> None:
    local = App("local", database_url=postgres_url)
    runs: list[int] = []

    @local.mutation
    def b(ctx: MutationCtx) -> None:
        ctx.db.insert("rows", {})

    @local.mutation
    def a(ctx: MutationCtx) -> None:
        runs.append(len(ctx.db.query("rows").collect()))
        meanwhile = threading.Thread(target=local.call, args=(b,))
        meanwhile.start()
        meanwhile.join()
        ctx.db.insert("others", {})

    local.migrate()
    local.call(a)
    local.close()

    assert runs == [0]


@pytest.mark.postgres
def test_increments_from_many_threads_all_count(postgres_url: str) -> None:
    local = App("local", database_url=postgres_url)

    @local.mutation
    def create(ctx: MutationCtx) -> str:
        return ctx.db.insert("counters", {"value": 0})

    @local.mutation
    def increment(ctx: MutationCtx, counter_id: str) -> None:
        counter = ctx.db.get(counter_id)
        assert counter is not None
        ctx.db.patch(counter_id, {"value": counter["value"] + 1})

    @local.query
    def value(ctx: QueryCtx, counter_id: str) -> int:
        counter = ctx.db.get(counter_id)
        assert counter is not None
        return int(counter["value"])

    local.migrate()
    counter_id = local.call(create)
    threads = [threading.Thread(target=local.call, args=(increment, counter_id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert local.call(value, counter_id) == 4
    local.close()
