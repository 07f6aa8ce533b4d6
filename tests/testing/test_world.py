"""A world: time that jumps, jobs that run meanwhile, and things that go wrong on demand."""

import asyncio
import gc
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Settings, SyncActionCtx, every
from evertick.base.errors import (
    DatabaseUnavailable,
    FunctionNotFound,
    InvalidDelay,
    InvalidTenant,
    JobNotFound,
    LimitExceeded,
    Misuse,
    WriteConflict,
)
from evertick.engine.runtime.executors import CONFLICTS
from evertick.engine.runtime.loop import Loop
from evertick.functions import JobState
from evertick.testing import World

OpenWorld = Callable[..., World]

app = App("chat")
app.table("messages", indexes={"by_author": ["author"]})


@app.mutation
def send_expiring_message(ctx: MutationCtx, body: str, author: str) -> str:
    message_id = ctx.db.insert("messages", {"body": body, "author": author})
    ctx.scheduler.run_after(5, destruct, message_id)
    return message_id


@app.mutation(internal=True)
def destruct(ctx: MutationCtx, message_id: str) -> None:
    ctx.db.delete(message_id)


@app.mutation
def note(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("notes", {"text": text, "at": ctx.now.isoformat()})


@app.query
def count_messages(ctx: QueryCtx) -> int:
    return len(ctx.db.query("messages").collect())


@app.action
async def nap(ctx: ActionCtx, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"slept until {ctx.now:%H:%M:%S}"


@app.mutation
def tick_for_ever(ctx: MutationCtx) -> None:
    ctx.scheduler.run_after(1, tick_for_ever)


def test_a_message_destroys_itself_after_five_seconds() -> None:
    with World(app, at="2026-03-29T00:59:58Z") as world:
        message_id = world.call(send_expiring_message, "hello", "ada")
        (job,) = world.pending(destruct)
        assert job.due_at == datetime(2026, 3, 29, 1, 0, 3, tzinfo=UTC)

        world.advance(4.999)
        assert world.get(message_id) is not None
        world.advance(0.001)
        assert world.get(message_id) is None
        assert world.now == datetime(2026, 3, 29, 1, 0, 3, tzinfo=UTC)


def test_nothing_runs_while_no_time_passes(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, note, "now")
    w.call(count_messages)
    w.call(note, "another")
    assert w.job(job_id).state is JobState.PENDING

    w.advance(0)
    assert w.job(job_id).state is JobState.SUCCESS


@pytest.mark.parametrize(
    "at", ["2026-06-01T12:00:00+02:00", datetime(2026, 6, 1, 10, tzinfo=UTC), "2026-06-01T10:00:00Z"]
)
def test_a_world_begins_when_it_is_told_to(world: OpenWorld, at: Any) -> None:
    assert world(app, at=at).now == datetime(2026, 6, 1, 10, tzinfo=UTC)


def test_a_beginning_without_a_time_zone_is_refused(world: OpenWorld) -> None:
    with pytest.raises(InvalidDelay, match="'2026-06-01' has no time zone; write it as 2026-06-01T00:00:00Z"):
        world(app, at="2026-06-01")
    with pytest.raises(InvalidDelay, match=r"no time zone.*tzinfo"):
        world(app, at=datetime(2026, 6, 1))
    with pytest.raises(Misuse, match="is not a time"):
        world(app, at="tomorrow")


def test_advance_takes_seconds_and_timedeltas_and_advance_to_moments(world: OpenWorld) -> None:
    w = world(app, at="2026-01-01T00:00:00Z")
    w.advance(1.5)
    w.advance(timedelta(hours=1))
    assert w.now == datetime(2026, 1, 1, 1, 0, 1, 500_000, tzinfo=UTC)
    w.advance_to("2026-01-02T00:00:00Z")
    w.advance_to(datetime(2026, 1, 2, 2, tzinfo=timezone(timedelta(hours=1))))
    assert w.now == datetime(2026, 1, 2, 1, tzinfo=UTC)

    with pytest.raises(InvalidDelay, match="negative"):
        w.advance(-1)
    with pytest.raises(Misuse, match="does not go back"):
        w.advance_to("2026-01-01T00:00:00Z")


def test_jobs_see_the_moment_at_which_they_are_due(world: OpenWorld) -> None:
    w = world(app, at="2026-01-01T00:00:00Z")
    for seconds in (86_400, 1, 3600):
        w.app.scheduler.run_after(seconds, note, f"{seconds}")
    w.advance(timedelta(days=2))

    assert [(n["text"], n["at"]) for n in w.query("notes")] == [
        ("1", "2026-01-01T00:00:01+00:00"),
        ("3600", "2026-01-01T01:00:00+00:00"),
        ("86400", "2026-01-02T00:00:00+00:00"),
    ]


def test_an_action_sleeps_in_no_time(world: OpenWorld) -> None:
    w = world(app, at="2026-01-01T00:00:00Z")

    assert w.call(nap, 3600) == "slept until 01:00:00"
    assert w.now == datetime(2026, 1, 1, 1, tzinfo=UTC)


def test_jobs_run_while_an_action_waits(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after(1, note, "meanwhile")
    w.app.scheduler.run_after(60, note, "afterwards")
    w.call(nap, 30)

    assert [n["text"] for n in w.query("notes")] == ["meanwhile"]


def test_a_call_raises_what_the_function_raises(world: OpenWorld) -> None:
    w = world(app)
    w.fail_next(note, KeyError("of the mutation"))
    w.fail_next(count_messages, KeyError("of the query"))
    w.fail_next(nap, KeyError("of the action"))

    with pytest.raises(KeyError, match="of the mutation"):
        w.call(note, "x")
    with pytest.raises(KeyError, match="of the query"):
        w.call(count_messages)
    with pytest.raises(KeyError, match="of the action"):
        w.call(nap, 1)


@pytest.mark.long
def test_an_action_that_waits_for_nothing_is_ended(world: OpenWorld) -> None:
    local = App("local")

    @local.action
    async def hang(ctx: ActionCtx) -> None:
        await asyncio.Event().wait()

    w = world(local)
    with pytest.raises(TimeoutError, match="simulated time"):
        w.call(hang)
    w.advance(60)


@pytest.mark.long
def test_drain_runs_everything_however_far_away_and_stops_when_the_last_has_run(world: OpenWorld) -> None:
    w = world(app, at="2026-01-01T00:00:00Z")
    w.app.scheduler.run_after(timedelta(days=100), note, "far")
    w.app.scheduler.run_after(0, nap, 30)
    w.drain()

    assert w.pending() == []
    assert w.now == datetime(2026, 4, 11, tzinfo=UTC)
    w.drain()
    assert w.now == datetime(2026, 4, 11, tzinfo=UTC)


def test_drain_leaves_the_jobs_of_a_paused_pool(world: OpenWorld) -> None:
    app = App("app")
    app.pool("mail", running=2)

    @app.mutation(pool="mail")
    def send(ctx: MutationCtx) -> None:
        """Send a mail."""

    w = world(app)
    app.pools.pause("mail")
    job = app.scheduler.run_after(3600, send)
    w.drain()
    assert w.job(job).state == "pending"

    app.pools.resume("mail")
    w.drain()
    assert w.job(job).state == "success"


def test_drain_waits_for_actions_that_run(world: OpenWorld) -> None:
    w = world(app)
    start = w.now
    job_id = w.app.scheduler.run_after(0, nap, 30)
    w.drain()

    assert w.job(job_id).state is JobState.SUCCESS
    assert w.now == start + timedelta(seconds=30)


@pytest.mark.long
def test_drain_of_a_chain_without_end_says_so(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after(0, tick_for_ever)

    with pytest.raises(LimitExceeded, match=r"after 100 attempts.*schedules itself"):
        w.drain(jobs_max=100)
    w.advance(10)
    assert len(w.pending()) == 1


def test_drain_leaves_what_nobody_knows(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after(5, note, "x")
    w.deploy(App("chat"))
    w.drain()

    assert [job.blocked for job in w.jobs()] == [True]


def test_a_world_without_a_worker_cannot_be_drained(world: OpenWorld) -> None:
    w = world(app)
    w.kill()
    with pytest.raises(Misuse, match=r"world\.restart\(\)"):
        w.drain()


def test_jobs_are_listed_by_function_and_state(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after(1, note, "done")
    late, early = (w.app.scheduler.run_after(delay, note, "waits") for delay in (60, 30))
    napping = w.app.scheduler.run_after(1, nap, 1000)
    w.advance(5)

    assert [job.state.value for job in w.jobs(note)] == ["success", "pending", "pending"]
    assert [job.id for job in w.jobs(state="in_progress")] == [napping]
    assert [job.id for job in w.pending()] == [early, late]
    assert [job.id for job in w.pending(nap)] == []
    assert len(w.jobs(note.name)) == 3
    with pytest.raises(JobNotFound):
        w.job("job_" + "0" * 28)


def test_a_job_shows_what_is_known_of_it(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def f(ctx: MutationCtx, n: int) -> int:
        ctx.log.info("n is %d", n)
        ctx.log.warning("careful")
        return n + 1

    w = world(local, at="2026-01-01T00:00:00Z")
    parent = w.app.scheduler.using(key="k").run_after(60, f, 4)
    w.advance(100)
    job = w.job(parent)

    assert (job.function, job.kind.value, job.state.value) == (f.name, "mutation", "success")
    assert (job.args, job.result, job.error, job.traceback) == ({"n": 4}, 5, None, None)
    assert job.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert job.requested_at == job.due_at == job.completed_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert (job.attempt, job.failures, job.crashes, job.key, job.blocked) == (1, 0, 0, "k", False)
    assert job.logs == ["info: n is 4", "warning: careful"]


def test_documents_are_read_whole_or_by_a_question(world: OpenWorld) -> None:
    w = world(app)
    ids = [w.call(send_expiring_message, "hi", author) for author in ("ada", "bob")]

    assert [m["_id"] for m in w.query("messages")] == ids
    assert w.query("nothing") == []
    assert [job["name"] for job in w.query("_scheduled_functions")] == [destruct.name] * 2
    by_bob = w.read(lambda db: db.query("messages").with_index("by_author", author="bob").unique())
    assert by_bob is not None
    assert by_bob["_id"] == ids[1]


def test_the_same_seed_is_the_same_story() -> None:
    def story(seed: int) -> tuple[Any, ...]:
        with World(app, seed=seed) as world:
            world.fail_next(note, ValueError("x"))
            ids = [world.call(send_expiring_message, "hi", "ada") for _ in range(3)]
            world.drain()
            return ids, world.jobs(), world.now

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_an_app_lives_in_worlds_one_after_another_and_then_in_none() -> None:
    local = App("local", database_url="sqlite://")

    @local.mutation
    def put(ctx: MutationCtx) -> int:
        ctx.db.insert("t", {})
        return len(ctx.db.query("t").collect())

    assert local.call(put) == 1
    for _ in range(2):
        with World(local) as world:
            assert world.call(put) == 1
            assert local.call(put) == 2  # the app itself means the world, too
            local.scheduler.run_after(5, put)
            world.advance(5)
            assert len(world.query("t")) == 3
    assert local.call(put) == 2
    local.close()
    local.close()


def test_an_app_lives_in_one_world_at_a_time(world: OpenWorld) -> None:
    world(app)
    with pytest.raises(Misuse, match="belongs to another world"):
        world(app)


def test_a_world_that_could_not_begin_lets_the_app_go(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def broken(ctx: MutationCtx, x: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for _ in range(2):
        with pytest.raises(Exception, match="NoSuchType"):
            world(local)


def test_fail_next_fails_runs_in_turn_and_runs_nothing_of_them(world: OpenWorld) -> None:
    w = world(app)
    w.fail_next(note, ValueError("first"))
    w.fail_next(note, OSError("second"))
    ids = [w.app.scheduler.run_after(n, note, f"{n}") for n in range(3)]
    w.drain()

    assert [w.job(job_id).error for job_id in ids] == ["ValueError: first", "OSError: second", None]
    assert [n["text"] for n in w.query("notes")] == ["2"]


def test_faults_end_with_their_world(world: OpenWorld) -> None:
    handler = note.handler
    with World(app) as first:
        first.fail_next(note, ValueError("never raised"))
        first.conflict_next(note)
    assert note.handler is handler

    w = world(app)
    w.call(note, "fine")
    assert len(w.query("notes")) == 1


def test_a_fault_of_a_function_that_is_not_the_worlds_is_refused(world: OpenWorld) -> None:
    w = world(App("other"))
    with pytest.raises(FunctionNotFound):
        w.fail_next(note, ValueError())


def test_conflict_next_runs_the_function_again(world: OpenWorld) -> None:
    local = App("local")
    runs: list[int] = []

    @local.mutation
    def f(ctx: MutationCtx) -> None:
        runs.append(len(ctx.db.query("t").collect()))
        ctx.db.insert("t", {})

    w = world(local)
    w.conflict_next(f, times=2)
    w.call(f)
    assert runs == [0, 0, 0]

    w.conflict_next(f, times=CONFLICTS.attempts)
    with pytest.raises(WriteConflict):
        w.call(f)
    assert len(w.query("t")) == 1


def test_a_crash_strikes_jobs_alone(world: OpenWorld) -> None:
    w = world(app)
    w.crash_before_commit(note)
    w.call(note, "called")
    assert len(w.query("notes")) == 1

    job_id = w.app.scheduler.run_after(1, note, "scheduled")
    w.advance(10)
    assert w.job(job_id).state is JobState.PENDING
    assert len(w.query("notes")) == 1
    w.restart()
    assert w.job(job_id).state is JobState.SUCCESS
    assert len(w.query("notes")) == 2


def test_a_killed_worker_gets_no_last_word(world: OpenWorld) -> None:
    local = App("local")
    said: list[str] = []

    @local.action
    async def talk(ctx: ActionCtx) -> None:
        try:
            said.append("hello")
            await asyncio.sleep(10)
            said.append("still here")
        finally:
            said.append("goodbye")

    w = world(local)
    w.app.scheduler.run_after(0, talk)
    w.advance(5)
    w.kill()
    w.advance(60)
    w.restart()
    w.advance(60)

    assert said == ["hello"]


def test_while_the_database_is_away_nobody_reaches_it(world: OpenWorld) -> None:
    w = world(app)
    with w.database_unavailable():
        with pytest.raises(DatabaseUnavailable):
            w.call(note, "x")
        with pytest.raises(DatabaseUnavailable):
            w.jobs()
    w.call(note, "x")
    assert len(w.query("notes")) == 1


def test_a_plain_action_runs_in_the_tests_own_thread(world: OpenWorld) -> None:
    local = App("local")

    @local.action
    def plain(ctx: SyncActionCtx) -> int:
        return threading.get_ident()

    @local.action
    async def to_thread(ctx: ActionCtx) -> int:
        return await asyncio.to_thread(threading.get_ident)

    w = world(local)
    before = set(threading.enumerate())
    w.app.scheduler.run_after(0, plain)
    w.drain()

    me = threading.get_ident()
    assert [job.result for job in w.jobs()] == [me]
    assert (w.call(plain), w.call(to_thread)) == (me, me)
    assert set(threading.enumerate()) <= before


def test_a_function_in_an_executor_raises_where_it_is_awaited(world: OpenWorld) -> None:
    local = App("local")

    @local.action
    async def divide(ctx: ActionCtx) -> str:
        try:
            await asyncio.to_thread(lambda: 1 / 0)
        except ZeroDivisionError:
            return "caught"
        return "missed"

    assert world(local).call(divide) == "caught"


def test_settings_are_the_apps_unless_given(world: OpenWorld) -> None:
    local = App("local", settings=Settings(action_timeout=timedelta(seconds=5)))

    @local.action
    async def slow(ctx: ActionCtx) -> None:
        await asyncio.sleep(10)

    for settings, ends in ((None, JobState.FAILED), (Settings(), JobState.SUCCESS)):
        with World(local, settings=settings) as w:
            job_id = w.app.scheduler.run_after(0, slow)
            w.drain()
            assert w.job(job_id).state is ends


def test_a_world_works_inside_a_running_event_loop() -> None:
    async def test() -> str:
        with World(app, at="2026-01-01T00:00:00Z") as world:
            answer = world.call(nap, 60)
        await asyncio.sleep(0)
        return answer

    assert asyncio.run(test()) == "slept until 00:01:00"


def test_timeouts_of_actions_are_simulated_too(world: OpenWorld) -> None:
    local = App("local")

    @local.action
    async def impatient(ctx: ActionCtx) -> str:
        try:
            async with asyncio.timeout(30):
                await asyncio.sleep(3600)
        except TimeoutError:
            return f"gave up at {ctx.now:%H:%M:%S}"
        return "waited"

    assert world(local, at="2026-01-01T00:00:00Z").call(impatient) == "gave up at 00:00:30"


def test_a_loop_that_breaks_is_logged_tries_again_each_second_and_goes_on(
    world: OpenWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from evertick.engine.jobs.mutations import MutationLoop

    rounds = 0

    async def broken(self: MutationLoop) -> None:
        nonlocal rounds
        rounds += 1
        raise ZeroDivisionError("a bug of the engine")

    w = world(app)
    with monkeypatch.context() as patched:
        patched.setattr(MutationLoop, "round", broken)
        w.call(note, "x")
        w.app.scheduler.run_after(1, note, "y")
        w.advance(10)
        assert len(w.query("notes")) == 1
        assert 10 <= rounds <= 13  # and one at each poke
    w.advance(1)

    assert len(w.query("notes")) == 2
    assert "a bug of the engine" in caplog.text


def test_a_worker_that_breaks_is_reported_where_time_passes(world: OpenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    from evertick.engine.runtime.registration import Registration

    async def broken(self: Registration) -> None:
        raise ZeroDivisionError("a bug of the engine")

    w = world(app)
    monkeypatch.setattr(Registration, "begin", broken)
    with pytest.raises(ZeroDivisionError, match="a bug of the engine"):
        w.outage(1)
        w.advance(10)


def test_a_closed_world_stays_closed() -> None:
    w = World(app)
    w.close()
    w.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        w.jobs()


@pytest.mark.long
def test_a_thousand_jobs_and_a_year_pass_without_a_thread_or_a_wait(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after_many(timedelta(days=300), [note.with_args(f"{n}") for n in range(1000)])
    w.advance(timedelta(days=365))

    assert len(w.query("notes")) == 1000


@pytest.mark.long
def test_a_worker_without_work_does_next_to_nothing(world: OpenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real once: what counts ended attempts looked once a minute, and a year took ten seconds."""
    waits: Counter[str] = Counter()
    wait = Loop._wait

    async def counting(self: Loop, seconds: float) -> None:
        waits[self.name] += 1
        await wait(self, seconds)

    monkeypatch.setattr(Loop, "_wait", counting)
    w = world(app)
    w.app.scheduler.run_after(0, note, "one")
    w.advance(timedelta(days=100))

    assert waits["activity"] >= 100
    assert max(waits.values()) <= 100 * 8 + 20  # the pruner looks every three hours


def test_the_plugin_loads_nothing_of_evertick_until_a_world_is_asked_for() -> None:
    code = (
        "import sys, evertick.testing.plugin; "
        "print(sorted(name for name in sys.modules if name.startswith('evertick')), 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    lazy = ["evertick.base", "evertick.base.lazy"]
    expected = ["evertick", "evertick._version", *lazy, "evertick.testing", "evertick.testing.plugin"]
    assert done.stdout.strip() == f"{expected} False"


def test_a_world_in_a_failed_assertion_says_what_time_it_is(world: OpenWorld) -> None:
    w = world(app, at="2026-03-29T00:59:58Z")
    w.advance(2)

    assert repr(w) == f"<World of {app.name} at 2026-03-29T01:00:00Z>"


def test_the_package_offers_what_it_says() -> None:
    import evertick.testing as kit

    assert {name for name in kit.__all__ if getattr(kit, name)} == {
        "JobView",
        "World",
        "replay",
        "days",
        "hours",
        "minutes",
        "moment",
        "seconds",
    }
    with pytest.raises(AttributeError, match="no attribute 'Moon'"):
        kit.Moon  # noqa: B018


def test_a_tenant_of_the_world_is_seen_as_the_world_is(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation(name="mail")
    def mail(ctx: MutationCtx, number: int) -> str:
        ctx.db.insert("mails", {"number": number})
        return ctx.tenant

    w = world(local)
    acme = w.tenant("acme")
    job = local.tenant("acme").scheduler.run_after(5, mail, 1)
    local.tenant("acme").schedules.create("hourly", when=every(hours=1), do=mail.with_args(2))

    acme.advance(7200)

    assert (acme.job(job).result, acme.call(mail, 3)) == ("acme", "acme")
    assert len(acme.jobs(mail)) == 3
    assert [each["number"] for each in acme.query("mails")] == [1, 2, 2, 3]
    assert len(acme.starts("hourly")) == 2
    assert (w.jobs(), w.query("mails"), w.now) == ([], [], acme.now)
    with pytest.raises(JobNotFound):
        w.job(job)

    w.restart()
    acme.schedule("mine", every=timedelta(minutes=30), do=mail.with_args(4))
    acme.advance(1800)
    assert len(acme.starts("mine")) == 1
    with pytest.raises(InvalidTenant):
        w.tenant("")


def test_a_world_that_ends_while_actions_sleep_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    app = App("sleeping")

    @app.action(name="sleeper")
    async def sleeper(ctx: ActionCtx) -> None:
        await asyncio.sleep(3_600)

    with World(app) as world:
        for _ in range(3):
            app.scheduler.run_after(0, sleeper)
        world.advance(60)
    gc.collect()

    assert [record.getMessage() for record in caplog.records] == []


def test_a_world_leaves_out_the_crons_of_the_code(world: OpenWorld) -> None:
    def with_cron(name: str) -> App:
        made = App("ticking")

        @made.mutation(name="jot")
        def jot(ctx: MutationCtx, text: str) -> None:
            ctx.db.insert("notes", {"text": text})

        made.crons.add(name, every(minutes=1), jot, "by a cron")
        return made

    first, second = with_cron("minutes"), with_cron("others")
    w = world(first, crons=False)
    first.schedules.create(
        "asked for", when=every(minutes=5), do=first.functions.resolve("jot").with_args("by the test")
    )
    w.advance(600)
    w.restart()
    w.deploy(second)
    w.advance(600)

    assert [each["text"] for each in w.query("notes")] == ["by the test"] * 4
    assert [each.id for each in second.schedules.list().schedules] == ["asked for"]
    with pytest.raises(Misuse, match="crons= is True or False, not 'none'"):
        world(first, crons="none")
