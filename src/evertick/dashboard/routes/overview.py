"""The overview: the health of the tenant, recent problems, and upcoming runs."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from starlette.responses import Response

from evertick.api.insight import ChangeView, ComingView, OverviewView
from evertick.api.schema import COUNT_MAX, Count
from evertick.base.ids import TenantId
from evertick.base.instants import MINUTE_MS, Instant, from_datetime
from evertick.base.records.access import Scope
from evertick.dashboard.markup.charts import charted, crowd, density
from evertick.dashboard.page import Page, Shown, page_routes

routes = page_routes()

CHANGES: Final = 100
"""Changes that are read for the few lines shown: a program may create hundreds of schedules at once."""
LINES: Final = 9

OTHERS: Final = 5
"""Other tenants that are listed on the empty page of one."""

SMALL: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@routes.page("", Scope.READ)
async def show_overview(page: Shown) -> Response:
    """The health of the tenant, recent problems, and upcoming runs."""
    insight = page.access.insight
    now, activity = await insight.overview_and_day()
    coming, changes = await insight.coming_and_changes(limit=CHANGES)
    is_quiet = not (coming.schedules or any(coming.jobs) or changes or activity.minutes or now.queued or now.attention)
    nothing = is_quiet and not (await page.access.schedules.list(limit=1)).schedules
    others = await _other_tenants(page) if nothing and page.reaches_all else []
    return page.render(
        "overview.html",
        others=others,
        now=now,
        heading=heading(now),
        day=charted(activity),
        coming=coming,
        bars=_bars(page, coming),
        crowded=_crowded(page, coming),
        changes=alike(changes)[:LINES],
        most_changes=CHANGES,
        unexplained=unexplained(now),
        nothing=nothing,
        late=late_now(now),
        behind_ms=behind_ms(now),
        oldest=min((each.oldest for each in now.queued), default=None),
        queued=sum(each.jobs.number for each in now.queued),
        sees_workers=page.known.token.tenant is None,
    )


async def _other_tenants(page: Page) -> list[TenantId]:
    """Some tenants with data, by name, for a visitor of one without data."""
    executors = page.known.app.environment.executors
    found = await executors.view(lambda transaction: transaction.list_tenants(first=TenantId(""), limit=OTHERS + 2))
    return [each for each in found if each != page.tenant]


LATENESS: Final = {"overdue", "unserved", "held"}
"""Problems that explain late runs."""


def unexplained(now: OverviewView) -> Count | None:
    """The late runs that the heading counts and that no listed problem explains; None if there are none."""
    late = late_now(now)
    return late if late.number and not {each.problem for each in now.attention} & LATENESS else None


def alike(changes: Sequence[ChangeView]) -> list[tuple[ChangeView, ...]]:
    """Changes, with consecutive changes of the same kind by the same actor grouped; groups of two are not grouped."""
    folded: list[tuple[ChangeView, ...]] = []
    for _, group in groupby(changes, key=lambda each: (each.actor, each.action)):
        found = tuple(group)
        folded += [found] if len(found) > 2 and not found[0].action.endswith("_all") else [(each,) for each in found]
    return folded


def late_now(now: OverviewView) -> Count:
    """What should have started more than ten seconds ago: jobs, and the next times of schedules."""
    parts = (now.late, now.overdue_schedules)
    number = sum(each.number for each in parts)
    return Count(number=min(number, COUNT_MAX), more=number > COUNT_MAX or any(each.more for each in parts))


def behind_ms(now: OverviewView) -> int:
    """The delay of the scheduler: how long the oldest job that is served, or the oldest overdue schedule, waits."""
    if now.overdue_since is None:
        return now.lag_ms
    return max(now.lag_ms, from_datetime(now.at) - from_datetime(now.overdue_since))


def heading(now: OverviewView) -> str:
    """The summary of the health, in a sentence or two."""
    if now.unwritable is not None:
        return "The database cannot be written: no jobs run, and nothing can be changed."
    if not now.alive:
        return "No worker is alive: due jobs wait."
    counted = (
        (now.missed_day, "found missed in the last 24 hours"),
        (late_now(now), "late"),
        (now.not_retried_hour, "failed in the last hour"),
    )
    wrong = [(each.number, each.more, word) for each, word in counted if each.number]
    if not wrong:
        return "Everything is on time."
    runs = ["run", "runs"]
    said = ", ".join(
        f"{_number(count, more)}{f' {runs[count != 1]}' if position == 0 else ''} {_verb(count, word)} {word}"
        for position, (count, more, word) in enumerate(wrong)
    )
    return f"{said[0].upper()}{said[1:]}."


def _verb(count: int, word: str) -> str:
    one, more = {"late": ("is", "are"), "found missed in the last 24 hours": ("was", "were")}.get(word, ("has", "have"))
    return one if count == 1 else more


def _number(count: int, more: bool) -> str:
    return f"{count:,}+" if more else SMALL[count] if count < len(SMALL) else f"{count:,}"


def _bars(page: Page, coming: ComingView) -> Any:
    def label(position: int) -> str:
        return f"{page.times.local(_begin(coming, position)):%H:%M}"  # A date after midnight would not fit.

    def href(position: int) -> str:
        minutes = -(-(_begin(coming, position + 1) - page.now) // MINUTE_MS)
        if coming.jobs[position] and not coming.starts[position]:
            return page.url("functions", state="pending", order="due")
        return page.url("schedules", sort="next", q=f"next<{max(minutes, 1)}m")

    return density(coming.starts, coming.jobs, label, href)


def _crowded(page: Page, coming: ComingView) -> tuple[str, int] | None:
    position = crowd(coming.starts)
    return None if position is None else (page.times.clock(_begin(coming, position)), coming.starts[position])


def _begin(coming: ComingView, position: int) -> Instant:
    return Instant(from_datetime(coming.start) + position * coming.bucket_ms)
