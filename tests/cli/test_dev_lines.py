"""What `evertick dev` writes of a database, read without a process of its own."""

import pytest

from evertick.cli.dev.lines import DevLines
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
