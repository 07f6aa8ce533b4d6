"""Limits by key: of one customer a pool runs some jobs at a time on all workers, and others do not wait for it."""

import asyncio
import json
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step
from evertick.base.errors import Misuse
from evertick.base.ids import WorkerId
from evertick.engine.jobs import limits
from evertick.engine.jobs.claims import Claimed, Claims
from evertick.engine.runtime.settings import Settings
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


class Together:
    """Counts how many actions of each key run at a time, and in which order they began and ended."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.order: list[str] = []
        self._now: Counter[str] = Counter()

    def forget_what_runs(self) -> None:
        """Their worker was killed."""
        self._now.clear()

    async def run(self, key: str, seconds: float) -> None:
        """One action."""
        self.order.append(key)
        self._now[key] += 1
        self.most[key] = max(self.most[key], self._now[key])
        try:
            await asyncio.sleep(seconds)
        finally:
            self._now[key] -= 1
            self.ended[key] += 1


def mailing(app: App, seconds: float = 0.02) -> Together:
    """What the action `send` in the pool `mail` does: it takes so long."""
    mail = Together()

    @app.action(name="send", pool="mail")
    async def send(ctx: ActionCtx, key: str = "", fails: int = 0) -> None:
        await mail.run(key, seconds)
        if fails and ctx.attempt <= fails:
            raise ValueError("again")

    return mail


def send(app: App | World, key: str, count: int = 1, **options: Any) -> list[str]:
    """Schedule mails to a customer."""
    scheduler = (app.app if isinstance(app, World) else app).scheduler.using(limit_key=key, **options)
    return [scheduler.run_after(0, "send", key) for _ in range(count)]


@pytest.fixture
def app() -> App:
    """An app for worlds."""
    return App("keys", database_url="sqlite://")


def test_no_more_jobs_of_a_key_run_at_a_time_than_the_limit(open_app: OpenApp) -> None:
    app = open_app()
    mail = mailing(app)
    app.pools.set("mail", per_key=2)
    send(app, "large", 12)
    for n in range(4):
        send(app, f"small {n}")
    for _ in range(6):
        app.scheduler.run_after(0, "send")

    with Engine(app) as engine:
        engine.until(lambda: sum(mail.ended.values()) == 22 or None)

    assert mail.most["large"] == 2
    assert mail.most[""] > 2
    assert app.pools.get("mail").ready == 0


@pytest.mark.postgres
def test_four_workers_share_the_limit_of_a_key(open_postgres_app: OpenApp) -> None:
    app = open_postgres_app()
    mail = mailing(app)
    app.pools.set("mail", running=12, per_key=2)
    for _ in range(10):
        for n in range(6):
            send(app, f"c{n}")

    with Engine(app) as engine, Engine(app), Engine(app), Engine(app):
        engine.until(lambda: sum(mail.ended.values()) == 60 or None)

    assert max(mail.most.values()) <= 2
    assert mail.ended == {f"c{n}": 10 for n in range(6)}


def test_mutations_are_limited_in_a_batch(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    together: list[int] = []
    ran: Counter[str] = Counter()

    @app.mutation(name="note", pool="mail")
    def note(ctx: MutationCtx, key: str) -> None:
        ran[key] += 1

    due = Claims.claim_due

    def noting(self: Claims, transaction: Transaction, worker_id: WorkerId, **options: Any) -> Claimed:
        claimed = due(self, transaction, worker_id, **options)
        together.extend(Counter(json.loads(claim.args)["key"] for claim in claimed.claims).values())
        return claimed

    monkeypatch.setattr(Claims, "claim_due", noting)
    app.pools.set("mail", per_key=2)
    for n in range(40):
        app.scheduler.using(limit_key=f"c{n % 4}").run_after(0, note, f"c{n % 4}")

    with Engine(app) as engine:
        engine.until(lambda: app.jobs.counts()["success"] == 40 or None)

    assert ran == {f"c{n}": 10 for n in range(4)}
    assert max(together) == 2


def test_jobs_of_other_keys_and_without_a_key_do_not_wait_behind_a_full_key(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_MAX", 20)
    monkeypatch.setattr(limits, "WINDOW", 7)
    mail = mailing(app, seconds=300)
    with World(app) as world:
        app.pools.set("mail", per_key=1)
        began = world.now
        send(world, "large", 300)
        world.advance(1)
        send(world, "small")
        app.scheduler.run_after(0, "send")
        app.tenant("acme").scheduler.using(limit_key="large").run_after(0, "send", "large of acme")
        world.advance(1)

        assert sorted(mail.order) == ["", "large", "large of acme", "small"]
        assert app.pools.get("mail").running == 4
        assert app.pools.get("mail").ready == 299
        assert app.pools.get("mail").oldest == began


def test_the_next_of_a_key_starts_as_soon_as_one_has_ended_by_priority_and_due_time(app: App) -> None:
    mail = mailing(app, seconds=10)
    with World(app) as world:
        app.pools.set("mail", per_key=1)
        first = send(world, "c", 3)
        world.advance(1)
        urgent = send(world, "c", priority=5)
        began = world.now
        world.advance(60)

        started = {job: app.jobs.get(job).started_at for job in [*first, *urgent]}

    order = sorted(started, key=lambda job: started[job])  # type: ignore[arg-type, return-value]
    assert order == [first[0], *urgent, *first[1:]]
    waits = [(started[b] - started[a]).total_seconds() for a, b in pairwise(order)]  # type: ignore[operator]
    assert all(10 <= each < 10.2 for each in waits), (waits, began)
    assert mail.most["c"] == 1


def test_a_job_that_waits_for_its_next_attempt_leaves_its_place(app: App) -> None:
    mail = mailing(app, seconds=1)
    with World(app) as world:
        app.pools.set("mail", per_key=1)
        scheduler = app.scheduler.using(limit_key="c", retry=Retry(3, first=60, jitter=0))
        again = scheduler.run_after(0, "send", "c", fails=2)
        others = send(world, "c", 5)
        world.advance(10)

        assert {world.job(job).state for job in others} == {"success"}
        assert (world.job(again).state, app.jobs.get(again).attempt) == ("pending", 1)
        world.advance(timedelta(minutes=5))
        assert (world.job(again).state, app.jobs.get(again).attempt) == ("success", 3)
    assert mail.most["c"] == 1


def test_a_held_job_can_be_canceled_and_put_off_and_frees_no_place_that_it_had_not(app: App) -> None:
    mail = mailing(app, seconds=300)
    with World(app) as world:
        app.pools.set("mail", per_key=1)
        runs, canceled, later, waits = send(world, "c", 4)
        world.advance(1)
        app.scheduler.cancel(canceled)
        app.jobs.reschedule(later, world.now + timedelta(hours=1))
        world.advance(10)

        assert world.job(canceled).state == "canceled"
        assert app.pools.get("mail").ready == 1
        assert len(mail.order) == 1

        app.scheduler.cancel(runs)
        world.advance(1)
        assert world.job(waits).state == "in_progress"
        world.advance(timedelta(hours=2))
        assert {world.job(job).state for job in (later, waits)} == {"success"}
    assert mail.most["c"] == 1


@pytest.mark.long
def test_a_lost_worker_leaves_no_place_taken(app: App) -> None:
    mail = mailing(app, seconds=300)
    with World(app) as world:
        app.pools.set("mail", per_key=1)
        jobs = send(world, "c", 3, retry=Retry(5, first=1, jitter=0))
        world.advance(1)
        mail.forget_what_runs()
        world.restart()
        world.advance(timedelta(hours=1))

        assert {world.job(job).state for job in jobs} == {"success"}
        assert sum(app.jobs.get(job).attempt for job in jobs) == 4
    assert mail.most["c"] == 1


@pytest.mark.parametrize("most", [None, 3])
def test_a_limit_that_is_removed_or_raised_lets_held_jobs_go(open_app: OpenApp, most: int | None) -> None:
    app = open_app(settings=Settings(action_slots=10))
    mail = mailing(app)
    app.pools.set("mail", per_key=0)
    send(app, "c", 30)
    app.scheduler.run_after(0, "send", "free")

    with Engine(app) as engine:
        engine.until(lambda: mail.ended["free"] or None)
        assert app.pools.get("mail").ready == 30
        app.pools.set("mail", per_key=most)
        engine.until(lambda: mail.ended["c"] == 30 or None)

    assert mail.most["c"] > 1
    assert most is None or mail.most["c"] <= most


@pytest.mark.long
def test_a_limit_that_is_set_while_jobs_run_and_wait_holds_from_then_on(app: App) -> None:
    mail = mailing(app, seconds=60)
    with World(app, settings=Settings(action_slots=4)) as world:
        jobs = send(world, "c", 20)
        world.advance(1)
        assert len(mail.order) == 4
        app.pools.set("mail", per_key=1)
        mail.most.clear()
        world.advance(timedelta(minutes=40))

        assert {world.job(job).state for job in jobs} == {"success"}
    assert mail.most["c"] == 1


def test_held_jobs_are_released_where_nothing_limits_their_pool_any_more(app: App) -> None:
    mail = mailing(app, seconds=1)
    with World(app) as world:
        app.pools.set("mail", per_key=0)
        send(world, "c", 5)
        world.advance(1)
        assert app.pools.get("mail").ready == 5
        app.pools.set("mail", per_key=None)
        assert app.pools.get("mail").limits_from == ""
        world.advance(10)
    assert mail.ended["c"] == 5


def test_the_functions_of_a_pool_share_the_places_of_a_key(app: App) -> None:
    mail = mailing(app, seconds=1)

    @app.action(name="bill", pool="mail")
    async def bill(ctx: ActionCtx) -> None:
        await mail.run("c", 1)

    @app.action(name="elsewhere", pool="bulk")
    async def elsewhere(ctx: ActionCtx) -> None:
        await mail.run("bulk", 1)

    with World(app) as world:
        app.pools.set("mail", per_key=1)
        for _ in range(5):
            send(world, "c")
            app.scheduler.using(limit_key="c").run_after(0, "bill")
            app.scheduler.using(limit_key="c").run_after(0, "elsewhere")
        world.drain()
        jobs = app.jobs.list(limit=100).jobs
    assert (mail.most["c"], mail.ended["c"], mail.ended["bulk"]) == (1, 10, 5)
    assert mail.most["bulk"] == 5
    limited = sorted((job.started_at, job.due_at) for job in jobs if job.pool == "mail")  # type: ignore[type-var]
    assert [due for _, due in limited] == sorted(due for _, due in limited)


def test_a_suspect_waits_for_its_key(app: App) -> None:
    mail = mailing(app, seconds=30)
    with World(app) as world:
        suspect = send(world, "c", retry=Retry(9, first=0.001, jitter=0))[0]
        for _ in range(SUSPECT_CRASHES):
            world.advance(1)
            mail.forget_what_runs()
            world.restart()
        assert world.job(suspect).crashes == SUSPECT_CRASHES
        app.pools.set("mail", per_key=1)
        app.jobs.reschedule(suspect, world.now + timedelta(seconds=5))
        other = send(world, "c")[0]
        world.advance(10)
        assert world.job(other).state == "in_progress"
        assert world.job(suspect).state == "pending"
        world.drain()
        assert {world.job(job).state for job in (suspect, other)} == {"success"}
    assert mail.most["c"] == 1


def test_steps_of_workflows_have_keys(app: App) -> None:
    mail = mailing(app, seconds=1)
    step_of = app.functions.resolve("send")

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        limited = step.using(limit_key="c")
        with pytest.raises(Misuse, match="give it to its steps"):
            await limited.workflow(flow)
        await asyncio.gather(*(limited.run(step_of, "c") for _ in range(3)), step.run(step_of, "free"))

    with World(app) as world:
        app.pools.set("mail", per_key=1)
        runs = [app.workflows.start(flow) for _ in range(2)]
        world.drain()
        assert {app.workflows.get(run).state for run in runs} == {"success"}
        assert len(app.jobs.list(limit_key="c").jobs) == 6
    assert (mail.most["c"], mail.ended["c"], mail.most["free"]) == (1, 6, 2)


def test_a_job_that_is_run_again_has_the_key_of_the_old_one(app: App) -> None:
    mailing(app, seconds=1)
    with World(app) as world:
        failed = app.scheduler.using(limit_key="c").run_after(0, "send", "c", fails=1)
        world.drain()
        assert world.job(failed).state == "failed"
        again = app.jobs.retry(failed)
        assert app.jobs.get(again).limit_key == "c"
        assert [job.id for job in app.jobs.list(limit_key="c").jobs] == [again, failed]
        assert app.jobs.list(limit_key="d").jobs == ()
        assert app.jobs.cancel_all(limit_key="c") == 1


def test_wrong_keys_and_limits_are_refused(app: App) -> None:
    mailing(app)
    with World(app):
        for key, why in (
            (7, "limit_key= takes text .*, not 7"),
            ("", "1 to "),
            ("x" * 10_000, "1 to "),
            ("a\0", "NUL"),
        ):
            with pytest.raises(Misuse, match=why):
                app.scheduler.using(limit_key=key)  # type: ignore[arg-type]
        for number in (-1, True, "2", 1.5):
            with pytest.raises(Misuse, match="per_key= takes a whole number from 0"):
                app.pools.set("mail", per_key=number)  # type: ignore[typeddict-item]
        with pytest.raises(Misuse, match="per_key= takes a whole number from 0"):
            app.pool("bulk", per_key=-2)
        with pytest.raises(Misuse, match="limit_key= takes a text"):
            app.jobs.list(limit_key="")


def test_a_limit_by_key_is_declared_in_code(app: App) -> None:
    app.pool("mail", per_key=1)
    mail = mailing(app, seconds=1)
    with World(app) as world:
        send(world, "c", 3)
        world.drain()
        assert (app.pools.get("mail").limits.per_key, app.pools.get("mail").limits_from) == (1, "code")
    assert mail.most["c"] == 1
