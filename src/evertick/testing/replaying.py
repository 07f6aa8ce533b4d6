"""Replay: whether the code of a workflow fits the history of a run."""

import json
from typing import Any

from evertick.api.workflows import RunHistory
from evertick.app.functions.function import Workflow
from evertick.base.outcomes import Raised, Returned
from evertick.rules.workflows.replay import replay as replay_rows
from evertick.rules.workflows.run import Run, new_run
from evertick.rules.workflows.step import Step


def replay(workflow: Workflow[..., Any], history: RunHistory) -> Any:
    """Run the code of a workflow over the history of a run, as far as that goes; nothing else is run.

    Returns what the run returned, as plain JSON; None if the history ends before. So a test can hold new code against
    histories that old code has written: `replay(onboard, app.workflows.history(run_id))`, or one that was saved with
    `history.to_json()`.

    Raises ReplayMismatch where the code makes other calls, and the error of a run that failed.
    """

    async def body(run: Run) -> str:
        return workflow.encode_result(await workflow.handler(Step(run, workflow), **history.args))

    run = new_run(history.id, body, seed=history.seed)
    try:
        replay_rows(run, [event.row() for event in history.events])
        end = run.end
    finally:
        run.evict()
    if isinstance(end, Raised):
        raise AssertionError(f"the run ends with {end.type}: {end.message}")
    return json.loads(end.result) if isinstance(end, Returned) else None
