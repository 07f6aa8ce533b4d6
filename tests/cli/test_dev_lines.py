"""What `evertick dev` writes of a database, read without a process of its own."""

import logging

import pytest

from evertick import App, MutationCtx
from evertick.cli.dev.lines import DevHandler, DevLines
from evertick.engine.runtime.metrics import JobLog
from evertick.functions import Failure
from evertick.testing import World
from tests.app.conftest import OpenApp, open_app
from tests.app.engine import Engine
from tests.server.conftest import shop_on

__all__ = ["open_app"]


def test_a_run_that_only_an_event_wakes_is_announced_without_a_time(
    open_app: OpenApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app = shop_on(open_app)
    run = app.workflows.start("shop.fulfil", order_id="7")
    with Engine(app) as engine:
        engine.until(lambda: app.workflows.timeline(run).waits_for or None)
    DevLines(app.environment.store, app.environment.clock, name_width=11).announce_waiting()
    assert " + shop.fulfil   waits for an event\n" in capsys.readouterr().out


def test_what_a_function_of_on_failure_raises_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The ends of attempts are not: they have lines of their own."""
    app = App("shop")

    @app.mutation(name="bill")
    def bill(ctx: MutationCtx) -> None:
        raise ValueError("no such card")

    @app.on_failure
    def report(failure: Failure) -> None:
        raise RuntimeError("the tracker is away")

    logging.getLogger().addHandler(DevHandler())
    with World(app) as world:
        world.counters.batch_observers.append(JobLog())
        app.scheduler.run_after(0, bill)
        world.advance(1)
    logging.getLogger("shop.reports").warning("late", extra={"state": "late", "fate": "late"})

    shown = capsys.readouterr().out
    assert "! a function of app.on_failure raised" in shown
    assert shown.count("RuntimeError: the tracker is away") == 1
    assert "! late" in shown
    assert "bill failed" not in shown
