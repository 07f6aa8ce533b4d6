"""Replay: tests whether the code of a workflow fits the history of a run."""

import json
from collections.abc import Mapping
from typing import Any

from evertick.api.workflows import RunHistory
from evertick.app.functions.function import Workflow
from evertick.app.workflows.replaying import replayed_end
from evertick.base.errors import Misuse
from evertick.base.outcomes import Raised, Returned


def replay(workflow: Workflow[..., Any], history: RunHistory | Mapping[str, Any] | str) -> Any:
    """Run the code of a workflow with the history of a run, without running any step, up to the end of the history.

    Returns the result of the run, as plain JSON; None if the history ends before it. So a test can check new code with
    histories of old code: `replay(onboard, app.workflows.history(run_id))`, or with a saved one, as the object of
    `history.to_json()` or as the text of `evertick workflow history ID -o json` (which has null for NaN and infinity).
    It needs no world.

    Raises ReplayMismatch if the code makes other calls, AssertionError with the error of a run that failed, and Misuse
    for an invalid history or one of another workflow.
    """
    read = _history_of(history)
    if read.function not in (workflow.name, *workflow.aliases):
        raise Misuse(f"this is the history of a run of {read.function}, not of {workflow.name}")
    end = replayed_end(workflow, read)
    if isinstance(end, Raised):
        raise AssertionError(f"the run ends with {end.type}: {end.message}")
    return json.loads(end.result) if isinstance(end, Returned) else None


def _history_of(given: RunHistory | Mapping[str, Any] | str) -> RunHistory:
    if isinstance(given, RunHistory):
        return given
    try:
        return RunHistory.model_validate(json.loads(given) if isinstance(given, str) else given)
    except (ValueError, RecursionError) as error:
        raise Misuse(
            f"this is not a history of a run as printed by `evertick workflow history ID -o json`: {_problem(error)}"
        ) from error


def _problem(error: Exception) -> str:
    """The first mistake in an invalid history."""
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
