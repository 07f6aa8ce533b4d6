"""One run: what it waits for, its steps on a timeline, its events, and what went in and came out."""

import json
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import Response

from evertick.api.jobs import JobView
from evertick.api.workflows import RunTimeline, TimedStep
from evertick.app.bodies import Body
from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.base.records.workflows import OPEN, RunState
from evertick.dashboard.markup.runs import apart, not_taken, run_state, run_took, step_state, step_took, waiting
from evertick.dashboard.markup.timelines import lanes, together
from evertick.dashboard.page import Page, Shown, file_of, page_routes
from evertick.server.bodies import Named

routes = page_routes()

STEPS: Final = 200
"""Steps on a page."""
EVENTS: Final = 200
"""Events on a page."""
LINES: Final = 30
"""Lines of a step's log on its panel."""
OWN_LINES: Final = 500
"""Lines of a run's log on a page."""


class Asked(Body):
    """A view of a run."""

    view: Literal["timeline", "events", "log", "io", "json"] = "timeline"
    step: int | None = None
    before: int | None = None
    fold: bool = True
    tz: str | None = None


@routes.page("/workflows/{run_id}", Scope.READ)
async def show_run(page: Shown, run_id: Named, asked: Annotated[Asked, Query()]) -> Response:
    """A run."""
    found = await page.access.workflows.timeline(run_id, limit=STEPS, before=_before(asked))
    values: dict[str, Any] = {"asked": asked, "found": found, "run": found.run, "is_open": found.run.state in OPEN}
    values |= {"state_of": run_state, "took": run_took(found.run, page.times)}
    values["lead"] = waiting(found.waits_for, page.times)
    values["parent"], values["is_child"] = await _parent(page, found)
    values["not_taken"] = not_taken(found, page.times)
    values["waits_for_worker"] = await _waits_for_worker(page, found)
    if asked.view == "timeline":
        values |= await _timeline(page, found, asked)
    elif asked.view == "events":
        history = await page.access.workflows.history(found.run.id)
        events = [each for each in history.events if asked.before is None or each.position < asked.before]
        values |= {"events": events[-EVENTS:], "earlier": len(events) > EVENTS}
    elif asked.view == "log":
        logs = await page.access.jobs.logs(found.run.id)
        values |= {"logs": logs, "lines": logs.lines[-OWN_LINES:]}
    elif asked.view == "json":
        values["text"] = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
    return page.render(f"workflows/{asked.view}.html", **values)


@routes.page("/workflows/{run_id}/history.json", Scope.READ)
async def download_history(page: Shown, run_id: Named) -> Response:
    """What a run has done, as `evertick.testing.replay` and `evertick workflow history -o json` have it."""
    history = await page.access.workflows.history(run_id)
    text = json.dumps(history.to_json(), ensure_ascii=False, indent=2)
    return file_of(text, f"{history.id}-history.json", "application/json")


def _before(asked: Asked) -> int | None:
    """Up to which step a page shows: so that one that was asked for is among them."""
    if asked.view != "timeline":
        return None
    return asked.before


async def _timeline(page: Page, found: RunTimeline, asked: Asked) -> dict[str, Any]:
    chosen = _chosen(found, asked.step)
    lines = None
    if chosen is not None and chosen.job_id is not None and chosen.attempts:
        lines = await page.access.jobs.logs(chosen.job_id)
    return {
        "drawn": lanes(found, page.times, fold=asked.fold),
        "together": together(found.steps),
        "apart": apart(found),
        "chosen": chosen,
        "lines": lines,
        "lines_max": LINES,
        "step_state": step_state,
        "step_took": step_took,
        "earlier": found.steps[0].step if found.steps and found.steps[0].step > 1 else None,
    }


def _chosen(found: RunTimeline, asked: int | None) -> TimedStep | None:
    """The step that is shown whole: the one asked for, else one that failed, goes on, or came last."""
    by_number = {step.step: step for step in found.steps}
    if asked in by_number:
        return by_number[asked]
    if not found.steps:
        return None
    failed = [step for step in found.steps if step.outcome == "failed"]
    running = [step for step in found.steps if step.outcome == "running"]
    if found.run.state is RunState.FAILED and failed:
        return failed[-1]
    return (running or found.steps)[-1]


async def _parent(page: Page, found: RunTimeline) -> tuple[JobView | None, bool]:
    """The job that has started a run, and whether that is the run that has called it as a child."""
    run = found.run
    if run.parent_id is None or run.parent_id == run.restarted_from:
        return None, False
    [parent] = await page.access.jobs.get_many([run.parent_id])
    return parent, parent is not None and parent.kind is FunctionKind.WORKFLOW


async def _waits_for_worker(page: Page, found: RunTimeline) -> str | None:
    """Why a run does not go on that waits for nothing."""
    if found.run.state not in (RunState.PENDING, RunState.RUNNING) or found.waits_for:
        return None
    job = await page.access.jobs.get(found.run.id)
    if job.blocked:
        return "No live worker has this workflow: it goes on when one is started."
    return "It goes on as soon as a worker takes it."
