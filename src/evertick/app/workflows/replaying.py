"""Replaying: whether the code of a workflow fits what a run has done."""

import json
from collections.abc import Callable
from typing import Any

from evertick.api.workflows import RunHistory
from evertick.app.functions.function import Workflow
from evertick.app.workflows.code import run_code
from evertick.rules.workflows.calls import RunEnd
from evertick.rules.workflows.replay import replay
from evertick.rules.workflows.run import Run, new_run


def replayed_end(
    workflow: Workflow[..., Any], history: RunHistory, within_limit: Callable[[Callable[[], None]], None] | None = None
) -> RunEnd | None:
    """Run the code of a workflow over a history; nothing else is run. Returns how the run ends, None if it goes on.

    `within_limit` lets the code go on from one event to the next. Raises ReplayMismatch where it makes other calls.
    """

    async def body(run: Run) -> str:
        ref = None if history.schedule is None else history.schedule.ref()
        return await run_code(workflow, run, json.dumps(history.args), ref)

    run = new_run(history.id, body, seed=history.seed)
    rows = [event.row() for event in history.events]
    try:
        replay(run, rows) if within_limit is None else replay(run, rows, within_limit)
        return run.end
    finally:
        run.evict()
