"""Which part of a table a query reads: built-in indexes, creation time at the end of every index, values that are
missing, fields inside objects, and cursors that fit.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from evertick import UNSET, App, JobId, MutationCtx
from evertick.app.documents.database import DatabaseReader
from evertick.app.documents.queries import DocumentQuery
from evertick.base.errors import InvalidArguments, Misuse, RegistrationError
from evertick.documents import Document
from evertick.testing import World

OpenWorld = Callable[..., World]

app = App("ranges")
app.table("notes", indexes={"by_owner": ["owner"], "by_name": ["name", "where"], "by_city": ["address.city"]})
app.table("notes_of_others")


@app.mutation
def insert(ctx: MutationCtx, fields: dict[str, Any], table: str = "notes") -> str:
    return ctx.db.insert(table, fields)


@app.mutation
def patch(ctx: MutationCtx, document_id: str, fields: dict[str, Any]) -> None:
    ctx.db.patch(document_id, fields)


@app.mutation
def insert_at(ctx: MutationCtx, moment: str) -> None:
    ctx.db.insert("notes", {"owner": datetime.fromisoformat(moment)})


@app.mutation
def noop(ctx: MutationCtx, n: int) -> None: ...


@app.mutation
def schedule(ctx: MutationCtx, n: int) -> JobId:
    return ctx.scheduler.run_after(60, noop, n)


@pytest.fixture
def w(world: OpenWorld) -> Iterator[World]:
    """Five notes, one each second, of two owners; between them a note of another table."""
    opened: World = world(app)
    for n in range(5):
        opened.call(insert, {"n": n, "owner": "ada" if n % 2 == 0 else "bob"})
        opened.call(insert, {"n": n}, "notes_of_others")
        opened.advance(1)
    yield opened


def numbers(documents: list[Document]) -> list[int]:
    return [document["n"] for document in documents]


def both_ways(w: World, index: str, chosen: Any) -> tuple[list[int], list[int]]:
    """What a range holds, upwards and downwards."""

    def question(db: DatabaseReader) -> DocumentQuery:
        return db.query("notes").with_index(index, chosen)

    upwards = w.read(lambda db: question(db).collect())
    return numbers(upwards), numbers(w.read(lambda db: question(db).order("desc").collect()))


def test_creation_time_is_an_index_of_every_table(w: World) -> None:
    times = [document["_creation_time"] for document in w.query("notes")]
    for chosen, expected in (
        (lambda r: r, [0, 1, 2, 3, 4]),
        (lambda r: r.gt("_creation_time", times[1]), [2, 3, 4]),
        (lambda r: r.gte("_creation_time", times[1]), [1, 2, 3, 4]),
        (lambda r: r.lt("_creation_time", times[1]), [0]),
        (lambda r: r.lte("_creation_time", times[1]), [0, 1]),
        (lambda r: r.gt("_creation_time", times[0]).lt("_creation_time", times[3]), [1, 2]),
        (lambda r: r.eq("_creation_time", times[2]), [2]),
        (lambda r: r.gt("_creation_time", times[4]), []),
        (lambda r: r.lt("_creation_time", times[0]), []),
        (lambda r: r.gt("_creation_time", -5).lt("_creation_time", float("inf")), [0, 1, 2, 3, 4]),
    ):
        assert both_ways(w, "by_creation_time", chosen) == (expected, expected[::-1])


def test_the_id_is_an_index_of_every_table(w: World) -> None:
    ids = [document["_id"] for document in w.query("notes")]
    other = w.query("notes_of_others")[0]["_id"]
    for chosen, expected in (
        (lambda r: r.eq("_id", ids[2]), [2]),
        (lambda r: r.gt("_id", ids[2]), [3, 4]),
        (lambda r: r.gte("_id", ids[2]), [2, 3, 4]),
        (lambda r: r.lt("_id", ids[2]), [0, 1]),
        (lambda r: r.lte("_id", ids[2]), [0, 1, 2]),
        (lambda r: r.eq("_id", other), []),
    ):
        assert both_ways(w, "by_id", chosen) == (expected, expected[::-1])


def test_creation_time_stands_at_the_end_of_every_declared_index(w: World) -> None:
    times = [document["_creation_time"] for document in w.query("notes")]
    for chosen, expected in (
        (lambda r: r.eq("owner", "ada").gt("_creation_time", times[0]), [2, 4]),
        (lambda r: r.eq("owner", "ada").gte("_creation_time", times[0]).lt("_creation_time", times[4]), [0, 2]),
        (lambda r: r.eq("owner", "ada").lte("_creation_time", times[2]), [0, 2]),
        (lambda r: r.eq("owner", "bob").eq("_creation_time", times[3]), [3]),
        (lambda r: r.eq("owner", "bob").eq("_creation_time", times[2]), []),
    ):
        assert both_ways(w, "by_owner", chosen) == (expected, expected[::-1])


def test_creation_time_may_be_given_by_name_after_an_indexes_own_fields(w: World) -> None:
    times = [document["_creation_time"] for document in w.query("notes")]

    def of(owner: str, time: float) -> list[int]:
        query = w.read(lambda db: db.query("notes").with_index("by_owner", owner=owner, _creation_time=time).collect())
        return numbers(query)

    assert (of("ada", times[2]), of("bob", times[2])) == ([2], [])
    with pytest.raises(Misuse, match="'owner' must be given first"):
        w.read(lambda db: db.query("notes").with_index("by_owner", _creation_time=times[2]))


def test_moments_are_told_apart_to_the_microsecond_however_far_away(w: World) -> None:
    moments = [datetime(year, 12, 31, 23, 59, 59, n, tzinfo=UTC) for year in (1, 9999) for n in range(999_990, 10**6)]
    for moment in reversed(moments):
        w.call(insert_at, moment.isoformat())

    stored = w.read(lambda db: db.query("notes").with_index("by_owner", lambda r: r.gte("owner", moments[0])).collect())
    assert [document["owner"] for document in stored] == moments
    same = w.read(lambda db: db.query("notes").with_index("by_owner", owner=moments[-2]).collect())
    assert [document["owner"] for document in same] == [moments[-2]]


def test_a_moment_without_a_time_zone_is_no_end_of_a_range(w: World) -> None:
    moment = datetime(2026, 1, 1)
    with pytest.raises(InvalidArguments, match="has no time zone"):
        w.read(lambda db: db.query("notes").with_index("by_owner", lambda r: r.gte("owner", moment)))


def test_what_the_same_mutation_wrote_is_in_the_range_too(world: OpenWorld) -> None:
    local = App("local")
    local.table("notes", indexes={"by_owner": ["owner"]})

    @local.mutation
    def work(ctx: MutationCtx) -> list[list[int]]:
        ids = [ctx.db.insert("notes", {"n": n, "owner": "ada"}) for n in range(4)]
        first = ctx.db.get(ids[0])
        assert first is not None
        after = first["_creation_time"]
        notes = ctx.db.query("notes")
        return [
            numbers(notes.with_index("by_creation_time", lambda r: r.gt("_creation_time", after)).take(2)),
            numbers(notes.with_index("by_owner", lambda r: r.eq("owner", "ada").gt("_creation_time", after)).collect()),
            numbers(notes.with_index("by_id", lambda r: r.lt("_id", ids[2])).order("desc").collect()),
        ]

    assert world(local).call(work) == [[1, 2], [1, 2, 3], [1, 0]]


@pytest.mark.parametrize("index", ["by_creation_time", "by_id", "by_owner"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_range_of_creation_times_is_paged_like_any_other(w: World, index: str, descending: bool) -> None:
    times = [document["_creation_time"] for document in w.query("notes")]
    ids = [document["_id"] for document in w.query("notes")]
    chosen: dict[str, Callable[[Any], Any]] = {
        "by_creation_time": lambda r: r.gt("_creation_time", times[0]),
        "by_id": lambda r: r.gt("_id", ids[0]),
        "by_owner": lambda r: r.eq("owner", "ada").gt("_creation_time", times[0]),
    }
    found: list[int] = []
    cursor = None
    while True:
        page = w.read(
            lambda db, c=cursor: (  # type: ignore[misc]
                db.query("notes")
                .with_index(index, chosen[index])
                .order("desc" if descending else "asc")
                .paginate(num_items=1, cursor=c)
            )
        )
        found += numbers(page.page)
        cursor = page.continue_cursor
        if page.is_done:
            break

    expected = [2, 4] if index == "by_owner" else [1, 2, 3, 4]
    assert found == (expected[::-1] if descending else expected)


def test_scheduled_functions_are_read_by_creation_time_too(w: World) -> None:
    ids = []
    for n in range(3):
        ids.append(w.call(schedule, n))
        w.advance(1)
    second = w.read(lambda db: db.system.get(ids[1]))
    assert second is not None

    def since(db: Any) -> Any:
        query = db.system.query("_scheduled_functions")
        return query.with_index("by_creation_time", lambda r: r.gte("_creation_time", second["_creation_time"]))

    assert [row["_id"] for row in w.read(lambda db: since(db).collect())] == ids[1:]
    assert [row["_id"] for row in w.read(lambda db: since(db).order("desc").collect())] == ids[:0:-1]
    page = w.read(lambda db: since(db).paginate(num_items=1))
    rest = w.read(lambda db: since(db).paginate(num_items=5, cursor=page.continue_cursor))
    assert [row["_id"] for row in page.page + rest.page] == ids[1:]
    with pytest.raises(Misuse, match="it has by_creation_time and by_id"):
        w.read(lambda db: db.system.query("_scheduled_functions").with_index("by_name"))


def test_built_in_indexes_cannot_be_declared_again() -> None:
    for name in ("by_creation_time", "by_id"):
        with pytest.raises(RegistrationError, match="built in"):
            App("local").table("t", indexes={name: ["a"]})


@pytest.mark.parametrize("value", [None, "yesterday", True, float("nan")])
def test_a_creation_time_that_is_no_number_is_refused(w: World, value: Any) -> None:
    with pytest.raises(InvalidArguments, match="_creation_time is a number of milliseconds"):
        w.read(lambda db: db.query("notes").with_index("by_creation_time", lambda r: r.gt("_creation_time", value)))


def test_fields_of_an_index_may_be_called_name_and_where(w: World) -> None:
    w.call(insert, {"n": 7, "name": "x", "where": "here"})

    assert numbers(w.read(lambda db: db.query("notes").with_index("by_name", name="x", where="here").collect())) == [7]


def test_a_missing_field_is_found_and_passed_over_as_unset(w: World) -> None:
    """As `undefined` in Convex: less than None."""
    w.call(insert, {"n": 5, "owner": None})
    w.call(insert, {"n": 6})
    for chosen, expected in (
        (lambda r: r.eq("owner", UNSET), [6]),
        (lambda r: r.eq("owner", None), [5]),
        (lambda r: r.gt("owner", UNSET).lt("owner", "b"), [5, 0, 2, 4]),
        (lambda r: r.lt("owner", "b"), [6, 5, 0, 2, 4]),
        (lambda r: r.gt("owner", None), [0, 2, 4, 1, 3]),
        (lambda r: r.lte("owner", UNSET), [6]),
    ):
        assert both_ways(w, "by_owner", chosen)[0] == expected


def test_an_index_reaches_into_objects_by_a_path(w: World) -> None:
    w.call(insert, {"n": 7, "address": {"city": "Rome"}})
    oslo = w.call(insert, {"n": 8, "address": {"city": "Oslo"}})
    w.call(insert, {"n": 9, "address": "somewhere"})

    def of(city: str) -> list[int]:
        return numbers(
            w.read(lambda db: db.query("notes").with_index("by_city", lambda r: r.eq("address.city", city)).collect())
        )

    assert (of("Rome"), of("Oslo")) == ([7], [8])
    w.call(patch, oslo, {"address": {"city": "Rome"}})
    assert (of("Rome"), of("Oslo")) == ([7, 8], [])


def test_a_cursor_of_another_range_is_refused(w: World) -> None:
    def of(owner: str, cursor: str | None = None) -> Any:
        return w.read(
            lambda db: db.query("notes").with_index("by_owner", owner=owner).paginate(num_items=1, cursor=cursor)
        )

    cursor = of("bob").continue_cursor
    assert numbers(of("bob", cursor).page) == [3]
    with pytest.raises(InvalidArguments, match="belongs to another query"):
        of("ada", cursor)


@pytest.mark.parametrize("cursor", [5, b"", "MQ==", "bnVsbA==", "WyJub3RlcyIsIDVd"])
def test_a_cursor_of_no_query_is_refused(w: World, cursor: Any) -> None:
    with pytest.raises(InvalidArguments, match="cursor"):
        w.read(lambda db: db.query("notes").paginate(num_items=1, cursor=cursor))


def test_a_question_to_a_world_is_answered_within_its_transaction(w: World) -> None:
    unanswered = w.read(lambda db: db.query("notes"))
    with pytest.raises(Misuse, match="this function has ended"):
        unanswered.collect()


def test_a_range_or_filter_that_is_no_function_is_refused(w: World) -> None:
    nothing: Any = None
    wrong: Any = "ada"
    with pytest.raises(Misuse, match="must be returned"):
        w.read(lambda db: db.query("notes").with_index("by_owner", lambda r: nothing))
    with pytest.raises(Misuse, match="must be a function"):
        w.read(lambda db: db.query("notes").with_index("by_owner", wrong))
    with pytest.raises(Misuse, match="takes a function of a document"):
        w.read(lambda db: db.query("notes").filter(nothing))
