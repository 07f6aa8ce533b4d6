"""What a worker's claims promise others: tenants, workers with other code, jobs beside slow ones, memory."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Settings, Step
from evertick.base.clock import ScaledClock, SystemClock
from evertick.base.errors import Misuse
from evertick.engine.jobs import claims, mutations, tenant_fairness
from evertick.engine.jobs.claims import BYTES_MAX, Capacity, Claimed
from evertick.engine.jobs.recovery import READ_WITHIN_MAX
from evertick.engine.runtime.executors import ThreadExecutors
from evertick.store.notifications import Notification
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.store import Isolation
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, worker_of
from tests.store.rows import ANN

PROMPT_S = 2.0
"""At once, also on a busy machine: less than what a job would wait for others (3 s), or for a worker's poll (5 s)."""


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition. Fails if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_freed_slot_goes_to_the_tenant_that_runs_least(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "EVERY_MS", 0)  # a new tenant is searched for, however short ago the last search was
    app = open_app(settings=Settings(action_slots=4))
    began: Counter[str] = Counter()
    may_end: list[None] = []
    noted = threading.Event()

    @app.action
    async def work(ctx: ActionCtx, whose: str) -> None:
        began[whose] += 1
        while whose == "greedy" and not may_end:
            await asyncio.sleep(0.005)
        if whose == "greedy":
            may_end.pop()

    @app.mutation
    def note(ctx: MutationCtx) -> None:
        noted.set()

    with Engine(app):
        app.tenant("greedy").scheduler.run_after_many(0, [work.with_args("greedy") for _ in range(40)])
        until(lambda: began["greedy"] == 4)
        app.tenant("small").scheduler.run_after(0, work, "small")
        app.scheduler.run_after(0, note)
        until(noted.is_set)
        assert not began["small"]
        may_end.append(None)
        until(lambda: began["small"])
        greedy = began["greedy"]
        may_end.extend([None] * 40)

    assert greedy <= 5  # none began in the slot that was free first


@pytest.mark.long
@pytest.mark.postgres
def test_in_a_mixed_fleet_a_job_goes_at_once_to_a_worker_that_has_its_function(postgres_url: str) -> None:
    old, new = (App("fleet", database_url=postgres_url) for _ in range(2))
    late: list[float] = []

    @old.mutation(name="common")
    def common_of_old(ctx: MutationCtx) -> None: ...

    @new.mutation(name="common")
    def common_of_new(ctx: MutationCtx) -> None: ...

    @new.mutation(name="fresh")
    def fresh(ctx: MutationCtx, sent: float) -> None:
        late.append(time.monotonic() - sent)

    new.migrate()
    with old.running(), new.running():
        time.sleep(0.3)
        for _ in range(30):
            new.scheduler.run_after(0, fresh, time.monotonic())
            new.scheduler.run_after(0, common_of_new)
            time.sleep(0.02)
        until(lambda: len(late) >= 30)  # a conflict runs one again
        attempts = new.environment.store.read(
            lambda tx: tx.connection.execute("select max(attempt) from evertick.history").fetchone()[0]
        )
    for app in (old, new):
        app.close()

    assert sorted(late)[27] <= PROMPT_S  # a busy machine may be late once
    assert attempts == 1


@pytest.mark.postgres
def test_a_slow_mutation_delays_only_its_own_batch(postgres_url: str) -> None:
    app = App("slow", database_url=postgres_url, settings=Settings(mutation_timeout=timedelta(minutes=1)))
    begun, others_done = threading.Event(), threading.Event()
    waited: list[bool] = []
    done: list[int] = []

    @app.mutation
    def slow(ctx: MutationCtx) -> None:
        begun.set()
        waited.append(others_done.wait(50))

    @app.mutation
    def quick(ctx: MutationCtx, number: int) -> None:
        done.append(number)

    app.migrate()
    with app.running():
        app.scheduler.run_after(0, slow)
        assert begun.wait(50)
        for number in range(10):
            app.scheduler.run_after(0, quick, number)
        until(lambda: len(set(done)) == 10)
        others_done.set()
        until(lambda: app.counters.snapshot().get("jobs_success") == 11)
    counts = app.counters.snapshot()
    app.close()

    assert waited  # more than once if its commit met a conflict, which runs it again
    assert all(waited)
    assert counts["batches_separated"] >= 1


