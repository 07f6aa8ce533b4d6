"""What ended in each minute, or in each ten, from the rows of workers."""

from collections.abc import Iterable

from evertick.api.insight import ActivityView, MinuteView
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.insight import MinuteRow
from evertick.rules.jobs.spread import Spread, quantile_ms, spread_of_texts


def activity_view(rows: Iterable[MinuteRow], start: Instant, now: Instant) -> ActivityView:
    """What happened from `start` to `now`; `rows` are in order, some of one minute from each worker."""
    minutes: dict[Instant, list[MinuteRow]] = {}
    for row in rows:
        minutes.setdefault(row.at, []).append(row)
    return ActivityView(
        start=to_datetime(start),
        end=to_datetime(now),
        minutes=tuple(_minute(at, found) for at, found in minutes.items()),
    )


def _minute(at: Instant, rows: Iterable[MinuteRow]) -> MinuteView:
    rows = list(rows)
    late: Spread = spread_of_texts(row.late for row in rows)
    return MinuteView(
        at=to_datetime(at),
        ended=sum(row.ended for row in rows),
        failed=sum(row.failed for row in rows),
        canceled=sum(row.canceled for row in rows),
        retried=sum(row.retried for row in rows),
        late_p50_ms=quantile_ms(late, 0.5),
        late_p99_ms=quantile_ms(late, 0.99),
    )
