"""The zone a spec's words are read in, and the way between its wall clock and instants."""

from dataclasses import dataclass

from evertick.recurrence.english.phrases.dates import say_seconds
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.sources import Moment, MomentKind
from evertick.recurrence.spec.spec import Dialect, Spec
from evertick.recurrence.zones.local_times import instant_of, local_of, moment_instant
from evertick.recurrence.zones.names import is_utc, zone_from_data, zone_named
from evertick.recurrence.zones.zones import Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A spec's zone: its name (None for embedded data), its rules, and whether it is plain UTC."""

    name: str | None
    zone: Zone
    utc: bool

    def local(self, moment: Moment) -> int:
        """The moment on the wall clock; a date is its midnight."""
        if moment.kind is MomentKind.LOCAL:
            return moment.value
        return moment.value * DAY if moment.kind is MomentKind.DATE else local_of(self.zone, moment.value)

    def instant(self, moment: Moment) -> int:
        """The moment as an instant; a date is its midnight."""
        return moment_instant(self.zone, moment)

    def has_plain_day(self, day: int) -> bool:
        """Whether the clocks do not change on that day."""
        return instant_of(self.zone, (day + 1) * DAY) - instant_of(self.zone, day * DAY) == DAY

    def say_utc(self, moment: Moment) -> str:
        """The moment as iCalendar writes it in UTC: `20260105T090000Z`."""
        return format_instant(self.instant(moment)).replace("-", "").replace(":", "")

    def say(self, instant: int) -> str:
        """An instant on the wall clock, or in UTC where the wall clock would not lead back to it."""
        local = local_of(self.zone, instant)
        if instant_of(self.zone, local) == instant:
            return say_seconds(local)
        return say_seconds(instant, " UTC")


def scope_of(spec: Spec, zone: str | None = None) -> Scope:
    """The scope of a spec; `zone` is read when the spec names none itself. Raises InvalidSpec for unknown zones."""
    named = spec.time_zone or next((cron.zone for cron in spec.crons if cron.zone and cron.interval is None), None)
    if spec.time_zone_data is not None:
        return Scope(name=None, zone=zone_from_data(spec.time_zone_data, spec.time_zone), utc=False)
    return scope_named(named or zone, abbreviations=spec.dialect is Dialect.TEMPORAL)


def scope_named(zone: str | None, *, abbreviations: bool = False) -> Scope:
    """The scope of a zone by name, as `zone_named` reads it; None is UTC. Raises InvalidSpec for unknown names."""
    found = zone_named(zone or "UTC", abbreviations=abbreviations)
    return Scope(name=None if is_utc(zone) else zone, zone=found, utc=is_utc(zone))
