"""Workers: who runs jobs, and what became of those that ended without a word."""

from collections import defaultdict
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from evertick.api.jobs import JobView
from evertick.app.bodies import Body
from evertick.app.status import workers_of
from evertick.base.records.access import Scope
from evertick.base.records.jobs import JobState
from evertick.dashboard.page import Shown, page_routes

routes = page_routes()


class Shows(Body):
    """Nothing but the zone."""

    tz: str | None = None


@routes.page("/workers", Scope.READ)
async def list_workers(page: Shown, _asked: Annotated[Shows, Query()]) -> Response:
    """The workers, those that live first."""
    if not page.reaches_all:
        return page.render("workers/list.html", workers=None, busy={}, has_leases=False)
    e = page.known.app.environment
    found = await e.executors.view(lambda transaction: workers_of(transaction, e.clock.now()))
    busy: defaultdict[str, list[JobView]] = defaultdict(list)
    for job in (await page.access.jobs.list(state=[JobState.IN_PROGRESS], limit=200)).jobs:
        busy[str(job.worker_id)].append(job)
    workers = sorted(found, key=lambda each: (each.alive, each.started), reverse=True)
    return page.render("workers/list.html", workers=workers, busy=busy, has_leases=not e.store.single_engine)
