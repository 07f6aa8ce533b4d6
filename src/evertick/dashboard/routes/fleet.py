"""Pools: the limits of each, its jobs, and how long jobs wait in it."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from evertick.api.access import AuditPage, AuditView
from evertick.api.insight import ActivityView, PoolStats
from evertick.api.jobs import JobView
from evertick.api.limits import PoolView
from evertick.app.bodies import Body
from evertick.app.scheduling.choice import JobsWhere
from evertick.app.status import workers_of
from evertick.base.errors import Conflict, NotFound
from evertick.base.ids import pool_name
from evertick.base.instants import from_datetime, to_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.base.records.jobs import JobState
from evertick.dashboard.forms.form import changed_numbers, flags_of, limits_changed, limits_form, reason_in
from evertick.dashboard.markup.charts import charted
from evertick.dashboard.markup.commands import command
from evertick.dashboard.markup.documents import ABSENT, differences
from evertick.dashboard.page import Form, Page, Shown, page_routes, saved_as, utf8
from evertick.server.bodies import Named
from evertick.server.routes import fleet as api

routes = page_routes()

JOBS: Final = 25
"""Jobs of each kind on the page of a pool."""
LIMITS: Final = {
    "running": ("Running", "Concurrent jobs on all workers together; others wait."),
    "per_tenant": ("Per tenant", "Concurrent jobs of one tenant in the pool."),
    "per_key": ("Per key", "Concurrent jobs of one limit key in the pool."),
    "starts_per_minute": ("Starts a minute", "Attempts that start in a minute, evenly spread."),
}
ORIGINS: Final = {"code": "as declared in code", "changed": "declared in code, changed since", "set": "set at run time"}
MEANS: Final = {
    "pause": "None of its jobs starts, for any tenant. Running jobs continue; due jobs wait.",
    "resume": "Its jobs start again; those of tenants with the fewest running jobs first.",
    "delete": "Its limits, its pause and its declaration from code are removed. Its jobs keep their pool, and "
    "nothing limits them. A worker whose code declares the pool restores its settings when it starts.",
}
Action = Literal["pause", "resume", "delete"]


class Row(NamedTuple):
    """A pool in the list; `view` is None if the visitor's token is for one tenant only."""

    name: str
    view: PoolView | None
    stats: PoolStats | None
    day: ActivityView | None
    queued: Any

    @property
    def ended(self) -> int:
        """The number of attempts that ended in the last 24 hours, as in the chart next to it."""
        return sum(each.ended for each in self.day.minutes) if self.day else 0

    @property
    def failed(self) -> int:
        """How many of those failed."""
        return sum(each.failed for each in self.day.minutes) if self.day else 0


class Shows(Body):
    """The parameters of a page that has only a zone."""

    tz: str | None = None


@routes.page("/pools", Scope.READ)
async def list_pools(page: Shown, _asked: Annotated[Shows, Query()]) -> Response:
    """All pools."""
    found, days, day = await page.access.insight.pools_and_day()
    stats = {each.pool: each for each in found}
    if page.reaches_all:
        views = await page.known.app.aio.pools.list()
        rows = [Row(view.pool, view, stats.get(view.pool), days.get(view.pool), None) for view in views]
    else:
        queued = {each.pool: each for each in await page.access.insight.queued()}
        names = sorted({*stats, *days, *queued})
        rows = [Row(name, None, stats.get(name), days.get(name), queued.get(name)) for name in names]
    return page.render("pools/list.html", rows=rows, day=charted(day))


@routes.page("/pools/{name}", Scope.READ)
async def show_pool(page: Shown, name: Named) -> Response:
    """A pool, with its jobs of the tenant."""
    view = await _known(page, name) if page.reaches_all else None
    stats = {each.pool: each for each in await page.access.insight.pools()}
    running = await _jobs(page, name, JobState.IN_PROGRESS)
    queued = await _jobs(page, name, JobState.PENDING, due_until=to_datetime(page.now))
    upcoming = await page.access.jobs.upcoming(pool=name, limit=JOBS)
    failed = (await page.access.jobs.list(limit=JOBS, pool=name, not_retried=True)).jobs
    activity = await page.access.insight.activity(pool=name)
    shown = (stats.get(name), *running, *queued, *upcoming.jobs, *failed, *activity.minutes)
    if view is None and not any(shown) and name not in _of_code(page):
        raise NotFound(_missing(page, name))
    if view is None and page.reaches_all:
        view = await page.known.app.aio.pools.get(name)
    paused = await _who_paused(page, view)
    day = charted(activity)
    return page.render(
        "pools/pool.html", most=JOBS, name=name, view=view, stats=stats.get(name), running=running, queued=queued,
        upcoming=upcoming.jobs, failed=failed, paused=paused, limits=LIMITS, origins=ORIGINS, day=day,
    )  # fmt: skip


@routes.asks("/pools/{name}/limits", Scope.ADMIN)
async def show_limits(page: Shown, name: Named) -> Response:
    """Show the form for the limits of a pool."""
    view = await _asked_about(page, name)
    return _limits(page, view, page.typed or limits_form(LIMITS, view.limits))


