"""Tests of schedules: work with a given duration, and short forms of the ledger."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from evertick.api.schedules import OccurrenceView
from evertick.app.app import App
from evertick.app.execution.contexts import ActionCtx
from evertick.app.functions.function import Action, Function
from evertick.app.paging import all_occurrences
from evertick.app.schedules.options import CreateOptions, Do, When
from evertick.app.schedules.views import occurrence_view
from evertick.app.scheduling.job_builder import Functions, Target
from evertick.base.errors import Misuse, NotFound
from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId, TenantId
from evertick.base.instants import DAY_MS, Instant, duration_ms, from_datetime, to_datetime
from evertick.base.options import stated, takes
from evertick.base.records.schedules import OccurrenceFilter
from evertick.recurrence.builders import every as every_
from evertick.rules.schedules.fates import Fate, Origin
from evertick.testing.jobs import JobView
from evertick.testing.moments import minutes
from evertick.testing.store import WorldStore
from evertick.testing.timeline import Timeline

# -- Work with a given duration: the function of a world's schedules if a test has none of its own.
#
# It is a real action that only the world has; the app does not.

NAME: Final = "evertick.testing.stories"
TIMEOUT_MS: Final = 10 * 366 * DAY_MS


class Work:
    """The action, and the times at which its runs were asked to stop."""

    def __init__(self) -> None:
        self.asked_to_stop: dict[JobId, Instant] = {}

        async def work(ctx: ActionCtx, takes: float, cleans_up: float) -> None:
            """Take `takes` seconds, and `cleans_up` more if it is asked to stop before that."""
            try:
                await asyncio.sleep(takes)
            except asyncio.CancelledError:
                if ctx.job_id is not None:
                    self.asked_to_stop[ctx.job_id] = from_datetime(ctx.now)
                await asyncio.sleep(cleans_up)
                raise

        self.function: Action[[float, float], None] = Action(
            work, name=NAME, internal=True, timeout_ms=TIMEOUT_MS, app_name=None
        )


class WithWork:
    """An app's functions, plus the function that does the simulated work of a world."""

    def __init__(self, functions: Functions, work: Work) -> None:
        self._functions = functions
        self._work = work.function

    def resolve(self, target: Target, /) -> Function[..., Any]:
        if target is self._work or target == NAME:
            return self._work
        return self._functions.resolve(target)

    def __iter__(self) -> Iterator[Function[..., Any]]:
        return chain(self._functions, (self._work,))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOptions(CreateOptions):
    """The options of `World.schedule`: those of `app.schedules.create`, and those of simulated work."""

    schedule_id: str | None = field(default=None, kw_only=False)  # type: ignore[assignment]
    when: When | None = None  # type: ignore[assignment]
    do: Do | None = None  # type: ignore[assignment]
    every: timedelta | None = None
    takes: float | timedelta = 0
    cleans_up: float | timedelta = 0


class ScheduleStories(ABC):
    """The methods of a world for tests of schedules."""

    app: App
    _store: WorldStore
    _work: Work
    _tenant: TenantId = DEFAULT_TENANT

    def __init__(self, begin: datetime) -> None:
        self._begin = begin
        self._schedules = 0
        self._outages: list[tuple[datetime, datetime]] = []

    @property
    @abstractmethod
    def now(self) -> datetime:
        """The current time of this world, in UTC."""

    @abstractmethod
    def pending(self) -> list[JobView]:
        """The pending jobs."""

    @takes(StoryOptions, "a schedule")
    def schedule(self, new: StoryOptions) -> ScheduleId:
        """Create a schedule (named `schedule-1`, `schedule-2` and so on), and return its id.

        Its times are an interval `every=`, counted from the Unix epoch, or a spec `when=`. It runs `do`, a function of
        the app, or else work that takes `takes` seconds, and `cleans_up` seconds after a request to stop. The options
        and errors are those of `app.schedules.create`.
        """
        every, when, do = new.every, new.when, new.do
        if (every is None) == (when is None):
            raise Misuse("a schedule takes either every=minutes(5) or when=daily(hour=9)")
        if do is not None and (new.takes or new.cleans_up):
            raise Misuse("takes= and cleans_up= are only for schedules without do=; omit them")
        self._schedules += 1
        if every is not None:
            when = every_(seconds=duration_ms(every, name="every") // 1000)
        if do is None:
            lengths = (duration_ms(new.takes, name="takes"), duration_ms(new.cleans_up, name="cleans_up"))
            do = self._work.function.with_args(*(length / 1000 for length in lengths))
        own = {each.name for each in fields(StoryOptions)} - {each.name for each in fields(CreateOptions)}
        options = {name: value for name, value in stated(new).items() if name not in own}
        options |= {"schedule_id": new.schedule_id or f"schedule-{self._schedules}", "when": when, "do": do}
        return self.app.tenant(self._tenant).schedules.create(**options).id

    def occurrences(self, schedule_id: str) -> list[OccurrenceView]:
        """The whole ledger of a schedule: every occurrence so far with its fate, by nominal time."""
        where = OccurrenceFilter(tenant=self._tenant, schedule_id=ScheduleId(schedule_id))
        return self._store.read(
            lambda transaction: [occurrence_view(row) for row in all_occurrences(transaction, where)]
        )

    def starts(self, schedule_id: str) -> list[datetime]:
        """The start times of a schedule's runs, in order: by time, by a trigger or by a backfill."""
        return sorted(each.started for each in self.occurrences(schedule_id) if each.started is not None)

    def skips(self, schedule_id: str) -> list[datetime]:
        """The nominal times that a policy skipped."""
        return [each.nominal for each in self.occurrences(schedule_id) if each.fate is Fate.SKIPPED]

    def missed(self, schedule_id: str) -> list[datetime]:
        """The nominal times that were missed: they should have run but did not."""
        return [each.nominal for each in self.occurrences(schedule_id) if each.fate is Fate.MISSED]

    def waiting(self, schedule_id: str) -> list[datetime]:
        """The nominal times that wait for a run to end."""
        return [each.nominal for each in self.occurrences(schedule_id) if each.fate is Fate.BUFFERED]

    def timeline(self, schedule_id: str, *, unit: timedelta = minutes(1)) -> str:
        """The ledger of a schedule as a drawing; see `evertick.testing.timeline`. Units count from the beginning."""
        stops = {job_id: to_datetime(moment) for job_id, moment in self._work.asked_to_stop.items()}
        occurrences = self.occurrences(schedule_id)
        asked: dict[str, datetime] = {}
        with suppress(NotFound):  # a deleted schedule has no backfills
            for request in {each.request for each in occurrences if each.origin is Origin.BACKFILL}:
                asked[request] = self.app.tenant(self._tenant).schedules.backfill_status(schedule_id, request).asked
        blocked = {job.id for job in self.pending() if job.blocked}
        frame = Timeline(
            origin=self._begin,
            now=self.now,
            unit=unit,
            outages=self._outages,
            stops=stops,
            asked=asked,
            blocked=blocked,
        )
        return frame.draw(occurrences)
