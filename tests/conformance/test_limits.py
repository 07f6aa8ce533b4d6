"""Every limit has a name, an error, and a warning from four fifths on.

Where the figures differ from Convex's, DESIGN chose: 8 MB of arguments a call (its documents say that, its code 16),
4 MB for one job (there a warning, here an error: a limit that is announced is kept). Convex's limits on the number of
fields (1024), on array elements (8192) and on bytes read and written follow here from the size of a document and the
number of documents.
"""

from collections.abc import Callable

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx
from evertick.base.errors import (
    ArgumentsTooLarge,
    InvalidArguments,
    LimitExceeded,
    RegistrationError,
    TooManyJobs,
    ValueTooLarge,
)
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

MEGABYTE = 1024 * 1024

app = App("limits")
app.table("rows", indexes={"by_n": ["n"]})


@app.mutation
def small(ctx: MutationCtx, n: int = 0) -> None:
    ctx.db.insert("ran", {"n": n})


@app.mutation
def large(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("ran", {"size": len(text)})


@app.mutation
def schedule_small(ctx: MutationCtx, count: int) -> None:
    for n in range(count):
        ctx.scheduler.run_after(1, small, n)


@app.mutation
def schedule_large(ctx: MutationCtx, count: int, size: int) -> None:
    for _ in range(count):
        ctx.scheduler.run_after(1, large, "x" * size)


@app.mutation
def schedule_in_parts(ctx: MutationCtx, *parts: int) -> None:
    for count in parts:
        ctx.run_mutation(schedule_small, count)


@app.mutation
def schedule_after_a_failed_part(ctx: MutationCtx, failed: int, count: int) -> None:
    with pytest.raises(TooManyJobs):
        ctx.run_mutation(schedule_small, failed)
    ctx.run_mutation(schedule_small, count)


@app.action
async def act_schedule(ctx: ActionCtx, count: int) -> None:
    for n in range(count):
        await ctx.scheduler.run_after(1, small, n)


@app.action
async def act_schedule_large(ctx: ActionCtx, count: int, size: int) -> None:
    for _ in range(count):
        await ctx.scheduler.run_after(1, large, "x" * size)


@app.action
async def act_in_parts(ctx: ActionCtx, *parts: int) -> None:
    await ctx.run_mutation(schedule_small, 1)
    for count in parts:
        await ctx.run_action(act_schedule, count)


@app.mutation
def write_many(ctx: MutationCtx, count: int) -> None:
    for n in range(count):
        ctx.db.insert("rows", {"n": n})


@app.query
def read_many(ctx: QueryCtx, times: int) -> int:
    return sum(len(ctx.db.query("rows").collect()) for _ in range(times))


@app.query
def read_filtered(ctx: QueryCtx, times: int) -> int:
    return sum(len(ctx.db.query("rows").filter(lambda row: row["n"] < 0).collect()) for _ in range(times))


@app.mutation
def log_lines(ctx: MutationCtx, count: int, size: int) -> None:
    for _ in range(count):
        ctx.log.info("y" * size)


@fact("cvx-sf-020")
def test_the_1001st_job_of_a_call_is_refused_and_nothing_is_scheduled(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(TooManyJobs, match=r"too many functions scheduled by this call \(limit: 1000\)"):
        w.call(schedule_small, 1001)
    assert w.jobs() == []


def test_ten_thousand_fail_at_the_1001st_too(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(TooManyJobs, match="limit: 1000"):
        w.call(schedule_small, 10_000)
    assert w.jobs() == []


@fact("cvx-sf-022")
def test_exactly_1000_jobs_are_accepted_and_each_runs_once(world: OpenWorld) -> None:
    w = world(app)
    w.call(schedule_small, 1000)
    assert len(w.pending()) == 1000
    w.advance(1)

    assert [document["n"] for document in w.query("ran")] == list(range(1000))


def test_bulk_scheduling_counts_every_job(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx, n: int) -> None: ...

    @local.mutation
    def bulk(ctx: MutationCtx, count: int) -> None:
        ctx.scheduler.run_after_many(1, [target.with_args(n) for n in range(count)])

    w = world(local)
    w.call(bulk, 1000)
    assert len(w.jobs()) == 1000
    with pytest.raises(TooManyJobs):
        w.call(bulk, 1001)


def test_nested_mutations_share_the_count(world: OpenWorld) -> None:
    w = world(app)
    w.call(schedule_in_parts, 500, 500)

    with pytest.raises(TooManyJobs):
        w.call(schedule_in_parts, 500, 501)
    assert len(w.jobs()) == 1000


def test_a_failed_nested_mutation_gives_its_count_not_back(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(TooManyJobs):
        w.call(schedule_after_a_failed_part, 1001, 1)


@pytest.mark.long
@fact("cvx-sf-020")
def test_the_1001st_job_of_an_action_is_refused_and_those_before_it_stay(world: OpenWorld) -> None:
    w = world(app)
    with pytest.raises(TooManyJobs, match=r"too many functions scheduled by this call \(limit: 1000\)"):
        w.call(act_schedule, 1001)

    assert len(w.jobs(small)) == 1000


@pytest.mark.long
def test_actions_that_an_action_calls_share_the_count_and_mutations_have_their_own(world: OpenWorld) -> None:
    w = world(app)
    w.call(act_in_parts, 500, 500)
    assert len(w.jobs(small)) == 1001

    with pytest.raises(TooManyJobs):
        w.call(act_in_parts, 501, 500)


def test_more_than_8_megabytes_of_arguments_in_an_action_are_refused(world: OpenWorld) -> None:
    w = world(app)
    with pytest.raises(ArgumentsTooLarge, match=r"total size of the arguments .*limit: 8388608 bytes"):
        w.call(act_schedule_large, 9, MEGABYTE)

    assert len(w.jobs()) == 7


@pytest.mark.long
def test_an_action_that_comes_near_a_limit_is_warned_in_its_log(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, act_schedule, 801)
    w.advance(0)

    assert w.job(job_id).logs == ["warning: many functions scheduled by this call (actual: 801, limit: 1000)"]


@pytest.mark.parametrize(("count", "warnings"), [(800, 0), (801, 1), (950, 1)])
def test_above_four_fifths_of_the_jobs_the_log_warns(world: OpenWorld, count: int, warnings: int) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, schedule_small, count)
    w.advance(0)

    line = f"warning: many functions scheduled by this call (actual: {count}, limit: 1000)"
    assert w.job(job_id).logs == [line] * warnings


@pytest.mark.long
def test_more_than_8_megabytes_of_arguments_in_a_call_are_refused(world: OpenWorld) -> None:
    w = world(app)
    w.call(schedule_large, 7, MEGABYTE)
    assert len(w.jobs()) == 7

    with pytest.raises(ArgumentsTooLarge, match=r"total size of the arguments .*limit: 8388608 bytes"):
        w.call(schedule_large, 9, MEGABYTE)
    assert len(w.jobs()) == 7


def test_above_four_fifths_of_the_arguments_the_log_warns(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, schedule_large, 7, MEGABYTE)
    w.advance(0)

    size = 7 * (MEGABYTE + len('{"text":""}'))
    line = f"warning: many bytes of arguments of functions scheduled by this call (actual: {size}, limit: 8388608)"
    assert w.job(job_id).logs == [line]


@pytest.mark.long
def test_arguments_of_one_job_are_refused_above_4_megabytes_wherever_it_is_scheduled(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(ArgumentsTooLarge, match="limit for one job is 4194304 bytes"):
        w.call(schedule_large, 1, 4 * MEGABYTE)
    with pytest.raises(ArgumentsTooLarge, match="limit for one job is 4194304 bytes"):
        w.app.scheduler.run_after(1, large, "x" * 4 * MEGABYTE)
    assert w.jobs() == []


@pytest.mark.long
def test_letters_beyond_ascii_count_by_their_bytes(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def answer(ctx: MutationCtx, text: str) -> str:
        return text

    @local.mutation
    def schedule(ctx: MutationCtx, jobs: int, size: int) -> None:
        for _ in range(jobs):
            ctx.scheduler.run_after(1, answer, "é" * size)

    w = world(local)
    with pytest.raises(ArgumentsTooLarge, match="arguments of 4194315 bytes"):
        w.app.scheduler.run_after(0, answer, "é" * (2 * MEGABYTE))
    with pytest.raises(ArgumentsTooLarge, match="limit: 8388608 bytes"):
        w.call(schedule, 5, MEGABYTE)
    assert w.jobs() == []
    job_id = w.app.scheduler.run_after(0, answer, "é" * (MEGABYTE // 2))
    w.drain()

    assert "it returned 1048578 bytes; the limit is 1048576" in str(w.job(job_id).error)


def test_arguments_of_one_job_warn_above_four_fifths_and_arrive(world: OpenWorld) -> None:
    w = world(app)
    size = 4 * MEGABYTE - len('{"text":""}')
    job_id = w.app.scheduler.run_after(0, schedule_large, 1, size)
    w.drain()

    assert w.job(job_id).logs == [
        "warning: many bytes of arguments of one scheduled function (actual: 4194304, limit: 4194304)"
    ]
    assert [document["size"] for document in w.query("ran")] == [size]


def test_a_document_holds_up_to_a_megabyte(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def insert(ctx: MutationCtx, size: int) -> str:
        return ctx.db.insert("docs", {"text": "x" * size})

    w = world(local)
    fits = MEGABYTE - len('{"text":""}')
    w.call(insert, fits)
    with pytest.raises(ValueTooLarge, match="the document has 1048577 bytes; the limit is 1048576"):
        w.call(insert, fits + 1)
    assert len(w.query("docs")) == 1


def test_a_document_is_nested_up_to_64_levels(world: OpenWorld) -> None:
    """Convex allows 16."""
    local = App("local")

    @local.mutation
    def insert(ctx: MutationCtx, depth: int, *, lists: bool) -> str:
        value: object = 1
        for _ in range(depth):
            value = [value] if lists else {"x": value}
        return ctx.db.insert("docs", {"value": value})

    w = world(local)
    for lists in (True, False):
        w.call(insert, 63, lists=lists)
        with pytest.raises(ValueTooLarge, match="nested deeper than 64"):
            w.call(insert, 64, lists=lists)
    assert len(w.query("docs")) == 2


def test_a_document_that_is_wide_is_not_taken_for_a_deep_one(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def insert(ctx: MutationCtx) -> None:
        ctx.db.insert("docs", {"rows": [{"n": [n]} for n in range(1000)], "text": "[[{{" * 100})

    w = world(local)
    w.call(insert)
    assert len(w.query("docs")[0]["rows"]) == 1000


@pytest.mark.long
def test_a_call_writes_up_to_16000_documents(world: OpenWorld) -> None:
    w = world(app)
    w.call(write_many, 16_000)

    with pytest.raises(LimitExceeded, match=r"too many documents written in one call \(limit: 16000\)"):
        w.call(write_many, 16_001)
    assert w.call(read_many, 1) == 16_000


@pytest.mark.long
def test_a_call_reads_up_to_32000_documents_dropped_ones_included(world: OpenWorld) -> None:
    w = world(app)
    w.call(write_many, 16_000)

    assert w.call(read_many, 2) == 32_000
    with pytest.raises(LimitExceeded, match=r"too many documents read in one call \(limit: 32000\)"):
        w.call(read_many, 3)
    with pytest.raises(LimitExceeded, match=r"too many documents read"):
        w.call(read_filtered, 3)


def test_a_run_keeps_256_lines_of_log_and_4096_characters_of_a_line(world: OpenWorld) -> None:
    w = world(app)
    many = w.app.scheduler.run_after(0, log_lines, 257, 10)
    long = w.app.scheduler.run_after(0, log_lines, 1, 4097)
    fits = w.app.scheduler.run_after(0, log_lines, 256, 10)
    w.advance(0)

    assert (len(w.job(many).logs), w.job(many).logs_truncated) == (256, True)
    assert (w.job(long).logs, w.job(long).logs_truncated) == (["info: " + "y" * 4096], True)
    assert (len(w.job(fits).logs), w.job(fits).logs_truncated) == (256, False)


def test_a_result_is_kept_up_to_a_megabyte(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def answer(ctx: MutationCtx, size: int) -> str:
        return "z" * size

    w = world(local)
    fits, too_long = (w.app.scheduler.run_after(0, answer, size) for size in (MEGABYTE - 2, MEGABYTE - 1))
    w.drain()

    assert w.job(fits).state is JobState.SUCCESS
    assert w.job(too_long).state is JobState.FAILED
    assert "the limit is 1048576" in str(w.job(too_long).error)


def test_a_table_has_up_to_32_indexes_of_up_to_16_fields() -> None:
    fields = [f"f{n}" for n in range(16)]
    App("local").table("t", indexes={f"i{n}": fields for n in range(32)})

    with pytest.raises(RegistrationError, match="33 indexes; the limit is 32"):
        App("local").table("t", indexes={f"i{n}": ["a"] for n in range(33)})
    with pytest.raises(RegistrationError, match="1 to 16 fields"):
        App("local").table("t", indexes={"i": [*fields, "one_more"]})
    with pytest.raises(RegistrationError, match="1 to 16 fields"):
        App("local").table("t", indexes={"i": []})


@pytest.mark.parametrize("name", ["x" * 65, "1a", "a-b", "_a", "", "job"])
def test_names_of_tables_are_64_letters_digits_and_underscores(name: str) -> None:
    with pytest.raises(RegistrationError, match="not a valid name for a table"):
        App("local").table(name)


def test_a_key_has_up_to_512_characters(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.using(key="k" * 512).run_after(1, small)

    for key in ("", "k" * 513):
        with pytest.raises(Exception, match="1 to 512 characters"):
            w.app.scheduler.using(key=key).run_after(1, small)


def test_an_argument_that_json_cannot_hold_is_refused(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def take(ctx: MutationCtx, value: object) -> None: ...

    w = world(local)
    with pytest.raises(InvalidArguments, match="cannot be stored as JSON"):
        w.app.scheduler.run_after(1, take, object())
