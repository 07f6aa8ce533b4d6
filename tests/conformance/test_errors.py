"""What is refused leaves nothing behind, whoever catches it; and whatever a function raises is its own job's end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evertick import UNSET, ActionCtx, App, MutationCtx, SyncActionCtx
from evertick.base.errors import (
    InvalidArguments,
    InvalidDelay,
    LimitExceeded,
    Misuse,
    RegistrationError,
    ValueTooLarge,
)
from evertick.functions import JobState
from evertick.testing import World

OpenWorld = Callable[..., World]

app = App("errors")
app.table("notes", indexes={"by_text": ["text"]})

LONG = "x" * 5_000
"""Longer than a key of an index may be."""


@app.mutation
def insert(ctx: MutationCtx, fields: dict[str, Any]) -> str:
    return ctx.db.insert("notes", fields)


@app.mutation
def insert_many(ctx: MutationCtx, count: int, *, fails: bool) -> None:
    for n in range(count):
        ctx.db.insert("rows", {"n": n})
    if fails:
        raise ValueError("after the writes")


@app.mutation
def insert_around_a_failure(ctx: MutationCtx, failed: int, count: int) -> None:
    with pytest.raises(ValueError, match="after the writes"):
        ctx.run_mutation(insert_many, failed, fails=True)
    ctx.run_mutation(insert_many, count, fails=False)


@app.mutation
def patch(ctx: MutationCtx, document_id: str, fields: dict[str, Any]) -> None:
    ctx.db.patch(document_id, fields)


@app.mutation
def replace(ctx: MutationCtx, document_id: str, fields: dict[str, Any]) -> None:
    ctx.db.replace(document_id, fields)


@app.mutation
def later(ctx: MutationCtx, delay: float) -> str:
    return ctx.scheduler.run_after(delay, insert, {})


class Mute(Exception):
    """An error of which not even the text can be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


