"""Many runs restarted at once: those that failed and were not run again, from where they failed."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from evertick import App, MutationCtx, Retry, Step
from evertick.app.workflows import restart_all
from evertick.base.ids import JobId
from evertick.errors import Misuse, StepFailed
from evertick.testing import World

OpenWorld = Callable[..., World]


class Shop:
    """An app whose workflow fails while `broken` says so; `made` are the steps that were made."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.broken: str = ""
        self.made: list[str] = []
        self.refunds_fail = False
        app = self.app

        @app.mutation(name="shop.step")
        def step_(ctx: MutationCtx, name: str) -> str:
            self.made.append(name)
            if name == self.broken:
                raise ValueError(f"{name} is broken")
            return name

        @app.mutation(name="shop.refund")
        def refund(ctx: MutationCtx) -> None:
            self.made.append("refund")
            if self.refunds_fail:
                raise LookupError("nothing to refund")

        @app.workflow(name="shop.fulfil")
        async def fulfil(step: Step, item: str, refunds: bool = False) -> str:
            await step.run(step_, "fetch")
            try:
                await step.run(step_, "charge")
            except StepFailed:
                if refunds:
                    with suppress(StepFailed):
                        await step.run(refund)
                raise
            if self.broken == "code":
                raise AttributeError("no get")
            await step.wait_for("sent", timeout=timedelta(hours=1))
            await step.run(step_, "mail")
            return item

        self.step, self.fulfil = step_, fulfil

    def start(self, count: int = 1, **args: Any) -> list[JobId]:
        """Runs of the workflow."""
        return [self.app.workflows.start(self.fulfil, item=f"item {n}", **args) for n in range(count)]

    def again(self, run_id: JobId) -> Any:
        """The run as which one was restarted."""
        again = self.app.workflows.get(run_id).retried_as
        assert again is not None
        return self.app.workflows.get(again)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_all_failed_runs_go_on_from_the_step_that_failed(world: OpenWorld, shop: Shop) -> None:
    w, shop.broken = world(shop.app), "charge"
    runs = shop.start(3)
    w.advance(1)
    shop.broken = ""
    shop.made.clear()

    assert shop.app.workflows.restart_all(shop.fulfil, from_failed=True) == 3
    w.advance(1)

    assert shop.made == ["charge"] * 3, "what was done is not done again"
    for each in runs:
        shop.app.workflows.signal(shop.again(each).id, "sent")
    w.advance(1)
    assert {(shop.again(each).state, shop.again(each).result) for each in runs} == {
        ("success", f"item {n}") for n in range(3)
    }
    assert shop.app.workflows.restart_all() == 0, "they were run again already"


@pytest.mark.parametrize("refunds_fail", [False, True])
def test_a_step_that_the_code_cleaned_up_after_is_the_one_that_failed(
    world: OpenWorld, shop: Shop, refunds_fail: bool
) -> None:
    w, shop.broken, shop.refunds_fail = world(shop.app), "charge", refunds_fail
    [run] = shop.start(refunds=True)
    w.advance(1)
    assert shop.made == ["fetch", "charge", "refund"]
    shop.broken = ""
    shop.made.clear()

    shop.app.workflows.restart(run, from_failed=True)
    w.advance(1)

    assert shop.made == ["charge"]
    assert shop.again(run).state == "running"


def test_where_the_code_failed_all_outcomes_are_kept(world: OpenWorld, shop: Shop) -> None:
    w, shop.broken = world(shop.app), "code"
    [run] = shop.start()
    w.advance(1)
    assert shop.app.workflows.get(run).state == "failed"
    shop.broken = ""
    shop.made.clear()

    assert shop.app.workflows.restart_all(error="AttributeError", from_failed=True) == 1
    w.advance(1)

    assert (shop.made, shop.again(run).state) == ([], "running")


def test_a_wait_that_was_given_up_begins_anew(world: OpenWorld, shop: Shop) -> None:
    w = world(shop.app)
    [run] = shop.start()
    w.advance(2 * 3600)
    assert shop.app.workflows.get(run).error["type"] == "TimeoutError"  # type: ignore[index]

    shop.app.workflows.restart_all(from_failed=True)
    w.advance(1800)

    [wait] = shop.app.workflows.timeline(shop.again(run).id).waits_for
    assert wait.name == "sent"
    shop.app.workflows.signal(shop.again(run).id, "sent")
    w.advance(1)
    assert shop.again(run).state == "success"


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_a_run_that_was_canceled_goes_on_where_it_was(world: OpenWorld, shop: Shop, end: str) -> None:
    w = world(shop.app)
    [run] = shop.start()
    w.advance(1)
    getattr(shop.app.workflows, end)(run)
    w.advance(1)
    shop.made.clear()

    assert shop.app.workflows.restart_all(from_failed=True) == 0, "it has not failed"
    assert shop.app.workflows.restart_all(state="canceled", from_failed=True) == 1
    w.advance(1)
    shop.app.workflows.signal(shop.again(run).id, "sent")
    w.advance(1)

    assert (shop.made, shop.again(run).state) == (["mail"], "success")