@routes.form("/pools/{name}/limits", Scope.ADMIN)
async def change_limits(page: Shown, name: Named) -> Response:
    """Change the limits of a pool."""
    form, view = await page.form(), await page.fleet.app.aio.pools.get(name)
    if await limits_changed(
        form, LIMITS, view.limits, lambda to: api.caller_pools(page.fleet, page.request).set(name, **to)
    ):
        return page.done(page.url("pools", name), f"Changed the limits of {name}.")
    return _limits(page, view, form, status=422)


@routes.asks("/pools/{name}/{action}", Scope.ADMIN)
async def show_change(page: Shown, name: Named, action: Action) -> Response:
    """Show the form that pauses, resumes or deletes a pool."""
    await _asked_about(page, name)
    return await _change(page, name, action, page.typed or Form())


@routes.form("/pools/{name}/{action}", Scope.ADMIN)
async def change(page: Shown, name: Named, action: Action) -> Response:
    """Pause, resume or delete a pool."""
    form, pools = await page.form(), api.caller_pools(page.fleet, page.request)
    if action == "resume":
        await pools.resume(name)
        return page.done(page.url("pools", name), f"Resumed {name}.")
    if action == "pause":
        note = reason_in(form)
        if form.errors:
            return await _change(page, name, action, form, status=422)
        await pools.pause(name, note)
        return page.done(page.url("pools", name), f"Paused {name}.")
    try:
        await pools.delete(name, force=bool(form["force"]))
    except Conflict as error:
        form.errors[""] = str(error)
        return await _change(page, name, action, form, status=409)
    return page.done(page.url("pools"), f"Deleted the settings of {name}.")


async def _asked_about(page: Page, name: str) -> PoolView:
    """The pool of a form. Raises NotFound, Problem."""
    pools = page.fleet.app.aio.pools
    view = await _known(page, name)
    if view is None and name not in _of_code(page):
        where: JobsWhere = {"pool": name}
        if not (await page.access.jobs.list(limit=1, **where)).jobs:
            raise NotFound(_missing(page, name))
    return view or await pools.get(name)


async def _known(page: Page, name: str) -> PoolView | None:
    """A pool if it is known, otherwise None."""
    return next((each for each in await page.known.app.aio.pools.list() if each.pool == name), None)


def _of_code(page: Page) -> set[str]:
    """The pools of the functions of this server's app."""
    return {pool_name(each.served.pool) for each in page.known.app.functions}


def _missing(page: Page, name: str) -> str:
    whose = "" if page.reaches_all else f" of {page.tenant}"
    return (
        f"There is no pool {name!r}: it has no function and no settings, and no job{whose} is in it. "
        "A pool need not be created; it exists from its first job on."
    )


async def _change(page: Page, name: str, action: Action, form: Form, *, status: int = 200) -> Response:
    view, read = await page.fleet.app.aio.pools.get(name), page.judged(form)
    how: dict[str, str | bool] = {}
    if action == "pause":
        how["reason"] = reason_in(read)
    elif action == "delete":
        how["force"] = bool(read["force"])
    return page.render(
        "pools/change.html", status=status, form=form, view=view, action=action, means=MEANS[action],
        commands=page.same(read, command("pool", action, name, **how), at=None if how else ""),
    )  # fmt: skip


def _limits(page: Page, view: PoolView, form: Form, *, status: int = 200) -> Response:
    before, read = {each: getattr(view.limits, each) for each in LIMITS}, page.judged(form)
    line = command("pool", "set", view.pool, **flags_of(changed_numbers(read, LIMITS, view.limits)))
    return page.render(
        "pools/limits.html", status=status, form=form, view=view, before=before, limits=LIMITS, origins=ORIGINS,
        commands=page.same(read, line),
    )  # fmt: skip


async def _jobs(page: Page, name: str, state: JobState, *, due_until: datetime | None = None) -> tuple[JobView, ...]:
    where: JobsWhere = {"state": [state], "pool": name, "due_until": due_until}
    return (await page.access.jobs.list(limit=JOBS, newest_first=False, **where)).jobs


async def _who_paused(page: Page, view: PoolView | None) -> AuditView | None:
    """The audit line of a pool's pause; None if a program paused it."""
    if view is None or not view.limits.paused:
        return None
    found = await page.known.app.aio.audit_log.list(action="pool.pause", target=view.pool, limit=10)
    return next((each for each in found.changes if each.target == view.pool), None)


# -- Workers: those that run jobs, and those that ended without releasing their jobs.


@routes.page("/workers", Scope.READ)
async def list_workers(page: Shown, _asked: Annotated[Shows, Query()]) -> Response:
    """The workers, live ones first."""
    if not page.reaches_all:
        return page.render("workers/list.html", workers=None, busy={}, has_leases=False)
    e = page.known.app.environment
    found = await e.executors.view(lambda transaction: workers_of(transaction, e.clock.now()))
    busy: defaultdict[str, list[JobView]] = defaultdict(list)
    for job in (await page.access.jobs.list(state=[JobState.IN_PROGRESS], limit=200)).jobs:
        busy[str(job.worker_id)].append(job)
    workers = sorted(found, key=lambda each: (each.alive, each.started), reverse=True)
    return page.render("workers/list.html", workers=workers, busy=busy, has_leases=not e.store.single_engine)


