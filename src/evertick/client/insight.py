"""`client.insight`, as requests."""

from collections.abc import Sequence
from datetime import timedelta

from evertick.api.insight import (
    ActivityView,
    ChangeView,
    ComingView,
    FoundView,
    FunctionStatsPage,
    OverviewView,
    PoolStats,
)
from evertick.base.instants import duration_ms
from evertick.client.calls import Call, Requests, given, sent
from evertick.recurrence.parse.duration import format_milliseconds


class InsightRequests(Requests):
    """Requests for statistics of the tenant at `home`."""

    @sent
    def overview(self) -> Call[OverviewView]:
        """What is late, failed, missed and queued, the workers, and what needs attention."""
        return self._get(f"{self._home}/overview", OverviewView)

    @sent
    def activity(
        self, *, span: float | timedelta = timedelta(days=1), function: str | None = None, pool: str | None = None
    ) -> Call[ActivityView]:
        """How many attempts ended in each minute of the last `span` (seconds or a timedelta), and how late they began.

        With `function` or `pool`, only attempts of this function or of jobs in this pool, by ten minutes.
        """
        length = format_milliseconds(duration_ms(span, name="span"))
        query = given({"span": length, "function": function, "pool": pool})
        return self._get(f"{self._home}/activity", ActivityView, query)

    @sent
    def coming(self, *, span: float | timedelta = timedelta(hours=2)) -> Call[ComingView]:
        """How many runs schedules will start in the next `span` (seconds or a timedelta), by five minutes."""
        query = {"span": format_milliseconds(duration_ms(span, name="span"))}
        return self._get(f"{self._home}/coming", ComingView, query)

    @sent
    def changes(self, *, limit: int = 20) -> Call[Sequence[ChangeView]]:
        """The newest changes, newest first; at most `limit`."""
        return self._get(f"{self._home}/changes", tuple[ChangeView, ...], {"limit": limit})

    @sent
    def functions(
        self, *, function: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Call[FunctionStatsPage]:
        """A page of statistics by function, in order of name; `function` selects the function with this name."""
        query = given({"function": function, "limit": limit, "cursor": cursor})
        path = f"{self._home}/function-stats"
        return self._get(path, FunctionStatsPage, query)

    @sent
    def pools(self) -> Call[Sequence[PoolStats]]:
        """How long the tenant's newest jobs waited in each pool."""
        return self._get(f"{self._home}/pool-stats", list[PoolStats])

    @sent
    def search(self, text: str) -> Call[Sequence[FoundView]]:
        """Schedules, functions, jobs and runs whose name, id or key contains `text`, at most eight of each."""
        return self._get(f"{self._home}/search", tuple[FoundView, ...], {"text": text})
