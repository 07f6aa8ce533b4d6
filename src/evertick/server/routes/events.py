"""A stream of hints, as server-sent events: what to read again."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import Query, Request
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.responses import Response

from evertick.base.errors import EvertickError
from evertick.base.records.access import Scope
from evertick.server.callers import Called, Caller, caller_of, tenant_routes
from evertick.server.hints import Hints
from evertick.server.problems import Problem

routes = tenant_routes("events")

COMMENT_EVERY_S: Final = 15
"""How often a stream without hints says that it is there."""
CHECK_EVERY_S: Final = 10
"""How often the token of a stream is checked."""
CHECK_S: Final = 5
"""How long that may take: so a stream ends within 15 s of its token."""
STREAM_S_MAX: Final = 3_600
RETRY_MS: Final = 2_000


@routes.at("GET", "/events", Scope.READ, returns=Any)
async def stream_events(
    request: Request, caller: Called, seconds: Annotated[int, Query(ge=0, le=STREAM_S_MAX)] = STREAM_S_MAX
) -> Response:
    """Server-sent events: `jobs`, `schedules` or `logs` within a second or two when something of these has changed.

    `ready` is the first one: later events report changes. An event says what to read again, and nothing else. The
    stream ends after `seconds`, within 15 s of its token, or with the server. Clients such as EventSource open it
    again.
    """
    return hint_stream(request, caller, seconds)


def hint_stream(request: Request, caller: Caller, seconds: int = STREAM_S_MAX) -> Response:
    """The stream of a caller. Raises Problem if too many are open."""
    hints: Hints = request.app.state.hints
    if hints.is_full(caller.token.id):
        raise Problem(503, "too_many_streams", "too many streams are open; try again later, or ask for lists instead")
    return EventSourceResponse(_events(request, caller, hints, seconds), headers={"X-Accel-Buffering": "no"})


async def _events(request: Request, caller: Caller, hints: Hints, seconds: int) -> AsyncIterator[bytes]:
    assert caller.tenant is not None, "it is a tenant's route"  # noqa: S101
    now = time.monotonic()
    end, check_at, comment_at = now + seconds, now + CHECK_EVERY_S, now + COMMENT_EVERY_S
    async with hints.stream(caller.tenant, caller.token.id) as stream:
        yield format_sse_event(data_str="{}", event="ready", retry=RETRY_MS)
        while not stream.is_over and now < end:
            changed = await stream.changes(max(0.0, min(end, check_at, comment_at) - now))
            now = time.monotonic()
            if now >= check_at:
                if not await _is_still_allowed(request):
                    return
                check_at = now + CHECK_EVERY_S
            for kind in changed:
                yield format_sse_event(data_str="{}", event=kind)
            if not changed and now >= comment_at:
                yield format_sse_event(comment="nothing new")
            if changed or now >= comment_at:
                comment_at = now + COMMENT_EVERY_S


async def _is_still_allowed(request: Request) -> bool:
    """Whether the token of a stream holds. It ends as well while the database does not say."""
    try:
        async with asyncio.timeout(CHECK_S):
            await caller_of(request, Scope.READ)
    except (Problem, EvertickError, TimeoutError):
        return False
    return True
