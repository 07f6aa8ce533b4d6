"""A test that asks for the result of a run which has not ended is told what the run waits for, at once."""

from datetime import timedelta

import pytest

from evertick import App, Step
from evertick.errors import Misuse
from evertick.testing import World

app = App("shop")


@app.workflow(name="order")
async def order(step: Step) -> str:
    await step.sleep(timedelta(hours=1))
    return str(await step.wait_for("paid"))


def test_the_result_of_a_run_that_has_not_ended_is_an_error_that_says_what_is_waited_for() -> None:
    with World(app) as world:
        run_id = app.workflows.start(order)
        with pytest.raises(Misuse, match="it has not continued yet; let time pass"):
            app.workflows.result(run_id)
        for passes, waits in ((1, "waits for sleep 'sleep'"), (3_600, "waits for event 'paid'")):
            world.advance(passes)
            with pytest.raises(Misuse, match=rf"has not ended.*: it {waits}; let time pass with world.advance"):
                app.workflows.result(run_id)
            with pytest.raises(TimeoutError):
                app.workflows.result(run_id, timeout=3)
        app.workflows.signal(run_id, "paid", "in cash")
        world.advance(1)
        assert app.workflows.result(run_id) == "in cash"