def test_a_run_that_failed_at_its_beginning_begins_anew(world: OpenWorld, shop: Shop) -> None:
    app, broken = shop.app, [True]

    @app.workflow(name="shop.short")
    async def short(step: Step) -> str:
        if broken:
            raise KeyError("no key")
        return "fine"

    w = world(app)
    run = app.workflows.start(short)
    w.advance(1)
    broken.clear()

    assert app.workflows.restart_all("shop.short", from_failed=True) == 1
    w.advance(1)

    assert shop.again(run).result == "fine"


def test_runs_are_chosen_as_lists_choose_them(world: OpenWorld, shop: Shop) -> None:
    w, shop.broken = world(shop.app), "charge"
    keyed = shop.app.workflows.using(key="order-7", attributes={"customer": "ada"}).start(shop.fulfil, item="keyed")
    [plain] = shop.start()
    w.advance(1)

    def restarted(**where: Any) -> int:
        return shop.app.workflows.restart_all(**where)

    for where in (
        {"workflow": "shop.other"}, {"prefix": "order-8"}, {"error": "KeyError"}, {"attributes": {"customer": "ben"}},
        {"state": "success"}, {"started_until": w.now - timedelta(hours=1)}, {"schedule": "nightly"},
    ):  # fmt: skip
        assert restarted(**where) == 0, where
    assert restarted(attributes={"customer": "ada"}) == 1
    assert shop.again(keyed).attributes == {"customer": "ada"}
    assert [run.id for run in shop.app.workflows.list(not_retried=True).runs] == [plain]
    assert restarted(prefix="order-7", step=2) == 0, "it has not failed yet"
    assert restarted(workflow=shop.fulfil, started_from=w.now - timedelta(hours=1), step="shop.step") == 1


def test_runs_that_cannot_be_restarted_from_there_are_left_out(world: OpenWorld, shop: Shop) -> None:
    w, shop.broken = world(shop.app), "fetch"
    early = shop.start()[0]
    w.advance(1)
    shop.broken = "charge"
    late = shop.app.workflows.using(key="k").start(shop.fulfil, item="late")
    w.advance(1)
    shop.app.workflows.using(key="k").start(shop.fulfil, item="holder")
    shop.broken = ""

    assert shop.app.workflows.restart_all(step=2) == 0, "the one made no second step, the key of the other is held"
    assert [shop.app.workflows.get(each).retried_as for each in (early, late)] == [None, None]
    shop.app.workflows.types.pause("shop.fulfil")
    assert shop.app.workflows.restart_all() == 0
    shop.app.workflows.types.resume("shop.fulfil")
    assert shop.app.workflows.restart_all() == 1


def test_runs_that_fail_again_meanwhile_are_not_restarted_by_the_same_call(
    world: OpenWorld, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart_all, "RESTART_PAGE", 2)
    w, shop.broken = world(shop.app), "charge"
    runs = shop.start(5)
    w.advance(1)
    seen: list[int] = []

    def fail_again(count: int) -> None:
        seen.append(count)
        w.advance(1)

    assert shop.app.workflows.with_progress(fail_again).restart_all(from_failed=True) == 5
    assert seen[-1] == 5 and len(seen) >= 3
    assert {shop.again(each).state for each in runs} == {"failed"}
    assert shop.app.workflows.restart_all(from_failed=True) == 5


def test_open_runs_are_restarted_where_their_state_is_named(world: OpenWorld, shop: Shop) -> None:
    w = world(shop.app)
    [run] = shop.start()
    w.advance(1)
    shop.made.clear()

    assert shop.app.workflows.restart_all(state="running", step=2) == 1
    w.advance(1)

    assert (shop.app.workflows.get(run).state, shop.again(run).state, shop.made) == ("canceled", "running", ["charge"])


def test_a_step_in_a_job_of_its_own_is_made_again(world: OpenWorld, shop: Shop) -> None:
    app = shop.app

    @app.workflow(name="shop.slow")
    async def slow(step: Step) -> str:
        first = await step.run(shop.step, "fetch")
        return first + await step.using(retry=Retry(2)).run(shop.step, "charge")

    w, shop.broken = world(app), "charge"
    run = app.workflows.start(slow)
    w.advance(600)
    assert app.workflows.get(run).state == "failed"
    shop.broken = ""
    shop.made.clear()

    app.workflows.restart(run, from_failed=True)
    w.advance(1)

    assert (shop.made, shop.again(run).result) == (["charge"], "fetchcharge")


def test_what_cannot_be_meant_is_refused(world: OpenWorld, shop: Shop) -> None:
    w = world(shop.app)
    [run] = shop.start()
    w.advance(1)
    shop.app.workflows.signal(run, "sent")
    w.advance(1)

    with pytest.raises(Misuse, match="both say where to restart; give only one"):
        shop.app.workflows.restart_all(step=1, from_failed=True)
    with pytest.raises(Misuse, match="step= must be the number of a step or its name"):
        shop.app.workflows.restart_all(step=1.5)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="unknown filter colour= of runs"):
        shop.app.workflows.restart_all(colour="red")  # type: ignore[call-arg]
    with pytest.raises(Misuse, match="has succeeded, so it has no failed step"):
        shop.app.workflows.restart(run, from_failed=True)
    with pytest.raises(Misuse, match="not_retried= matches only failed runs"):
        shop.app.workflows.list(state="canceled", not_retried=True)
    assert shop.app.workflows.restart_all(state="success", from_failed=True) == 0
    assert shop.app.workflows.restart_all(state="success", step="shop.step") == 1
