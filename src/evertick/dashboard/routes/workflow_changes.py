"""Changes of a run: sending or withdrawing events, pause, resume, cancel, terminate and restart."""

import json
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import Query
from starlette.responses import Response

from evertick.api.workflows import RunTimeline
from evertick.app.bodies import Body
from evertick.app.functions.events import EventTypes
from evertick.app.functions.schema import VALUE
from evertick.app.workflows.details import steps_again
from evertick.base.errors import Conflict, EvertickError, Misuse, NotFound, StepStillRuns
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.base.records.workflows import CallKind, RunState
from evertick.dashboard.forms.form import json_field
from evertick.dashboard.forms.signature import Signature, value_of_event
from evertick.dashboard.markup.states import not_taken
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.bodies import Named
from evertick.server.routes import workflows as api

routes = page_routes()


class Ending(NamedTuple):
    """The texts of an action that ends or pauses a run."""

    word: str
    means: str
    said: str
    is_red: bool


ENDINGS: Final = {
    "cancel": Ending(
        "Cancel",
        "Its code gets CancelledError where it waits, and can clean up with further steps. What it waits for is "
        "canceled, too. A paused run is resumed first.",
        "Asked {} to end.",
        is_red=True,
    ),
    "terminate": Ending(
        "Terminate",
        "It ends at once: its code does not run any more, not even to clean up. What it has started continues.",
        "Terminated {}.",
        is_red=True,
    ),
    "pause": Ending(
        "Pause",
        "It takes no further step until it is resumed. What it has begun continues; events and timers are kept.",
        "Paused {}.",
        is_red=False,
    ),
    "resume": Ending("Resume", "It continues where it was paused.", "Resumed {}.", is_red=False),
}
STEPS: Final = 200
"""Steps to choose from: the newest ones."""
CALLS: Final = {
    "cancel": api.cancel_run,
    "terminate": api.terminate_run,
    "pause": api.pause_run,
    "resume": api.resume_run,
}
FIELDS: Final = {
    "cannot name an event": "event", "takes no event": "event", "key=": "key", "the value of": "value",
}  # fmt: skip
"""The fields of errors about events, by words in their messages."""
Action = Literal["cancel", "terminate", "pause", "resume"]


class AskedStep(Body):
    """The parameters of a restart: its first step."""

    step: int | None = None
    tz: str | None = None


class AskedEvent(Body):
    """The parameters of a withdrawal: the event."""

    event: str = ""
    id: str = ""
    tz: str | None = None


@routes.asks("/workflows/{run_id}/signal", Scope.OPERATE)
async def show_signal(page: Shown, run_id: Named) -> Response:
    """Show the form that sends an event."""
    return _signal(page, await page.access.workflows.timeline(run_id, limit=1), page.typed)


@routes.form("/workflows/{run_id}/signal", Scope.OPERATE)
async def signal(page: Shown, run_id: Named) -> Response:
    """Send an event to a run; or show the fields of another event, or the value in the other mode."""
    form, found = await page.form(), await page.access.workflows.timeline(run_id, limit=1)
    declared = _declared(page, found)
    signature = _signature(declared, form)
    if form["choose"] or (signature is not None and signature.switch(form)):
        return _signal(page, found, form)
    value = _event_in(page, form, signature)
    if not form.errors:
        try:
            await api.signal_run(
                page.request, page.known, run_id, api.Signal(event=form["event"], value=value, key=form.given("key"))
            )
        except (Misuse, EvertickError) as error:
            form.field_of(error, FIELDS)
    if form.errors:
        return _signal(page, found, form, status=422)
    kept = "" if found.waits_for_event(form["event"]) else " Its code does not wait for that now; the event is kept."
    return page.done(page.url("workflows", run_id), f"Sent {form['event']}.{kept}")


@routes.asks("/workflows/{run_id}/withdraw", Scope.OPERATE)
async def show_withdraw(page: Shown, run_id: Named, asked: Annotated[AskedEvent, Query()]) -> Response:
    """Show the form that withdraws an event."""
    return await _withdraw(page, run_id, page.typed or Form([("event", asked.event), ("id", asked.id)]))


@routes.form("/workflows/{run_id}/withdraw", Scope.OPERATE)
async def withdraw(page: Shown, run_id: Named) -> Response:
    """Withdraw an event that a run has not taken."""
    form = await page.form()
    try:
        await api.withdraw_event(page.known, run_id, api.Withdrawal(event=form["event"], id=form.given("id")))
    except (Misuse, NotFound, Conflict) as error:
        form.fail("", str(error))
        return await _withdraw(page, run_id, form, status=409)
    return page.done(page.url("workflows", run_id), f"Withdrew {form['event']}.")


@routes.asks("/workflows/{run_id}/restart", Scope.OPERATE)
async def show_restart(page: Shown, run_id: Named, asked: Annotated[AskedStep, Query()]) -> Response:
    """Show the form that restarts a run; by default from the last failed step of a failed run."""
    found = await page.access.workflows.timeline(run_id, limit=STEPS)
    if page.typed is not None:
        return await _restart(page, found, page.typed)
    step = asked.step
    if step is None and found.run.state is RunState.FAILED:
        step = next((each.step for each in reversed(found.steps) if each.outcome == "failed"), None)
    return await _restart(page, found, Form([("step", str(step or ""))]))


