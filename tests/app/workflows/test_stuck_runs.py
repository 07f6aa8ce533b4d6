"""Runs that cannot go on are seen by everyone who looks whether all is well, on both databases."""

from datetime import timedelta
from typing import Any

import pytest

from evertick import App, Step
from evertick.app.insight.fleet_doctor import Surroundings, examine_fleet
from evertick.app.status import status_of
from evertick.app.workflows.details import stuck_until
from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId
from evertick.base.records.insight import StuckRun
from evertick.engine.jobs.workflow_memory import Misfits, wait_ms
from evertick.errors import Misuse
from evertick.metrics import Metrics
from evertick.store.transaction.transaction import Transaction
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until

MISMATCH = "ReplayMismatch: the journal has step 1 (event 'packed'), the code calls step 1 (sleep 'sleep') here"


def old(app: App) -> App:
    """The code with which runs begin."""

    @app.workflow(name="order")
    async def order(step: Step) -> str:
        return str(await step.wait_for("packed"))

    return app


def new(app: App) -> App:
    """Code that does not fit them."""

    @app.workflow(name="order")
    async def order(step: Step) -> str:
        await step.sleep(timedelta(days=1))
        return str(await step.wait_for("packed"))

    return app


def found(app: App, tenant: str | None = None) -> tuple[Any, Any]:
    """What the status and the doctor of the fleet say."""

    def look(tx: Transaction) -> tuple[Any, Any]:
        now, whose = app.environment.clock.now(), None if tenant is None else TenantId(tenant)
        stuck = status_of(tx, whose, now).stuck
        findings = examine_fleet(tx, whose, now, Surroundings()).findings
        return stuck, [each for each in findings if each.check == "runs"]

    return app.environment.store.view(look)


def test_runs_whose_code_does_not_fit_are_told_of_until_it_does(open_app: OpenApp) -> None:
    before, after = old(open_app("shop")), new(open_app("shop"))
    runs = [before.workflows.using(key=f"order-{n}").start(before.functions.resolve("order")) for n in (1, 2)]  # type: ignore[arg-type]
    with Engine(before):
        until(lambda: all(len(before.workflows.history(run).events) == 2 for run in runs))  # they wait
    assert found(before) == ((), [])
    assert before.insight.overview().attention == ()

    for run in runs:
        before.workflows.signal(run, "packed", "yes")
    with Engine(after):
        until(lambda: all(after.workflows.get(run).error for run in runs))
        looks = [after.insight.overview().attention]
        while len(looks[-1]) != 1:  # they are tried again at any time
            until(lambda: len(after.insight.overview().attention) == 1)
            looks.append(after.insight.overview().attention)
        [seen] = looks[-1]
    stuck, findings = found(after)

    assert [(each.function, each.count, each.job_id, each.error.partition(";")[0]) for each in stuck] == [
        ("order", 2, runs[0], MISMATCH)
    ]
    assert [(each.name, each.detail.partition(";")[0]) for each in findings] == [
        ("order", f"2 runs cannot continue: {MISMATCH}")
    ]
    assert f"evertick workflow get {runs[0]}; deploy matching code" in findings[0].fix
    assert (seen.problem, seen.kind, seen.name, seen.what, seen.job_id) == (
        "stuck", "workflow", "order", "2 runs cannot continue", runs[0]
    )  # fmt: skip
    assert 'evertick_stuck_runs{function="order"} 2.0' in Metrics(after).text().decode()
    assert found(after, "acme") == ((), [])
    assert [run.key for run in after.workflows.list(error="replaymismatch").runs] == ["order-2", "order-1"]
    assert after.workflows.list(error="QuotaExceeded").runs == ()
    with pytest.raises(Misuse, match="error= takes a text"):
        after.workflows.list(error="")

    for run in runs:
        before.workflows.signal(run, "packed")
    with Engine(before):
        until(lambda: all(before.workflows.get(run).has_ended for run in runs))
    assert found(before) == ((), [])
    assert "evertick_stuck_runs{" not in Metrics(before).text().decode()


def test_the_look_for_them_is_bounded(open_app: OpenApp) -> None:
    before, after = old(open_app("shop")), new(open_app("shop"))
    run_id = before.workflows.start(before.functions.resolve("order"))  # type: ignore[arg-type]
    with Engine(before):
        until(lambda: len(before.workflows.history(run_id).events) == 2)
    before.workflows.signal(run_id, "packed", "yes")

    def looked(*tenants: str, look: int = 10) -> list[StuckRun]:
        until = stuck_until(after.environment.clock.now())
        whose = [TenantId(each) for each in tenants]
        return after.environment.store.view(lambda tx: tx.stuck_runs(whose, until=until, scan_max=look, limit=10))

    with Engine(after):
        until(lambda: [each.id for each in looked(DEFAULT_TENANT)] == [run_id])
    assert [each.id for each in looked("acme", DEFAULT_TENANT)] == [run_id]
    assert looked("acme") == looked() == looked(DEFAULT_TENANT, look=0) == []


def test_a_run_that_does_not_fit_here_is_soon_taken_by_a_worker_that_it_fits(open_app: OpenApp) -> None:
    """As in a rolling deploy: it waited a minute, again and again if the old code came first."""
    before, after = old(open_app("shop")), open_app("shop")

    @after.workflow(name="order")
    async def order(step: Step) -> str:
        if step.patched("asks first"):
            await step.wait_for("asked")
        return str(await step.wait_for("packed"))

    run = after.workflows.start(order)
    with Engine(after):
        until(lambda: len(after.workflows.history(run).events) == 3)
    for event in ("asked", "packed"):
        after.workflows.signal(run, event, "yes")
    with Engine(before):
        until(lambda: "patched('asks first')" in str(before.workflows.get(run).error))
    with Engine(after) as engine:
        assert engine.wait(run).result == "yes"


def test_the_waits_of_a_run_that_never_fits_double_up_to_a_minute() -> None:
    misfits, run, other = Misfits(), JobId("job_1"), JobId("job_2")

    tries = [misfits.add(run) for _ in range(12)]
    misfits.discard(run)

    assert [wait_ms(each) for each in tries] == [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, *[60_000] * 4]
    assert (misfits.add(run), misfits.add(other)) == (1, 1)
