"""Runs of scripts by real workers, on both databases."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from evertick import ActionCtx, Retry, Settings, SyncActionCtx
from evertick.app.scripts.plan import ScriptPlan
from evertick.functions import JobState
from evertick.sandbox.pool import Sandbox
from evertick.sandbox.protocol import Ended, ScriptRun
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.scripts.conftest import Shop

WRITES = """
const due = await ctx.db.query('orders', {status: 'open'});
for (const order of due) { await ctx.db.insert('outbox', {order: order._id}); await ctx.crm.close(order._id); }
await ctx.kv.set('runs', (await ctx.kv.get('runs') ?? 0) + 1);
await ctx.notify('mail', 'done');
console.log('closed', due.length);
return {closed: due.length, runs: await ctx.kv.get('runs'), outbox: (await ctx.db.query('outbox')).length};
"""


def test_what_a_script_writes_is_there_with_its_end(open_shop: Shop) -> None:
    shop, app = open_shop, open_shop.app
    for status in ("open", "closed", "open"):
        app.call(shop.order, status)
    shop.publish(WRITES)

    with Engine(app) as engine:
        job = engine.wait(app.scripts.start("script"))
        assert (job.state, job.result) == (JobState.SUCCESS, {"closed": 2, "runs": 1, "outbox": 2})
        again = engine.wait(app.scripts.start("script"))
        assert again.result == {"closed": 0, "runs": 2, "outbox": 2}
        engine.until(lambda: True if len(shop.notices) == 2 else None)

    assert job.logs == ["info: closed 2"]
    assert shop.notices == [("default", "mail", "done")] * 2
    [first] = app.scripts.run(job.id)
    assert (first.script, first.version, first.attempt, first.outcome, first.deaths) == ("script", 1, 1, "ok", 0)
    assert first.host_calls == {
        "db.query": 2, "db.insert": 2, "crm.close": 2, "kv.get": 2, "kv.set": 1, "notify": 1,
    }  # fmt: skip
    assert first.staged == 2 + 2 + 1 + 1
    assert [run.job_id for run in app.scripts.runs("script")] == [again.id, job.id]


def test_nothing_stays_of_a_script_that_fails(open_shop: Shop) -> None:
    shop, app = open_shop, open_shop.app
    shop.publish("await ctx.db.insert('outbox', {a: 1}); await ctx.kv.set('k', 1);\nthrow new TypeError('no address');")
    call = app.scripts.call("script")

    with Engine(app) as engine:
        job = engine.wait(app.scripts.start("script"))
        twice = engine.wait(app.scheduler.using(retry=Retry(2, first=0.001)).run_after_many(0, [call])[0])

    assert (job.state, job.error) == (JobState.FAILED, "TypeError: no address (line 3, column 11)")
    assert not app.db.query("outbox").collect()
    assert [(run.attempt, run.outcome) for run in app.scripts.run(twice.id)] == [(1, "error"), (2, "error")]
    [run] = app.scripts.run(job.id)
    assert run.error is not None
    assert (run.error.name, run.error.line, run.staged) == ("TypeError", 3, 0)


@pytest.mark.parametrize("language", ["javascript", "python"])
def test_both_languages_see_the_same(open_shop: Shop, language: str) -> None:
    shop, app = open_shop, open_shop.app
    app.tenant("acme").call(shop.order, "open", 5)
    app.call(shop.order, "open", 7)
    python = """
def main(ctx):
    rows = ctx.db.query('orders', {'status': 'open'})
    ctx.db.insert('outbox', {'of': ctx.tenant['id']})
    return [ctx.input['x'], len(rows), ctx.crm.count('open', 1), ctx.tenant['id'], len(ctx.db.query('outbox'))]
"""
    javascript = """