@pytest.mark.postgres
def test_a_small_tenants_new_job_runs_beside_the_batch_of_a_large_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "SLOW_S", 60)  # no batch is set aside
    monkeypatch.setattr(tenant_fairness, "KEPT_MS", 60_000)
    monkeypatch.setattr(claims, "EVERY_MS", 0)
    app = App("beside", database_url=postgres_url, settings=Settings(batch=8, mutation_timeout=timedelta(minutes=1)))
    begun, small_ran = threading.Event(), threading.Event()
    waited: list[bool] = []

    @app.mutation
    def bulk(ctx: MutationCtx, number: int) -> None:
        if number == 20:
            begun.set()
            waited.append(small_ran.wait(45))

    @app.mutation
    def few(ctx: MutationCtx) -> None:
        if begun.is_set():
            small_ran.set()

    app.migrate()
    app.scheduler.run_after_many(0, [bulk.with_args(number) for number in range(60)])
    app.tenant("small").scheduler.run_after(0, few)
    with app.running():
        assert begun.wait(50)
        app.tenant("small").scheduler.run_after(0, few)
        until(lambda: app.counters.snapshot().get("jobs_success") == 62)
    app.close()

    assert waited[0]


@pytest.mark.postgres
def test_an_action_that_comes_while_others_are_claimed_starts_before_them_in_a_free_slot(
    open_postgres_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_postgres_app()

    @app.action(name="work")
    async def work(ctx: ActionCtx) -> None: ...

    worker, store = worker_of(app), app.environment.store
    app.scheduler.run_after_many(0, [work.with_args() for _ in range(9)])
    due, comes = claims.Claims.claim_due, threading.Event()

    def due_while_one_comes(self: claims.Claims, *args: Any, **options: Any) -> Claimed:
        claimed = due(self, *args, **options)
        if comes.is_set():
            comes.clear()
            with ThreadPoolExecutor() as elsewhere:
                elsewhere.submit(app.tenant("ann").scheduler.run_after, 0, "work").result()
                elsewhere.submit(worker._notify, lambda _: None, frozenset({Notification.ACTION})).result()
        return claimed

    monkeypatch.setattr(claims.Claims, "claim_due", due_while_one_comes)

    def claimed() -> list[str]:
        capacity = Capacity(jobs=2)
        found, _ = store.write(lambda tx: worker.actions._claim(tx, ANN, capacity), isolation=Isolation.EACH)
        return [job.tenant for job in found.claims]

    assert claimed() == ["default"] * 2
    comes.set()
    assert claimed() == ["ann", "default", "default"]
    assert claimed() == ["default"] * 2


@pytest.mark.postgres
def test_a_claim_of_actions_is_one_statement_while_a_look_is_kept(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "POLL_KEPT_MS", 60_000)
    asked: Counter[str] = Counter()
    for name in ("claim_jobs", "oldest_ready_jobs", "suspects", "next_waiting_at"):
        told = getattr(PostgresTransaction, name)

        def counting(self: object, *args: object, name: str = name, told: Any = told, **options: object) -> Any:
            asked[name] += 1
            return told(self, *args, **options)

        monkeypatch.setattr(PostgresTransaction, name, counting)
    app = App("acts", database_url=postgres_url, settings=Settings(action_slots=4))

    @app.action
    async def act(ctx: ActionCtx) -> None:
        await asyncio.sleep(0)

    app.migrate()
    app.scheduler.run_after_many(0, [act.with_args() for _ in range(200)])
    with app.running():
        until(lambda: app.counters.snapshot().get("jobs_success") == 200)
    app.close()

    assert asked["claim_jobs"] >= 50
    assert asked["oldest_ready_jobs"] + asked["suspects"] + asked["next_waiting_at"] < asked["claim_jobs"]


def test_on_sqlite_a_mutation_that_holds_the_file_for_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    app = App("slow", database_url="sqlite://", settings=Settings(mutation_timeout=timedelta(seconds=5)))

    @app.mutation(name="hoard")
    def hoard(ctx: MutationCtx) -> None:
        time.sleep(1.1)

    with caplog.at_level(logging.WARNING, "evertick.engine"), Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, hoard))
    app.close()

    assert [each for each in caplog.records if each.getMessage().startswith("hoard held the database file for ")]


