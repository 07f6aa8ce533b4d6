"""What the record of a scheduled function shows, from the call that schedules it until its retention is over."""

import enum
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from evertick import App, JobId, MutationCtx, QueryCtx
from evertick.base.errors import JobNotFound
from evertick.documents import Document
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("records")


@app.mutation
def send(ctx: MutationCtx, body: str) -> str:
    return ctx.db.insert("messages", {"body": body})


@app.mutation
def send_later(ctx: MutationCtx, delay: float, body: str) -> JobId:
    return ctx.scheduler.run_after(delay, send, body=body)


@app.mutation
def fail(ctx: MutationCtx) -> None:
    raise ValueError("boom")


@app.query
def record(ctx: QueryCtx, job_id: str) -> Document | None:
    return ctx.db.system.get(job_id)


@app.query
def records(ctx: QueryCtx) -> list[Document]:
    return ctx.db.system.query("_scheduled_functions").collect()


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


@fact("cvx-sf-001")
def test_a_scheduled_function_shows_at_once_as_pending(world: OpenWorld) -> None:
    w = world(app)
    called_at = w.now

    job_id = w.call(send_later, 10, "hi")

    row = w.call(record, job_id)
    assert row is not None
    assert row["state"] == {"kind": "pending"}
    assert row["name"] == "tests.conformance.test_records.send"
    assert row["args"] == [{"body": "hi"}]
    assert row["scheduled_time"] == milliseconds(called_at) + 10_000
    assert "completed_time" not in row


