"""The code of a workflow, as a run calls it: in a worker, and where a history is replayed."""

from typing import Any

from evertick.app.functions.function import Function
from evertick.base.records.jobs import OccurrenceRef
from evertick.base.scheduled_run import scheduled_run
from evertick.rules.workflows.run import Run
from evertick.rules.workflows.step import SILENT, Step, StepLog


async def run_code(
    function: Function[..., Any], run: Run, arguments: str, schedule: OccurrenceRef | None, log: StepLog = SILENT
) -> str:
    """Run the code of a workflow on its run, with stored arguments (JSON text). Returns its result as JSON text.

    Raises what the code raises, InvalidArguments if the arguments do not fit its signature (any more).
    """
    args, kwargs = function.decode_args(arguments)
    occurrence = None if schedule is None else scheduled_run(schedule, function.decode_result)
    step = Step(run, function, schedule=occurrence, log=log)
    return function.encode_result(await function.handler(step, *args, **kwargs))
