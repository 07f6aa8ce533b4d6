"""What is done to one job: cancel, stop, run now, reschedule, run again."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from evertick.api.jobs import JobView
from evertick.base.errors import EvertickError, FunctionNotFound, NotFound
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.base.records.jobs import JobState
from evertick.dashboard.forms.moments import moment_in, said_moment
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.bodies import Named
from evertick.server.routes import jobs as api

routes = page_routes()

SAID: Final = {
    "cancel": "Canceled {}.",
    "stop": "Stopping {}.",
    "run-now": "{} runs now.",
    "reschedule": "{} has another time.",
}
"""What a page says when it was done."""


@dataclass(slots=True)
class Change:
    """The form of a change of a job."""

    action: str
    job: JobView
    form: Form


@routes.asks("/jobs/{job_id}/retry", Scope.OPERATE)
async def show_retry(page: Shown, job_id: Named) -> Response:
    """Ask whether a job is to be run again, and with which arguments."""
    job = await page.access.jobs.get(job_id)
    signature = _signature(page, job)
    form = Form() if signature is None else signature.form(job.args)
    return _shown(page, Change("retry", job, page.typed or form), signature)


@routes.form("/jobs/{job_id}/retry", Scope.OPERATE)
async def retry(page: Shown, job_id: Named) -> Response:
    """Run a job again, as a new job."""
    change = Change("retry", await page.access.jobs.get(job_id), await page.form())
    form, signature = change.form, _signature(page, change.job)
    if signature is not None and signature.switch(form):
        return _shown(page, change, signature)
    args = _args_in(page, change.job, form, signature)
    if form.errors:
        return _shown(page, change, signature, status=422)
    again = None if args is None else api.Again(args=args)
    try:
        reply = await api.retry_job(page.request, page.known, job_id, again)
    except NotFound:
        raise
    except EvertickError as error:
        form.field_of(error, {})
        return _shown(page, change, signature, status=422)
    new_id = json.loads(bytes(reply.body))["id"]
    return page.done(page.url("jobs", new_id), "Runs again, as this new job.")


@routes.asks("/jobs/{job_id}/{action}", Scope.OPERATE)
async def show_change(page: Shown, job_id: Named, action: str) -> Response:
    """Ask whether a job is to be changed."""
    _known(action)
    return _shown(page, Change(action, await page.access.jobs.get(job_id), page.typed or Form()))


@routes.form("/jobs/{job_id}/{action}", Scope.OPERATE)
async def change(page: Shown, job_id: Named, action: str) -> Response:
    """Change a job."""
    _known(action)
    asked = Change(action, await page.access.jobs.get(job_id), await page.form())
    form = asked.form
    at = _time_in(page, form) if action == "reschedule" else None
    if form.errors:
        return _shown(page, asked, status=422)
    try:
        if at is not None:
            await api.reschedule_job(page.known, job_id, api.Reschedule(at=at))
        else:
            change_of = {"cancel": api.cancel_job, "stop": api.stop_job, "run-now": api.run_job_now}[action]
            reply = await change_of(page.known, job_id)
            if action != "run-now" and json.loads(bytes(reply.body))["state"] in (JobState.SUCCESS, JobState.FAILED):
                form.fail("", "It had ended before: there was nothing to cancel.")
                return _shown(page, asked, status=409)
    except NotFound:
        raise
    except EvertickError as error:
        form.field_of(error, {}, "at" if action == "reschedule" else "")
        return _shown(page, asked, status=422)
    return page.done(page.url("jobs", job_id), SAID[action].format(asked.job.function))


def _known(action: str) -> None:
    if action not in SAID:
        raise NotFound("a job is canceled, stopped, run now, rescheduled or run again")


def _signature(page: Page, job: JobView) -> Signature | None:
    """The form for other arguments; None if the visitor may not give them, or the function is not of this app."""
    if not page.may(Scope.EDIT):
        return None
    try:
        return signature_of(page.known.function(job.function))
    except FunctionNotFound:
        return None


def _args_in(page: Page, job: JobView, form: Form, signature: Signature | None) -> dict[str, Any] | None:
    """The other arguments that a job is to run again with; None for the same, or if something is wrong with them."""
    if signature is None:
        return None
    if form["which"] == "other":
        return signature.read(form, page.times)
    if signature.is_other(form, job.args):
        form.fail("which", "The arguments below were changed, but the same arguments as before are chosen.")
    return None


def _time_in(page: Page, form: Form) -> datetime | None:
    """The new time of a job; None if something is wrong with it, which the field says then."""
    at = moment_in(form, "at", page.times)
    if at is None:
        form.fail("at", "Say when, such as 2026-12-24 09:00, tomorrow or now+2h.")
    return at


def _shown(page: Page, change: Change, signature: Signature | None = None, *, status: int = 200) -> Response:
    job, form, read = change.job, change.form, page.judged(change.form)
    options: dict[str, str | None] = {}
    if change.action == "reschedule":
        options["at"] = said_moment(_time_in(page, read))
    elif change.action == "retry":
        args = _args_in(page, job, read, signature)
        options["args"] = None if args is None else json_text(args)
    line, at = page.command("job", change.action, job.id, **options), None if options else ""
    return page.render(
        f"jobs/{'retry' if change.action == 'retry' else 'change'}.html", status=status, action=change.action, job=job,
        form=form, signature=signature, commands=page.same(read, line, at=at),
    )  # fmt: skip
