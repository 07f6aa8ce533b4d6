"""Replaying: checks whether the code of a workflow matches what a run has done."""

import json
from collections.abc import Callable
from typing import Any

from evertick.api.workflows import RunHistory
from evertick.app.functions.function import Function, Workflow
from evertick.base.records.jobs import OccurrenceRef
from evertick.base.scheduled_run import scheduled_run
from evertick.rules.workflows.calls import RunEnd
from evertick.rules.workflows.replay import replay
from evertick.rules.workflows.run import Run, new_run
from evertick.rules.workflows.step import SILENT, Step, StepLog

# -- The code of a workflow, as a run calls it: in a worker, and during a replay.


async def run_code(
    function: Function[..., Any], run: Run, arguments: str, schedule: OccurrenceRef | None, log: StepLog = SILENT
) -> str:
    """Run the code of a workflow on its run, with stored arguments (JSON text). Returns its result as JSON text.

    Raises what the code raises, and InvalidArguments if the arguments do not match its signature.
    """
    args, kwargs = function.decode_args(arguments)
    occurrence = None if schedule is None else scheduled_run(schedule, function.decode_result)
    step = Step(run, function, schedule=occurrence, log=log)
    return function.encode_result(await function.handler(step, *args, **kwargs))


def replayed_end(
    workflow: Workflow[..., Any], history: RunHistory, within_limit: Callable[[Callable[[], None]], None] | None = None
) -> RunEnd | None:
    """Run the code of a workflow over a history; nothing else runs. Returns the end of the run, None if it has none.

    `within_limit` runs the code from one event to the next. Raises ReplayMismatch if the code makes other calls.
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