class Closed(Exception):
    """An error that tells nothing of where it comes from: its attributes are its own."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@app.mutation
def raise_closed(ctx: MutationCtx) -> None:
    raise Closed


@app.action
async def act_raise_closed(ctx: ActionCtx) -> None:
    raise Closed


@app.mutation
def raise_mute(ctx: MutationCtx) -> None:
    raise Mute


@app.action
async def act_raise_mute(ctx: ActionCtx) -> None:
    raise Mute


@pytest.fixture
def w(world: OpenWorld) -> Iterator[World]:
    opened: World = world(app)
    yield opened


def notes_by_index(w: World) -> list[Any]:
    return [note["text"] for note in w.read(lambda db: db.query("notes").with_index("by_text").collect())]


@pytest.mark.parametrize("function", [raise_closed, act_raise_closed])
def test_an_error_that_can_be_asked_for_nothing_ends_its_job_and_nothing_else(w: World, function: Any) -> None:
    job_id = w.app.scheduler.run_after(0, function)
    other = w.app.scheduler.run_after(0, insert, {"text": "next"})
    w.drain()

    assert w.job(job_id).state is JobState.FAILED
    assert str(w.job(job_id).error).startswith("Closed")
    assert w.job(other).state is JobState.SUCCESS


@pytest.mark.parametrize("function", [raise_mute, act_raise_mute])
def test_an_error_without_a_text_fails_its_job_and_not_the_worker(w: World, function: Any) -> None:
    job_id = w.app.scheduler.run_after(0, function)
    w.app.scheduler.run_after(1, insert, {"text": "next"})
    w.drain()

    assert w.job(job_id).state is JobState.FAILED
    assert w.job(job_id).error == "Mute: <its text cannot be read: RuntimeError>"
    assert notes_by_index(w) == ["next"]


def test_a_document_that_its_index_refuses_is_not_there_when_the_error_is_caught(world: OpenWorld) -> None:
    local = App("local")
    local.table("notes", indexes={"by_text": ["text"]})

    @local.mutation
    def work(ctx: MutationCtx) -> str:
        kept = ctx.db.insert("notes", {"text": "kept"})
        with pytest.raises(ValueTooLarge, match="index key"):
            ctx.db.insert("notes", {"text": LONG})
        with pytest.raises(ValueTooLarge, match="index key"):
            ctx.db.patch(kept, {"text": LONG})
        with pytest.raises(ValueTooLarge, match="index key"):
            ctx.db.replace(kept, {"text": LONG})
        return kept

    w = world(local)
    kept = w.call(work)

    assert [note["_id"] for note in w.query("notes")] == [kept]
    assert [note["text"] for note in w.query("notes")] == ["kept"]
    assert notes_by_index(w) == ["kept"]


@pytest.mark.long
def test_a_nested_mutation_that_failed_gives_its_writes_back(w: World) -> None:
    """As in Convex: what was written and undone counts no more; what was scheduled and read does."""
    w.call(insert_around_a_failure, 9_000, 9_000)
    assert len(w.query("rows")) == 9_000

    with pytest.raises(LimitExceeded, match="documents written"):
        w.call(insert_around_a_failure, 1, 16_001)


def test_a_field_without_a_name_is_refused(w: World) -> None:
    with pytest.raises(InvalidArguments, match="empty"):
        w.call(insert, {"": 1})


def test_a_field_without_a_value_is_left_out(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def work(ctx: MutationCtx) -> list[dict[str, Any] | None]:
        inserted = ctx.db.insert("notes", {"a": 1, "b": UNSET})
        replaced = ctx.db.insert("notes", {"a": 1})
        ctx.db.replace(replaced, {"b": UNSET, "c": 3})
        with pytest.raises(InvalidArguments, match="cannot hold"):
            ctx.db.patch(replaced, {"c": {"inside": UNSET}})
        return [ctx.db.get(inserted), ctx.db.get(replaced)]

    inserted, replaced = world(local).call(work)
    assert inserted is not None
    assert replaced is not None
    assert inserted.keys() == {"_id", "_creation_time", "a"}
    assert replaced.keys() == {"_id", "_creation_time", "c"}


@pytest.mark.parametrize("update", [patch, replace])
def test_the_fields_that_are_evertick_s_own_cannot_be_changed(w: World, update: Any) -> None:
    one, other = w.call(insert, {"text": "one"}), w.call(insert, {"text": "other"})
    as_read = w.get(one)
    assert as_read is not None
    for fields in ({"_id": other}, {"_creation_time": 5}, {"_id": None}):
        with pytest.raises(InvalidArguments, match="cannot be changed"):
            w.call(update, one, fields)

    w.call(update, one, as_read)
    assert w.get(one) == as_read


@pytest.mark.parametrize("fields", [None, [], "text", 5])
def test_fields_that_are_no_dict_are_refused(world: OpenWorld, fields: Any) -> None:
    local = App("local")

    @local.mutation
    def work(ctx: MutationCtx) -> None:
        with pytest.raises(InvalidArguments, match="must be a dict"):
            ctx.db.insert("notes", fields)
        for update in (ctx.db.patch, ctx.db.replace):
            with pytest.raises(InvalidArguments, match="must be a dict"):
                update(ctx.db.insert("notes", {}), fields)

    world(local).call(work)


def test_an_integer_that_python_does_not_write_is_refused(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def work(ctx: MutationCtx) -> None:
        ctx.db.insert("notes", {"n": 10**5_000})

    with pytest.raises(InvalidArguments, match="cannot hold this value: Exceeds the limit"):
        world(local).call(work)


@pytest.mark.parametrize("table", [None, 5, b"notes"])
def test_a_table_that_is_no_text_is_refused(w: World, table: Any) -> None:
    with pytest.raises(RegistrationError, match="not a valid name for a table"):
        w.read(lambda db: db.query(table))


def test_ids_of_scheduled_functions_belong_to_the_system(w: World) -> None:
    note_id, job_id = w.call(insert, {}), w.call(later, 5)
    number: Any = 5

    assert w.read(lambda db: db.system.normalize_id("_scheduled_functions", job_id)) == job_id
    assert w.read(lambda db: db.system.normalize_id("_scheduled_functions", note_id)) is None
    assert w.read(lambda db: db.normalize_id("_scheduled_functions", job_id)) is None
    assert w.read(lambda db: db.normalize_id("job", job_id)) is None
    assert w.read(lambda db: db.normalize_id("notes", number)) is None


@pytest.mark.parametrize("delay", [-0.0001, -1e-300])
def test_the_least_bit_below_zero_is_negative(w: World, delay: float) -> None:
    with pytest.raises(InvalidDelay, match="must not be negative"):
        w.call(later, delay)
    assert w.jobs() == []


def test_an_action_that_waits_cannot_be_called_where_nobody_can_wait(world: OpenWorld) -> None:
    local = App("local")

    @local.action
    async def waits(ctx: ActionCtx) -> None: ...

    @local.action
    def plain(ctx: SyncActionCtx) -> None:
        local.call(waits)

    with pytest.raises(Misuse, match="make the caller an `async def` action, too"):
        world(local).call(plain)