def test_half_way_it_is_still_pending_and_at_its_time_it_succeeds_with_its_writes(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.call(send_later, 10, "hi")

    w.advance(9.999)
    assert w.job(job_id).state is JobState.PENDING
    assert w.query("messages") == []

    w.advance(0.001)
    row = w.call(record, job_id)
    assert row is not None
    assert row["state"] == {"kind": "success"}
    assert row["completed_time"] == milliseconds(w.now)
    assert [message["body"] for message in w.query("messages")] == ["hi"]


def test_requested_time_and_arguments_stay_as_they_were_when_it_is_done(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.call(send_later, 10, "hi")
    before = w.call(record, job_id)
    w.drain()
    after = w.call(record, job_id)

    assert before is not None
    assert after is not None
    unchanged = ("_id", "_creation_time", "name", "args", "scheduled_time")
    assert [after[key] for key in unchanged] == [before[key] for key in unchanged]


def test_the_table_lists_scheduled_functions_in_the_order_of_their_creation(world: OpenWorld) -> None:
    w = world(app)
    ids = [w.call(send_later, delay, "hi") for delay in (30, 10, 20)]

    rows = w.call(records)

    assert [row["_id"] for row in rows] == ids
    assert [row["_creation_time"] for row in rows] == sorted(row["_creation_time"] for row in rows)


def test_the_table_can_be_filtered_ordered_and_paged(world: OpenWorld) -> None:
    w = world(app)
    ids = [w.call(send_later, 10, str(number)) for number in range(5)]

    def newest_first(db: Any) -> list[str]:
        return [row["_id"] for row in db.system.query("_scheduled_functions").order("desc").take(2)]

    def only_the_third(db: Any) -> Document | None:
        query = db.system.query("_scheduled_functions").filter(lambda row: row["args"] == [{"body": "2"}])
        found: Document | None = query.unique()
        return found

    def pages(db: Any) -> list[list[str]]:
        first = db.system.query("_scheduled_functions").paginate(num_items=3)
        rest = db.system.query("_scheduled_functions").paginate(num_items=3, cursor=first.continue_cursor)
        assert (first.is_done, rest.is_done) == (False, True)
        return [[row["_id"] for row in page.page] for page in (first, rest)]

    assert w.read(newest_first) == [ids[4], ids[3]]
    third = w.read(only_the_third)
    assert third is not None
    assert third["_id"] == ids[2]
    assert w.read(pages) == [ids[:3], ids[3:]]


def test_a_failed_one_shows_the_error_text_and_when_it_ended(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(5, fail)

    w.advance(60)

    row = w.call(record, job_id)
    assert row is not None
    assert row["state"] == {"kind": "failed", "error": "ValueError: boom"}
    assert row["completed_time"] == row["scheduled_time"]


class Colour(enum.Enum):
    RED = "red"


@app.mutation
def keep(ctx: MutationCtx, n: int, x: float, raw: bytes, nested: list[list[int]]) -> None:
    assert isinstance(n, int)
    assert isinstance(x, float)
    ctx.db.insert("kept", {"n": n, "x": x, "raw": raw, "nested": nested})


@app.mutation
def keep_more(ctx: MutationCtx, at: datetime, price: Decimal, who: UUID, colour: Colour) -> None:
    ctx.db.insert("kept", {"at": at, "price": price, "who": who, "is_red": colour is Colour.RED})


@fact("cvx-sf-024")
def test_arguments_arrive_with_their_values_and_kinds(world: OpenWorld) -> None:
    """Kinds are told by the annotations, so the row holds plain JSON: bytes as base64."""
    w = world(app)
    big = 2**63 - 1

    job_id = w.app.scheduler.run_after(1, keep, big, 1.0, b"\x00\xff", [[1], [2, 3]])
    w.drain()

    (document,) = w.query("kept")
    assert (document["n"], document["x"], document["raw"]) == (big, 1.0, b"\x00\xff")
    assert document["nested"] == [[1], [2, 3]]
    row = w.call(record, job_id)
    assert row is not None
    assert row["args"] == [{"n": big, "x": 1.0, "raw": "AP8=", "nested": [[1], [2, 3]]}]


def test_kinds_that_convex_does_not_have_arrive_too(world: OpenWorld) -> None:
    w = world(app)
    at = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    who = UUID(int=7)

    w.app.scheduler.run_after(1, keep_more, at, Decimal("1.10"), who, Colour.RED)
    w.drain()

    (document,) = w.query("kept")
    assert (document["at"], document["price"], document["who"]) == (at, Decimal("1.10"), who)
    assert document["is_red"] is True


def test_what_a_function_returned_is_kept_with_its_job(world: OpenWorld) -> None:
    """Convex does not store results; Evertick does, because somebody always asks."""
    w = world(app)
    job_id = w.call(send_later, 1, "hi")
    w.drain()

    assert w.job(job_id).result == w.query("messages")[0]["_id"]


@fact("cvx-sf-054")
def test_a_finished_job_stays_readable_for_seven_days_and_is_gone_a_little_later(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, fail)
    w.advance(0)

    w.advance(timedelta(days=6, hours=23))
    assert w.job(job_id).error == "ValueError: boom"

    w.advance(timedelta(hours=4))
    assert w.call(record, job_id) is None
    with pytest.raises(JobNotFound, match="retention"):
        w.job(job_id)


@pytest.mark.long
def test_retention_counts_from_the_end_and_spares_what_is_pending(world: OpenWorld) -> None:
    w = world(app)
    late = w.call(send_later, timedelta(days=30).total_seconds(), "late")
    never_read = w.call(send_later, 1, "soon")

    w.advance(timedelta(days=29))
    assert w.job(late).state is JobState.PENDING
    assert w.call(record, never_read) is None

    w.advance(timedelta(days=1))
    w.advance(timedelta(days=6, hours=23))
    assert w.job(late).state is JobState.SUCCESS


def test_canceled_and_succeeded_jobs_are_removed_like_failed_ones(world: OpenWorld) -> None:
    w = world(app)
    ids = [w.call(send_later, 60, "a"), w.call(send_later, 1, "b")]
    w.app.scheduler.cancel(ids[0])
    w.advance(timedelta(days=7, hours=4))

    assert [w.call(record, job_id) for job_id in ids] == [None, None]
    assert [message["body"] for message in w.query("messages")] == ["b"]