# -- The audit log.


PAGE: Final = 100
DOWNLOAD_PAGE: Final = 1_000
SPANS: Final = {"1h": ("last hour", timedelta(hours=1)), "1d": ("last 24 h", timedelta(days=1)),
                "7d": ("last 7 days", timedelta(days=7)), "30d": ("last 30 days", timedelta(days=30))}  # fmt: skip
ACTIONS: Final = (
    "schedule.create", "schedule.update", "schedule.pause", "schedule.resume", "schedule.trigger", "schedule.backfill",
    "schedule.delete", "job.cancel", "job.cancel_all", "job.stop", "job.reschedule", "job.run_now", "job.retry",
    "job.retry_all", "workflow.signal", "workflow.withdraw", "workflow.cancel", "workflow.terminate", "workflow.pause",
    "workflow.resume", "workflow.restart", "workflow_type.pause", "workflow_type.resume", "workflow_type.deprecate",
    "pool.set", "pool.pause", "pool.resume", "pool.delete", "tenant.set", "token.create", "token.revoke",
    "token.rotate",
)  # fmt: skip
"""Suggested actions; others can be typed."""
PLACES: Final = {
    "schedule": "schedules", "job": "jobs", "workflow": "workflows", "pool": "pools", "workflow_type": "workflow-types",
    "token": "settings", "tenant": "settings",
}  # fmt: skip
WHOLE: Final = frozenset({"schedules", "jobs", "workflows", "pools"})
"""Pages with an address for each target."""


class Asked(Body):
    """A page of changes."""

    actor: str = ""
    action: str = ""
    target: str = ""
    since: Literal["", "1h", "1d", "7d", "30d"] = ""
    of: Literal["", "all"] = ""
    cursor: str | None = None
    tz: str | None = None

    def where(self, now: datetime) -> dict[str, Any]:
        """The filters in the form of the API."""
        given = {name: getattr(self, name).strip() for name in ("actor", "action", "target")}
        where: dict[str, Any] = {name: value for name, value in given.items() if value}
        return where | ({"start": now - SPANS[self.since][1]} if self.since else {})

    @property
    def filters(self) -> list[tuple[str, str, str]]:
        """The active filters: the label, the value, and the parameter."""
        given = (("by", self.actor, "actor"), ("action", self.action, "action"), ("target", self.target, "target"),
                 ("in the", SPANS.get(self.since, ("",))[0], "since"))  # fmt: skip
        return [each for each in given if each[1].strip()]


@routes.page("/audit", Scope.READ)
async def list_changes(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of changes, newest first."""
    found = await _page(page, asked, asked.cursor, PAGE)

    def link(change: AuditView) -> str | None:
        return _link(page, change)

    return page.render(
        "audit/list.html", found=found, asked=asked, spans=SPANS, actions=ACTIONS, differences=differences,
        absent=ABSENT, link=link, line=_line(page, asked),
    )  # fmt: skip


@routes.page("/audit.jsonl", Scope.READ)
async def download_changes(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """The selected changes as JSON lines, in the form of the API."""
    first = await _page(page, asked, None, DOWNLOAD_PAGE)
    headers = saved_as(f"changes-{page.tenant}.jsonl")
    return StreamingResponse(_lines(page, asked, first), media_type="application/jsonl", headers=headers)


async def _lines(page: Page, asked: Asked, found: AuditPage) -> AsyncIterator[bytes]:
    while True:
        for change in found.changes:
            yield utf8(json.dumps(change.to_json(), ensure_ascii=False) + "\n")
        if found.cursor is None:
            return
        found = await _page(page, asked, found.cursor, DOWNLOAD_PAGE)


async def _page(page: Page, asked: Asked, cursor: str | None, limit: int) -> AuditPage:
    whose = page.fleet.tenant if asked.of else page.known.tenant
    where = asked.where(to_datetime(page.now))
    return await page.known.app.aio.audit_log.list(tenant=whose, limit=limit, cursor=cursor, **where)


def _line(page: Page, asked: Asked) -> str:
    """The command with the same list."""
    where = asked.where(to_datetime(page.now))
    words = [f"{name}={where[name]}" for name in ("actor", "action", "target") if name in where]
    if "start" in where:
        words.append(f"start={to_iso(from_datetime(where['start']))}")
    return (
        command("api", "GET", "/api/v1/audit-log", *words)
        if asked.of
        else page.command("api", "GET", "audit-log", *words)
    )


def _link(page: Page, change: AuditView) -> str | None:
    """The page of the changed thing; None if it has none or was deleted."""
    kind, _, what = change.action.partition(".")
    place = PLACES.get(kind)
    if place is None or what.endswith("_all") or what == "delete" or (change.tenant or page.tenant) != page.tenant:
        return None
    target = change.target
    if what in ("signal", "withdraw") and isinstance(change.after, dict):
        target = change.after.get("run") or target.removesuffix(f" {change.after.get('name')}")
    return page.url(place, target) if place in WHOLE else page.url(place)