const rows = await ctx.db.query('orders', {status: 'open'});
await ctx.db.insert('outbox', {of: ctx.tenant.id});
return [ctx.input.x, rows.length, await ctx.crm.count('open', 1), ctx.tenant.id, (await ctx.db.query('outbox')).length];
"""
    shop.publish(python if language == "python" else javascript, language=language, tenant="acme")

    with Engine(app) as engine:
        job_id = app.tenant("acme").scripts.start("script", {"x": [1, "é"]})
        job = engine.until(lambda: next((j for j in [app.tenant("acme").jobs.get(job_id)] if j.completed_at), None))

    assert job.result == [[1, "é"], 1, 1, "acme", 1]
    assert [each["of"] for each in app.tenant("acme").db.query("outbox").collect()] == ["acme"]


def test_a_run_that_a_stop_cuts_off_happens_later(open_app: OpenApp) -> None:
    shop = Shop(open_app(settings=Settings(drain=timedelta(0))))
    app, began, may_end = shop.app, threading.Event(), threading.Event()

    @app.scripts.host("wait")
    def wait(ctx: SyncActionCtx) -> None:
        began.set()
        may_end.wait(60)

    shop.publish("await ctx.db.insert('outbox', {}); await ctx.wait(); return ctx.run.attempt")
    with app.running():
        job_id = app.scripts.start("script")
        assert began.wait(60)
    assert app.jobs.get(job_id).state is JobState.PENDING
    assert not app.db.query("outbox").collect()

    may_end.set()
    with Engine(app) as engine:
        assert engine.wait(job_id).result == 1
    assert len(app.db.query("outbox").collect()) == 1
    assert [(run.attempt, run.deaths, run.outcome) for run in app.scripts.run(job_id)][-1] == (2, 0, "ok")


def test_async_actions_of_the_developer_can_be_called(open_shop: Shop) -> None:
    @open_shop.app.scripts.host
    async def later(ctx: ActionCtx, number: int, unit: str = "ms") -> str:
        await asyncio.sleep(0)
        return f"{ctx.tenant} {number} {unit}"

    open_shop.publish("return [await ctx.later(1), await ctx.later(2, 's')]")
    with Engine(open_shop.app) as engine:
        job = engine.wait(open_shop.app.scripts.start("script"))
    assert job.result == ["default 1 ms", "default 2 s"]


@pytest.mark.parametrize("is_test", [False, True])
def test_runs_that_are_under_way_count_for_the_quota_of_an_hour(open_shop: Shop, is_test: bool) -> None:
    app, may_end = open_shop.app, threading.Event()
    app.scripts.enable(per_tenant=5)
    app.scripts.plan(ScriptPlan(runs_per_hour=2, wall_ms=600_000))

    @app.scripts.host("wait", in_tests=True)
    def wait(ctx: SyncActionCtx) -> None:
        may_end.wait(600)

    open_shop.publish("await ctx.wait()")
    with Engine(app) as engine, ThreadPoolExecutor(5) as threads:
        if is_test:
            tests = [threads.submit(app.scripts.test, "script") for _ in range(5)]
            engine.until(lambda: True if sum(each.done() for each in tests) == 3 else None)
            may_end.set()
            outcomes = [each.result().outcome for each in tests]
        else:
            jobs = [app.scripts.start("script") for _ in range(5)]
            engine.until(lambda: True if len(app.scripts.runs()) == 3 else None)
            may_end.set()
            for job_id in jobs:
                engine.wait(job_id)
            outcomes = [run.outcome for run in app.scripts.runs()]

    assert Counter(outcomes) == {"ok": 2, "limit": 3}


def test_a_test_whose_process_died_counts_with_all_that_it_might_have_used(
    open_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_shop.app
    open_shop.publish("return 1")

    class Killed(BaseException):
        """No code of the product goes on."""

    def die(self: Sandbox, run: ScriptRun) -> Ended:
        raise Killed

    monkeypatch.setattr(Sandbox, "run", die)
    with pytest.raises(Killed):
        app.scripts.test("script")

    used = app.scripts.limits()
    assert (used.runs_last_hour, used.cpu_ms_last_hour) == (1, ScriptPlan().cpu_ms)
