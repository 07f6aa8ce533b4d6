"""`client.insight`, as requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

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
from evertick.client.calls import Call, given, sent
from evertick.recurrence.parse.duration import format_milliseconds


@dataclass(frozen=True, slots=True)
class InsightRequests:
    """What may be asked about the tenant below `home`."""

    home: str

    def overview(self) -> Call[OverviewView]:
        """What is late, failed, missed and queued, who works, and what needs attention."""
        return Call(method="GET", path=f"{self.home}/overview", read=OverviewView.model_validate)

    def activity(
        self, *, span: float | timedelta = timedelta(days=1), function: str | None = None, pool: str | None = None
    ) -> Call[ActivityView]:
        """What ended in each minute of the last `span`, and how late it began.

        Of a `function` or of the jobs in a `pool`, in each ten minutes.
        """
        length = format_milliseconds(duration_ms(span, name="span"))
        query = given({"span": length, "function": function, "pool": pool})
        return Call(method="GET", path=f"{self.home}/activity", query=query, read=ActivityView.model_validate)

    def coming(self, *, span: float | timedelta = timedelta(hours=2)) -> Call[ComingView]:
        """How many runs schedules will start in the next `span`, by five minutes."""
        query = {"span": format_milliseconds(duration_ms(span, name="span"))}
        return Call(method="GET", path=f"{self.home}/coming", query=query, read=ComingView.model_validate)

    def changes(self, *, limit: int = 20) -> Call[Sequence[ChangeView]]:
        """What was changed last, the newest first."""
        return Call(method="GET", path=f"{self.home}/changes", query={"limit": limit}, read=_changes)

    def functions(
        self, *, function: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Call[FunctionStatsPage]:
        """A page of functions by name, or the one `function`: how each of them does."""
        query = given({"function": function, "limit": limit, "cursor": cursor})
        path = f"{self.home}/function-stats"
        return Call(method="GET", path=path, query=query, read=FunctionStatsPage.model_validate)

    def pools(self) -> Call[Sequence[PoolStats]]:
        """How long the tenant's newest jobs waited in each pool."""
        return Call(method="GET", path=f"{self.home}/pool-stats", read=_pools)

    def search(self, text: str) -> Call[Sequence[FoundView]]:
        """Schedules, functions, jobs and runs by a part of what they are called, at most eight of each."""
        return Call(method="GET", path=f"{self.home}/search", query={"text": text}, read=_found)


class InsightOperations:
    """The operations of a surface."""

    overview = sent(InsightRequests.overview)
    activity = sent(InsightRequests.activity)
    coming = sent(InsightRequests.coming)
    changes = sent(InsightRequests.changes)
    functions = sent(InsightRequests.functions)
    pools = sent(InsightRequests.pools)
    search = sent(InsightRequests.search)


def _pools(found: Any) -> Sequence[PoolStats]:
    return [PoolStats.model_validate(each) for each in found]


def _changes(found: Any) -> Sequence[ChangeView]:
    return tuple(ChangeView.model_validate(each) for each in found)


def _found(found: Any) -> Sequence[FoundView]:
    return tuple(FoundView.model_validate(each) for each in found)