@routes.form("/workflows/{run_id}/restart", Scope.OPERATE)
async def restart(page: Shown, run_id: Named) -> Response:
    """Run a workflow again from one of its steps, as a new run."""
    form = await page.form()
    step = _step_in(form)
    if not form.errors and not form["choose"]:
        try:
            how = api.Restart(step=step)
            done = await api.restart_run(page.request, page.known, run_id, how)
        except StepStillRuns as error:
            form.fail("step", str(error))
        except EvertickError as error:
            form.field_of(error, {"has not made a step": "step"})
        else:
            new_id = json.loads(bytes(done.body))["id"]
            return page.done(page.url("workflows", new_id), f"Restarted as {new_id}.")
    found = await page.access.workflows.timeline(run_id, limit=STEPS)
    return await _restart(page, found, form, status=422 if form.errors else 200)


@routes.page("/workflows/{run_id}/{action}", Scope.OPERATE)
async def show_ending(page: Shown, run_id: Named, action: Action) -> Response:
    """Show the form that cancels, terminates, pauses or resumes a run."""
    return await _ending(page, run_id, action, Form())


@routes.form("/workflows/{run_id}/{action}", Scope.OPERATE)
async def end(page: Shown, run_id: Named, action: Action) -> Response:
    """Cancel, terminate, pause or resume a run."""
    done = await CALLS[action](page.known, run_id)
    if not json.loads(bytes(done.body))["changed"]:
        form = Form()
        form.fail("", "It has ended meanwhile." if action != "resume" else "It is not paused.")
        return await _ending(page, run_id, action, form, status=409)
    return page.done(page.url("workflows", run_id), ENDINGS[action].said.format(run_id))


def _declared(page: Page, found: RunTimeline) -> EventTypes | None:
    """The events that a run's workflow declares; None if it declares none, or its code is not in this app."""
    return page.access.workflows.operations.declared_events(found.run.function)


def _signature(declared: EventTypes | None, form: Form) -> Signature | None:
    """The fields for the value of the event; None if its type is not known."""
    known = declared is not None and form["event"] in declared.names
    return value_of_event(declared, form["event"]) if declared is not None and known else None


def _event_in(page: Page, form: Form, signature: Signature | None) -> Any:
    """The typed value of the event; errors are stored at the fields."""
    if not form["event"]:
        form.fail("event", "Enter the name of the event that the code waits for.")
    if signature is None:
        return json_field(form, "value")
    return (signature.read(form, page.times) or {}).get(VALUE)


def _signal(page: Page, found: RunTimeline, form: Form | None, *, status: int = 200) -> Response:
    waited = sorted({each.name for each in found.waits_for if each.kind is CallKind.EVENT})
    declared = _declared(page, found)
    known = waited if declared is None else declared.names
    form = form or Form([("event", each) for each in (waited or known)[:1] if waited or len(known) == 1])
    signature, read = _signature(declared, form), page.judged(form)
    value = _event_in(page, read, signature)
    typed = read["value"] if signature is None else "" if value is None else json_text(value)
    line = page.command(
        "workflow", "signal", found.run.id, read["event"], *filter(None, [typed]), key=read.given("key")
    )
    return page.render(
        "workflows/signal.html", status=status, run=found.run, form=form, events=waited, known=known,
        is_declared=declared is not None, signature=signature, not_taken=not_taken(found, page.times),
        commands=page.same(read, line),
    )  # fmt: skip


async def _withdraw(page: Page, run_id: str, form: Form, *, status: int = 200) -> Response:
    found = await page.access.workflows.timeline(run_id, limit=1)
    alike = [each for each in found.waiting_events if each.name == form["event"]]
    event = next((each for each in alike if form["id"] in ("", each.id)), None)
    named = form.given("id") if len(alike) > 1 else None
    line = page.command("workflow", "withdraw", found.run.id, form["event"], id=named)
    return page.render(
        "workflows/withdraw.html", status=status, run=found.run, form=form, event=event,
        commands=page.same(form, line, at=""),
    )  # fmt: skip


def _step_in(form: Form) -> int | None:
    """The chosen step; None for the beginning, or if it is invalid, with the error stored at the field."""
    step = form["step"]
    if step and not (step.isascii() and step.isdecimal() and len(step) < 9):
        form.fail("step", "Enter the number of a step, or nothing to restart from the beginning.")
    return int(step) if step and "step" not in form.errors else None


async def _restart(page: Page, found: RunTimeline, form: Form, *, status: int = 200) -> Response:
    workflows, step = page.access.workflows, _step_in(form)
    plan = None
    if "step" not in form.errors:
        try:
            plan = await workflows.read(steps_again(workflows.operations, found.run.id, step=step))
        except Misuse as error:
            form.fail("step", str(error))
    line = page.command("workflow", "restart", found.run.id, step=None if step is None else str(step))
    goes_on = [each.name for each in found.waits_for if each.job_id is not None]
    return page.render(
        "workflows/restart.html",
        status=status,
        run=found.run,
        found=found,
        form=form,
        commands=page.same(form, line),
        goes_on=goes_on,
        plan=plan,
    )


async def _ending(page: Page, run_id: str, action: str, form: Form, *, status: int = 200) -> Response:
    found: RunTimeline = await page.access.workflows.timeline(run_id, limit=1)
    return page.render(
        "workflows/ending.html", status=status, run=found.run, found=found, form=form, action=action,
        ending=ENDINGS[action], commands=page.same(form, page.command("workflow", action, found.run.id), at=""),
    )  # fmt: skip
