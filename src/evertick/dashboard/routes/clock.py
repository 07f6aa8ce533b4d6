"""The simulated clock of `evertick dev --at ... --speed ...`: its speed, and running ahead to a later time.

The clock never jumps, because work that is due in between would look like an outage. It runs as fast as it can instead.
"""

import asyncio
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from evertick.app.database_clock import Pace, pace_of
from evertick.base.clock import real_seconds
from evertick.base.instants import HOUR_MS, Instant, from_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.server.callers import reply
from evertick.server.problems import Problem

routes = page_routes()

AHEAD_SPEED: Final = 3_600.0
"""An hour per second. At a higher speed, the time that the machine needs for its work would look like an outage."""
POLL_S: Final = 0.02
NO_SIMULATION: Final = "this server runs by the machine's clock; `evertick dev --at TIME` simulates another one"


@routes.page("/clock", Scope.READ)
async def show_clock(page: Shown) -> Response:
    """The time in the simulation, and its speed: `{"now": "...", "speed": 60.0}`."""
    pace = _pace(page)
    return reply({"now": to_iso(pace.now), "speed": pace.speed})


@routes.form("/clock", Scope.OPERATE)
async def change_clock(page: Shown) -> Response:
    """Start or stop the clock, or run it ahead."""
    pace, form = _pace(page), await page.form()
    action = form["do"]
    back = page.back_to(form["next"])
    if action == "pause":
        pace.change(0.0)
        return page.done(back, "The simulated clock is stopped.")
    if action == "play":
        pace.change(_speed(form["speed"]))
        return page.done(back, f"The simulated clock runs {pace.speed:g} times as fast as the real one.")
    if action == "hour":
        return await _ahead(page, pace, Instant(pace.now + HOUR_MS), back)
    if action == "next":
        coming = await page.access.schedules.list(sort="next", limit=1)
        following = coming.schedules[0].next if coming.schedules else None
        if following is None:
            return page.done(back, "No schedule has a next run.")
        return await _ahead(page, pace, from_datetime(following), back)
    raise Problem(422, "invalid_form", "do must be play, pause, hour or next")


async def _ahead(page: Page, pace: Pace, until: Instant, back: str) -> Response:
    tasks: set[asyncio.Task[Any]] = page.request.app.state.tasks
    task = asyncio.create_task(_run_ahead(page.request, pace, until))
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return page.done(back, f"The simulated clock runs ahead to {page.times.dated(until)} {page.zone.name}.")


async def _run_ahead(request: Request, pace: Pace, until: Instant) -> None:
    """Run as fast as possible until a time, then as before; any other request for a speed stops this."""
    clock = request.app.state.evertick.environment.clock
    before = pace.speed
    pace.change(AHEAD_SPEED)
    while pace.speed == AHEAD_SPEED and pace.now < until:  # noqa: ASYNC110  # waits for a time, not an event
        await asyncio.sleep(min(POLL_S, real_seconds(clock, until - pace.now)))
    if pace.speed == AHEAD_SPEED:
        pace.change(before)


def _pace(page: Page) -> Pace:
    e = page.request.app.state.evertick.environment
    found = pace_of(e.store.url, e.clock)
    if found is None:
        raise Problem(409, "no_simulation", NO_SIMULATION)
    return found


def _speed(text: str) -> float:
    try:
        speed = float(text or 1)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= AHEAD_SPEED:
        raise Problem(422, "invalid_form", f"a speed must be a number above 0, up to {AHEAD_SPEED:,.0f}")
    return speed
