"""Limits of scripts: each is a named outcome, per run, per tenant and per hour; five in a row pause the schedule."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import App, Retry, every
from evertick.app.scripts.plan import ScriptPlan
from evertick.base.errors import InvalidScript, LimitExceeded, Misuse, QuotaExceeded
from evertick.functions import JobState
from evertick.testing import World
from tests.scripts.conftest import Shop

SMALL: dict[str, Any] = {
    "cpu_ms": 200, "wall_ms": 5_000, "memory_bytes": 16 << 20, "result_bytes": 1_000, "host_calls": 20, "reads": 5,
    "writes": 3,
}  # fmt: skip
ORDERS = "const all = await ctx.db.query('orders');"


def end_of(world: World, shop: Shop, source: str, name: str = "script") -> tuple[str, str | None]:
    """The outcome of a run of a script, and the limit that it exceeded."""
    shop.publish(source, name)
    job_id = shop.app.scripts.start(name)
    world.advance(1)
    [run] = shop.app.scripts.run(job_id)
    assert world.job(job_id).attempt == 1
    return run.outcome, run.exceeded


@pytest.mark.parametrize(
    ("source", "outcome", "limit"),
    [
        ("for (;;) {}", "timeout", "cpu_ms"),
        ("const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)", "memory", "memory_bytes"),
        ("return 'x'.repeat(1001)", "output", "result_bytes"),
        ("for (;;) await ctx.kv.get('a')", "limit", "host_calls"),
        ("for (let i = 0; i < 6; i++) await ctx.db.get('orders_' + '0'.repeat(28))", "limit", "reads"),
        ("for (let i = 0; i < 4; i++) await ctx.db.insert('outbox', {i})", "limit", "writes"),
        ("for (let i = 0; i < 4; i++) try { await ctx.kv.set('k' + i, i) } catch {}", "limit", "writes"),
    ],
)
def test_what_exceeds_a_limit_ends_with_its_name(
    world: World, shop: Shop, source: str, outcome: str, limit: str
) -> None:
    shop.app.scripts.plan(ScriptPlan(**SMALL))

    assert end_of(world, shop, source) == (outcome, limit)
    assert not shop.app.db.query("outbox").collect()


def test_a_tenant_may_have_limits_of_its_own(world: World, shop: Shop) -> None:
    shop.app.scripts.plan(ScriptPlan(writes=1))
    acme = shop.app.tenant("acme").scripts
    view = acme.set_plan(writes=2, hosts=["API.example.com"])
    assert (view.limits["writes"], view.limits["hosts"], view.own) == (2, ("api.example.com",), ("hosts", "writes"))
    source = "await ctx.kv.set('a', 1); await ctx.kv.set('b', 2); return ctx.fetch !== undefined"
    shop.publish(source, tenant="acme")
    shop.publish(source)

    ended = acme.test("script"), shop.app.scripts.test("script")

    assert [(each.outcome, each.result) for each in ended] == [("ok", True), ("limit", None)]
    assert acme.set_plan(writes=None, hosts=None).own == ()
    for wrong in ({"writes": -1}, {"wirtes": 1}, {"hosts": "api.example.com"}):
        with pytest.raises(Misuse):
            acme.set_plan(**wrong)


def test_quotas_of_an_hour_refuse_runs_until_it_is_over(world: World, shop: Shop) -> None:
    shop.app.scripts.plan(ScriptPlan(runs_per_hour=2))
    shop.publish("return 1")

    ended = []
    for _ in range(4):
        job_id = shop.app.scripts.start("script")
        world.advance(60)
        ended += [(run.outcome, run.exceeded) for run in shop.app.scripts.run(job_id)]
    assert ended == [("ok", None)] * 2 + [("limit", "runs_per_hour")] * 2

    world.advance(timedelta(hours=1))
    job_id = shop.app.scripts.start("script")
    world.advance(1)
    assert world.job(job_id).state is JobState.SUCCESS
    assert shop.app.scripts.limits().runs_last_hour == 1

    assert shop.app.scripts.test("script").outcome == "ok"
    assert shop.app.scripts.test("script").exceeded == "runs_per_hour"  # tests count, too
    assert len(shop.app.scripts.runs()) == 5

    shop.app.scripts.plan(ScriptPlan(cpu_s_per_hour=0))
    assert shop.app.scripts.test("script").exceeded == "cpu_s_per_hour"


def test_five_runs_over_a_limit_pause_the_schedule(world: World, shop: Shop) -> None:
    shop.app.scripts.plan(ScriptPlan(writes=0))
    shop.publish("await ctx.kv.set('a', 1)")
    app = shop.app
    app.schedules.create("greedy", when=every(minutes=1), do=app.scripts.call("script"), retry=Retry(3))

    world.advance(timedelta(minutes=10))

    runs = app.scripts.runs("script")
    assert [(run.outcome, run.schedule_id) for run in runs] == [("limit", "greedy")] * 5
    found = app.schedules.get("greedy")
    assert found.paused
    assert found.note == "its last 5 runs exceeded a limit; the last one: writes"

    app.schedules.resume("greedy")
    world.advance(timedelta(minutes=3))
    assert not app.schedules.get("greedy").paused  # it has five runs again
    world.advance(timedelta(minutes=7))
    assert len(app.scripts.runs("script")) == 10
    assert app.schedules.get("greedy").paused


def test_values_have_a_limit_of_keys(world: World, shop: Shop) -> None:
    shop.app.scripts.plan(ScriptPlan(keys=2))
    shop.publish("for (const key of ctx.input) await ctx.kv.set(key, 1); await ctx.kv.delete('gone')")

    def outcome(*keys: str) -> tuple[str, str | None]:
        shop.app.scripts.start("script", list(keys))
        world.drain()
        last = shop.app.scripts.runs("script")[0]
        return last.outcome, last.exceeded

    assert outcome("a", "b") == ("ok", None)
    assert outcome("a", "c") == ("limit", "keys")  # nothing of it is kept
    assert outcome("a", "b") == ("ok", None)
    assert shop.app.scripts.test("script", ["d"]).exceeded == "keys"


def test_publishing_names_the_schedules_whose_input_no_longer_fits(world: World, shop: Shop) -> None:
    app = shop.app
    shop.publish("return 1")
    first = app.schedules.create("fixed", when=every(hours=1), do=app.scripts.call("script", {"days": 1}, version=1))
    app.schedules.create("daily", when=every(hours=1), do=app.scripts.call("script", {"days": 1}))
    needs = {"type": "object", "required": ["hours"]}
    app.scripts.edit("script", parameters=needs)

    made = app.scripts.publish("script")

    assert first.id == "fixed"
    assert made.misfits == ("daily",)
    assert made.sentence == (
        "version 2 of script runs from now on; its parameters refuse the input of daily: update these schedules, "
        "or roll back"
    )
    assert app.scripts.publish("script").misfits == ("daily",)  # nothing has changed, and it is said again
    assert app.scripts.rollback("script", 1).misfits == ()


def test_a_plan_names_the_schedules_whose_times_no_longer_fit(world: World, shop: Shop) -> None:
    app = shop.app
    shop.publish("return 1")
    for name, hours in (("hourly", 1), ("daily", 24)):
        app.schedules.create(name, when=every(hours=hours), do=app.scripts.call("script"))
    assert app.scripts.set_plan(interval_ms=3_600_000).misfits == ()

    view = app.scripts.set_plan(interval_ms=3_600_001)

    assert view.misfits == ("hourly",) == app.scripts.limits().misfits
    assert view.warning == (
        "the times of hourly are less than 3600 s apart (interval_ms): they run on as before; change them, or lower "
        "the limit"
    )


@pytest.mark.parametrize(
    "host",
    ["*", "http://x", "a.example:443", "10.0.0.0/8", "[::1]", "::1", "", "a.example/x", "a.*", "*a.example", "*.",
     "a..b", "a.example.", "-a.example", "bücher.example", "1.2.3", "999.1.1.1", "*.1.2.3.4", "a b",
     "u@a.example", "a" * 254, 5],
)  # fmt: skip
def test_a_host_that_no_address_can_match_is_refused(shop: Shop, host: Any) -> None:
    for refused in (lambda: shop.app.scripts.set_plan(hosts=[host]), lambda: ScriptPlan(hosts=(host,))):
        with pytest.raises(Misuse, match=r"hosts= takes a list of host names, such as api.example.com or \*"):
            refused()


@pytest.mark.parametrize("host", ["a.example", "*.a.example", "API.Example", "x--y.example", "8.8.8.8", "a_b.example"])
def test_names_and_addresses_of_hosts_are_taken(shop: Shop, host: str) -> None:
    assert ScriptPlan(hosts=(host,)).hosts == (host.lower(),)


def test_a_schedule_that_stays_paused_is_logged_once(
    world: World, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop.app
    shop.publish("return 1")
    app.schedules.create("s", when=every(minutes=1), do=app.scripts.call("script"))
    app.schedules.pause("s", "no flour")
    caplog.set_level(logging.WARNING, "evertick.schedules")

    world.advance(timedelta(days=3))
    app.schedules.resume("s")
    world.advance(60)
    app.schedules.pause("s")
    world.advance(timedelta(days=3))

    skipped = [each.getMessage() for each in caplog.records if "Skipping" in each.getMessage()]
    assert [line.partition("first of ")[2][:20] for line in skipped] == ["2026-01-01T00:01:00Z", "2026-01-04T00:02:00Z"]


def test_schedules_are_checked_when_they_are_written(world: World, shop: Shop) -> None:
    app = shop.app
    app.scripts.plan(ScriptPlan(interval_ms=3_600_000, schedules=1))
    app.scripts.create("s", "export default ctx => 1", language="javascript", parameters={"type": "object"})

    def create(schedule: str, **call: Any) -> None:
        app.schedules.create(schedule, when=every(hours=1), do=app.scripts.call(**{"name": "s", "input": {}, **call}))

    with pytest.raises(Exception, match="has no version yet"):
        create("a")
    app.scripts.publish("s")
    for call, words in (
        ({"name": "x"}, "no script 'x'"),
        ({"version": 7}, "no version 7"),
        ({"input": 1}, "of type obj"),
    ):
        with pytest.raises(Exception, match=words):
            create("a", **call)
    create("a")
    with pytest.raises(QuotaExceeded, match="its limit is 1"):
        create("b")
    with pytest.raises(LimitExceeded, match="at least 3600 s apart"):
        app.schedules.update("a", when=every(minutes=59))
    app.schedules.update("a", when=every(hours=2), note="fine")


def test_sizes_and_numbers_of_scripts_are_limited(world: World, shop: Shop) -> None:
    scripts = shop.app.scripts
    scripts.plan(ScriptPlan(source_bytes=100, scripts=1))
    with pytest.raises(InvalidScript, match="101 bytes; the limit is 100"):
        scripts.create("s", "é".ljust(100), language="javascript")
    scripts.create("s", "1", language="javascript")
    with pytest.raises(QuotaExceeded, match="has 1 scripts; its limit is 1"):
        scripts.create("t", "1", language="javascript")


def test_a_run_knows_its_occurrence_and_what_was_missed_before(world: World, shop: Shop) -> None:
    shop.publish("return [ctx.run.scheduleId, new Date(ctx.run.scheduledAt).toISOString(), ctx.run.missed]")
    app: App = shop.app
    app.schedules.create("hourly", when="0 * * * *", do=app.scripts.call("script"), catch_up="latest")

    world.advance(timedelta(minutes=61))
    world.outage(timedelta(hours=3, minutes=2))
    world.advance(1)

    results = [job.result for job in world.jobs("evertick.script")]
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    at = [(begin + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S.000Z") for hours in (1, 4)]
    assert results[-1] == ["hourly", at[1], 2]
    assert ["hourly", at[0], 0] in results
