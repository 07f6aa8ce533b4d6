"""The zone of the times on a page: chosen on the page and kept in a cookie, or set once by `?tz=`."""

from typing import Final

from fastapi import Request

from evertick.base.errors import InvalidSpec
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Zone

COOKIE: Final = "evertick_zone"
"""The chosen zone."""
BROWSER_COOKIE: Final = "evertick_browser_zone"
"""The browser's zone, which the page's script writes, because a server cannot know it otherwise."""
COMMON: Final = (
    "UTC",
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Europe/London",
    "Europe/Berlin",
    "Africa/Nairobi",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Sydney",
)


def zone_of(request: Request) -> Zone:
    """The zone for this request: from `?tz=`, otherwise the chosen one, otherwise the browser's, otherwise UTC.

    Raises InvalidSpec if `?tz=` is not a zone; an invalid zone in a cookie is ignored.
    """
    asked = request.query_params.get("tz")
    if asked:
        return zone_named(asked)
    for name in (request.cookies.get(COOKIE), request.cookies.get(BROWSER_COOKIE)):
        if name:
            try:
                return zone_named(name)
            except InvalidSpec:
                continue
    return zone_named("UTC")


def choices(request: Request, zone: Zone) -> tuple[str, ...]:
    """The zones to choose from: the current one, the browser's, and common ones from all parts of the world."""
    browser = request.cookies.get(BROWSER_COOKIE)
    try:
        local = () if not browser else (zone_named(browser).name,)
    except InvalidSpec:
        local = ()
    return tuple(dict.fromkeys((zone.name, *local, *COMMON)))


def offset_words(zone: Zone, instant_s: int) -> str:
    """The offset of a zone at a time: `UTC+5:45`."""
    minutes = zone.offset_at(instant_s) // 60
    hours, rest = divmod(abs(minutes), 60)
    if not minutes:
        return "UTC"
    return f"UTC{'+' if minutes > 0 else '−'}{hours}" + (f":{rest:02}" if rest else "")
