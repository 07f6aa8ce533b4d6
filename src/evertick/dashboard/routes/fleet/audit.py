"""Who changed what."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from evertick.api.access import AuditPage, AuditView
from evertick.app.bodies import Body
from evertick.base.instants import from_datetime, to_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.markup.changes import ABSENT, differences
from evertick.dashboard.markup.commands import command
from evertick.dashboard.page import Page, Shown, page_routes, saved_as, utf8

routes = page_routes()

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
"""What is suggested beside the field; others can be typed."""
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
        """The filters as the API takes them."""
        given = {name: getattr(self, name).strip() for name in ("actor", "action", "target")}
        where: dict[str, Any] = {name: value for name, value in given.items() if value}
        return where | ({"start": now - SPANS[self.since][1]} if self.since else {})

    @property
    def filters(self) -> list[tuple[str, str, str]]:
        """What narrows the list: the word, the value, and the parameter."""
        given = (("by", self.actor, "actor"), ("action", self.action, "action"), ("target", self.target, "target"),
                 ("in the", SPANS.get(self.since, ("",))[0], "since"))  # fmt: skip
        return [each for each in given if each[1].strip()]


@routes.page("/audit", Scope.READ)
async def list_changes(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of changes, the newest first."""
    found = await _page(page, asked, asked.cursor, PAGE)

    def link(change: AuditView) -> str | None:
        return _link(page, change)

    return page.render(
        "audit/list.html", found=found, asked=asked, spans=SPANS, actions=ACTIONS, differences=differences,
        absent=ABSENT, link=link, line=_line(page, asked),
    )  # fmt: skip


@routes.page("/audit.jsonl", Scope.READ)
async def download_changes(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """The changes that are chosen, one on each line, as the API shows them."""
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
    """The same list on the command line."""
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
    """The page about what was changed, if there is one; that of something deleted is not there."""
    kind, _, what = change.action.partition(".")
    place = PLACES.get(kind)
    if place is None or what.endswith("_all") or what == "delete" or (change.tenant or page.tenant) != page.tenant:
        return None
    target = change.target
    if what in ("signal", "withdraw") and isinstance(change.after, dict):
        target = change.after.get("run") or target.removesuffix(f" {change.after.get('name')}")
    return page.url(place, target) if place in WHOLE else page.url(place)