def test_by_a_clock_that_runs_fast_no_mutation_holds_the_file_for_long(caplog: pytest.LogCaptureFixture) -> None:
    """What `evertick dev --speed` simulates takes hours by its clock, and milliseconds of the file."""
    start = SystemClock().now()
    clock = ScaledClock(start, real_start=start, speed=3_600)
    app = App("fast", database_url="sqlite://", clock=clock)

    @app.mutation(name="quick")
    def quick(ctx: MutationCtx) -> None:
        begun = clock.now()
        while clock.now() < begun + 5_000:
            pass

    with caplog.at_level(logging.WARNING, "evertick.engine"), Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, quick))
    app.close()

    assert not [each for each in caplog.records if "held the database file" in each.getMessage()]


@pytest.mark.long
def test_a_worker_holds_at_most_64_megabytes_of_arguments(open_app: OpenApp) -> None:
    app = open_app()
    together: list[int] = []
    running: set[int] = set()
    size = 3_900_000

    @app.action
    async def take(ctx: ActionCtx, number: int, blob: str) -> None:
        running.add(number)
        together.append(len(running))
        await asyncio.sleep(0.2)
        running.discard(number)

    for number in range(20):
        app.scheduler.run_after(0, take, number, "x" * size)
    with Engine(app):
        until(lambda: len(together) == 20 and not running)

    assert 8 <= max(together) <= BYTES_MAX // size


def test_a_job_of_a_pool_runs_where_its_pool_or_that_of_its_function_is_served(open_app: OpenApp) -> None:
    app = open_app()
    ran: list[str] = []

    @app.action(pool="mail")
    async def send(ctx: ActionCtx) -> None:
        ran.append("send")

    @app.mutation
    def note(ctx: MutationCtx) -> None:
        ran.append("note")

    app.scheduler.run_after(0, send)
    app.scheduler.run_after(0, note)
    with app.running(pools=["mail"]):
        until(lambda: ran)
        time.sleep(0.2)
        assert ran == ["send"]
    with app.running():
        until(lambda: len(ran) == 2)

    with app.running(pools=["other"]):
        app.scheduler.run_after(0, note)
        time.sleep(0.2)
    assert ran == ["send", "note"]
    for number, pool in enumerate(("mail", "ada"), 3):  # the job's own pool alone is another one
        again = app.scheduler.using(pool="ada").run_after(0, send)
        with app.running(pools=[pool]):
            until(lambda number=number: len(ran) == number)  # type: ignore[misc]
        assert app.jobs.get(again).pool == "ada"
    with pytest.raises(Misuse, match="a pool's name is"), app.running(pools=["a b"]):
        pass


@pytest.mark.postgres
def test_a_claim_whose_reply_is_late_is_run(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real once, on a busy machine: a batch that had not begun was set aside, and found when the lease was over."""
    monkeypatch.setattr("evertick.engine.jobs.mutations.SLOW_S", 0.0)
    write_two = ThreadExecutors.write_two

    async def replies_late(self: ThreadExecutors, *works: Any, isolation: Isolation) -> Any:
        result = await write_two(self, *works, isolation=isolation)
        for _ in range(100):
            await asyncio.sleep(0)
        return result

    monkeypatch.setattr(ThreadExecutors, "write_two", replies_late)
    app = App("late", database_url=postgres_url)

    @app.workflow
    async def flow(step: Step) -> None:
        """Nothing."""

    app.migrate()
    app.scheduler.run_after_many(0, [flow.with_args() for _ in range(3 * READ_WITHIN_MAX)])
    with app.running():
        until(lambda: app.counters.snapshot().get("jobs_success") == 3 * READ_WITHIN_MAX)
    counts = app.counters.snapshot()
    app.close()

    assert "claims_found" not in counts
