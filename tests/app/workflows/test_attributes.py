"""Attributes of runs, on both databases: lists find runs by them, and they are kept as long as the run."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, Settings, Step
from evertick.errors import EvertickError, LimitExceeded, Misuse, ValueTooLarge
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until


@pytest.fixture(params=[1_000, 0], ids=["in memory", "replayed"])
def app(open_app: OpenApp, request: pytest.FixtureRequest) -> App:
    return open_app(settings=Settings(runs_in_memory=request.param))


def found(app: App, **attributes: Any) -> list[str]:
    return [run.id for run in app.workflows.list(attributes=attributes).runs]


def ends(app: App, run_id: str) -> Callable[[], bool]:
    return lambda: app.workflows.get(run_id).state in ("success", "failed", "canceled")


def test_attributes_change_with_the_steps_and_stay_after_the_end(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step, customer: str) -> str:
        step.set_attributes(customer=customer, stage="asked", tries=0)
        await step.wait_for("paid")
        step.set_attributes({"stage": "paid", "tries": None, "is done": True})
        return customer

    one, two = (app.workflows.start(flow, each) for each in ("c7", "c8"))
    with Engine(app):
        until(lambda: len(found(app, stage="asked", tries=0)) == 2)
        assert found(app, customer="c7", stage="asked") == [one]
        assert not found(app, tries="0")
        assert not found(app, tries=False)
        app.workflows.signal(one, "paid")
        until(ends(app, one))

    assert found(app, stage="asked") == [two]
    assert found(app, stage="paid") == found(app, **{"is done": True, "customer": "c7"}) == [one]
    assert app.workflows.get(one).attributes == {"customer": "c7", "stage": "paid", "is done": True}
    assert app.workflows.list(state="success", attributes={"customer": "c7"}).runs[0].id == one
    assert not app.workflows.list(state="running", attributes={"customer": "c7"}).runs


def test_a_run_starts_with_attributes_and_keeps_them_when_it_continues_as_new_or_is_restarted(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step, n: int) -> int:
        step.set_attributes({f"round {n}": n})
        if n < 2:
            step.continue_as_new(n + 1)
        await step.wait_for("end")
        return n

    run_id = app.workflows.using(attributes={"customer": "c7"}).start(flow, 0)
    assert found(app, customer="c7") == [run_id]
    with Engine(app):
        until(lambda: found(app, customer="c7", **{"round 2": 2}) == [run_id])
        again = app.workflows.restart(run_id)
        app.workflows.signal(again, "end")
        until(ends(app, again))

    every = {"customer": "c7", "round 0": 0, "round 1": 1, "round 2": 2}
    assert app.workflows.get(run_id).attributes == app.workflows.get(again).attributes == every
    assert found(app, **every) == [again, run_id]


def test_a_run_that_has_attributes_and_has_not_begun_is_canceled_at_once(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.sleep(1)

    run_id = app.workflows.using(attributes={"customer": "c7"}).start(flow)
    kept = app.workflows.using(key="k").start(flow)
    assert app.workflows.using(key="k", attributes={"customer": "c7"}).start(flow) == kept

    assert app.workflows.cancel(run_id)
    assert app.workflows.get(run_id).state == "canceled"
    assert found(app, customer="c7") == [run_id]


def test_a_run_meets_the_same_limit_in_each_replay(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> int:
        try:
            step.set_attributes({f"more {n}": n for n in range(6)})
        except LimitExceeded:
            step.set_attributes({f"name {n}": None for n in range(10)})
        step.set_attributes({f"less {n}": n for n in range(5)})
        await step.wait_for("end")
        return 1

    run_id = app.workflows.using(attributes={f"name {n}": n for n in range(15)}).start(flow)
    with Engine(app):
        until(lambda: found(app, **{"less 4": 4}) == [run_id])
        app.workflows.signal(run_id, "end")
        until(ends(app, run_id))

    names = {f"name {n}" for n in range(10, 15)} | {f"less {n}" for n in range(5)}
    assert set(app.workflows.get(run_id).attributes) == names


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"": 1}, Misuse),
        ({"n" * 65: 1}, Misuse),
        ({"a\n": 1}, Misuse),
        ({"a": 1.5}, Misuse),
        ({"a": 2**63}, Misuse),
        ({"a": "\ud800"}, Misuse),
        ({"a": "x" * 256}, ValueTooLarge),
        ({f"n{n}": 1 for n in range(21)}, LimitExceeded),
    ],
)
def test_what_is_no_attribute_is_refused(open_app: OpenApp, given: dict[str, Any], error: type[EvertickError]) -> None:
    with pytest.raises(error):
        open_app().workflows.using(attributes=given)


def test_the_longest_attributes_and_odd_texts_are_found(open_app: OpenApp) -> None:
    app = open_app()

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        pass

    longest = {"\U0001f600" * 64: "\U0001f600" * 255, "nul": "a\0b", "quote": 'a="b', "large": -(2**63)}
    run_id = app.workflows.using(attributes=longest).start(flow)

    assert found(app, **longest) == [run_id]
    assert app.workflows.get(run_id).attributes == longest
