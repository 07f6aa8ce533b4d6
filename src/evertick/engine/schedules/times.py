"""Times: the times of a stored spec, in the milliseconds of the engine.

The recurrence engine counts whole seconds and does not know jitter; this module adds the delay and converts the unit.
"""

from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.recurrence.search.jitter import jitter_ms
from evertick.recurrence.search.recurrence import Recurrence
from evertick.rules.schedules.state import FireTime
from evertick.store.records.schedule import Schedule


class ScheduleTimes:
    """The times of one schedule."""

    def __init__(self, recurrence: Recurrence, schedule_id: ScheduleId, tenant: TenantId) -> None:
        self.recurrence = recurrence
        self._seed = f"{tenant}-{schedule_id}"

    def fire_time(self, nominal: int) -> FireTime:
        """A nominal time (in seconds) with its actual time."""
        jitter_limit_ms = self.recurrence.spec.jitter_ms
        delay_ms = 0
        if jitter_limit_ms:
            following = self.recurrence.following_nominal(nominal)
            delay_ms = jitter_ms(self._seed, nominal, following, jitter_limit_ms)
        return FireTime(Instant(nominal * 1000), Instant(nominal * 1000 + delay_ms))

    def due(self, seen_until: Instant, now: Instant, limit: int) -> tuple[list[FireTime], FireTime | None]:
        """Times after `seen_until` whose actual time has come, at most `limit`; and the first one after them."""
        following = self.recurrence.next
        times: list[FireTime] = []
        nominal = following(seen_until // 1000)
        while nominal is not None:
            time = self.fire_time(nominal)
            if time.actual_at > now or len(times) == limit:
                return times, time
            times.append(time)
            nominal = following(nominal)
        return times, None

    def after(self, nominal_at: Instant) -> FireTime | None:
        """The first time after a nominal time. None if there is none."""
        nominal = self.recurrence.next(nominal_at // 1000)
        return None if nominal is None else self.fire_time(nominal)

    def upcoming(self, after: Instant, number: int) -> list[FireTime]:
        """The next times with a nominal time after `after`."""
        return [self.fire_time(nominal) for nominal in self.recurrence.preview(number, after // 1000)]

    def between(self, start: Instant, end: Instant, limit: int, *, beyond: Instant | None = None) -> list[FireTime]:
        """Times with an actual time in [start, end] and a nominal time after `beyond`, in order, at most `limit`."""
        times: list[FireTime] = []
        first = self._before_delayed(start // 1000) - 1
        nominal = self.recurrence.next(first if beyond is None else max(first, beyond // 1000))
        while nominal is not None and nominal * 1000 <= end and len(times) < limit:
            time = self.fire_time(nominal)
            if start <= time.actual_at <= end:
                times.append(time)
            nominal = self.recurrence.next(nominal)
        return times

    def _before_delayed(self, second: int) -> int:
        """The last nominal time before `second`, if its delay may end later; otherwise `second`.

        A delay ends before the next nominal time, so the times before that one have all fired.
        """
        jitter_s = -(-self.recurrence.spec.jitter_ms // 1000)
        if not jitter_s:
            return second
        nominal = self.recurrence.prev(second)
        return second if nominal is None or nominal < second - jitter_s else nominal


def times_of(schedule: Schedule) -> ScheduleTimes:
    """The times of a stored schedule. Raises InvalidSpec if this release cannot read its spec."""
    return ScheduleTimes(schedule.spec.recurrence, schedule.id, schedule.tenant)
