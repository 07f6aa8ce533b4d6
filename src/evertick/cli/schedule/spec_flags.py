"""The flags that say when: shared by `schedule preview`, `schedule create` and `schedule update`.

    @click.command()
    @spec_options
    def create(spec_flags: SpecFlags, ...) -> None:
        spec = spec_flags.spec()

Every flag that names a source can be repeated; together they are a union. `--spec` takes the whole wire form at once.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import InvalidSpec
from evertick.base.escaping import read_json, reason
from evertick.cli.core.flags import flag, flags

if TYPE_CHECKING:
    from evertick.recurrence.spec.spec import Spec
    from evertick.recurrence.zones.zones import Edge, Zone

SPEC_FILE_MAX = 4 * 1024 * 1024
SOURCES = ("crons", "intervals", "calendars", "rrules", "times")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFlags:
    """What the flags said, unread."""

    texts: tuple[str, ...] = flag(
        "--when", default=(), metavar="TEXT", help="A sentence such as 'every weekday at 9am'. Repeatable."
    )
    intervals: tuple[str, ...] = flag(
        "--interval", default=(), metavar="EVERY[/OFFSET]", help="Such as 5h/15m. Repeatable."
    )
    calendars: tuple[str, ...] = flag(
        "--calendar", "--cal", default=(), metavar="JSON", help='As {"dayOfWeek":"Fri","hour":"11"}.'
    )
    crons: tuple[str, ...] = flag("--cron", default=(), metavar="LINE", help="Such as '0 9 * * 1-5'.")
    rrules: tuple[str, ...] = flag("--rrule", default=(), metavar="TEXT|JSON", help="DTSTART and RRULE lines, or JSON.")
    times: tuple[str, ...] = flag("--at", default=(), metavar="TIME", help="A single moment. Repeatable.")
    excepted: tuple[str, ...] = flag(
        "--except", default=(), metavar="DATE|CRON|JSON",
        help='Such as 2027-01-01, "* * * * 0,6" or {"holidays":{"country":"US"}}.',
    )  # fmt: skip
    time_zone: str | None = flag("--time-zone", "--tz", metavar="ZONE", help="Such as Europe/Berlin; UTC unless given.")
    start_time: str | None = flag("--start-time", metavar="TIME", help="No occurrence before this moment.")
    end_time: str | None = flag("--end-time", metavar="TIME", help="No occurrence after this moment.")
    jitter: str | None = flag(
        "--jitter", metavar="DURATION", help="The most an occurrence may be delayed, such as 30s."
    )
    dialect: str | None = flag(
        "--dialect", type=click.Choice(["evertick", "temporal"]), help="Whose rules crons and calendars are read by."
    )
    whole: str | None = flag("--spec", metavar="JSON|@FILE", help="The whole spec in the wire form.")

    @property
    def given(self) -> bool:
        """Whether any flag was given."""
        return self != SpecFlags()

    @property
    def names_times(self) -> bool:
        """Whether a flag brings times, and does not only bound or move them."""
        named = (self.intervals, self.calendars, self.crons, self.rrules, self.texts, self.times, self.whole)
        return any(named)

    def wire(self, base: Mapping[str, Any] | None = None, now: int | None = None) -> dict[str, Any]:
        """The wire form of the spec; `base` is the spec that the flags change: what they do not say stays.

        New times replace all times of the base, new exclusions its exclusions, `--spec` all of it.
        `now` is the present in seconds, the machine's unless given.
        Raises InvalidSpec where a flag does not hold JSON, a time or a sentence, and where two of them contradict.
        """
        from evertick.recurrence.parse.moments import format_instant
        from evertick.recurrence.spec.spec import Dialect
        from evertick.recurrence.zones.names import zone_named

        whole, wire = self._whole(), {} if self.whole is not None else dict(base or {})
        said = self._said(whole, wire)
        if self.names_times:
            wire = {key: value for key, value in wire.items() if key not in SOURCES}
        if self.excepted or "except" in said:
            wire.pop("except", None)
        if said.get("time_zone", wire.get("time_zone")) != wire.get("time_zone"):
            wire.pop("time_zone_data", None)
        wire |= whole | {key: value for key, value in said.items() if not isinstance(value, list)}
        for name, value in (("time_zone", self.time_zone), ("jitter", self.jitter), ("dialect", self.dialect)):
            if value is not None:
                wire[name] = value

        def moment(text: str, flag: str, edge: "Edge" = "first") -> str:
            abbreviations = wire.get("dialect") == Dialect.TEMPORAL
            zone = zone_named(str(wire.get("time_zone") or "UTC"), abbreviations=abbreviations)
            return format_instant(parse_when(text, zone, flag, now, edge))

        for key, added in (
            ("crons", list(self.crons)),
            ("intervals", list(self.intervals)),
            ("calendars", [_json(text, "--calendar") for text in self.calendars]),
            ("rrules", [_json(text, "--rrule") if text.lstrip().startswith("{") else text for text in self.rrules]),
            ("times", [moment(text, "--at") if _is_word(text) else text for text in self.times]),
            ("except", [_json(text, "--except") if text.lstrip()[:1] in "{[" else text for text in self.excepted]),
        ):
            if added or key in said:
                wire[key] = [*(wire.get(key) or []), *said.get(key, ()), *added]
        if self.start_time:
            wire["start"] = moment(self.start_time, "--start-time")
        if self.end_time:
            wire["end"] = moment(self.end_time, "--end-time", "last")
        return wire

    def _whole(self) -> dict[str, Any]:
        """What `--spec` says; empty if it is not given."""
        whole = {} if self.whole is None else _json(text_or_file(self.whole, "--spec"), "--spec")
        if not isinstance(whole, dict):
            raise InvalidSpec("--spec must be a JSON object")
        return whole

    def _said(self, whole: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
        """What the texts of `--when` say together, in the wire form. Raises InvalidSpec where anything contradicts."""
        from evertick.recurrence.wire.writing import spec_to_wire

        if not self.texts:
            return {}
        if (self.dialect or whole.get("dialect") or base.get("dialect")) == "temporal":
            raise InvalidSpec("--when is read by Evertick's rules and does not go with the dialect temporal")
        zone = self.time_zone or whole.get("time_zone")
        if zone is None:
            named = sorted({named for text in self.texts if (named := _sentence(text).time_zone)})
            if len(named) > 1:
                raise InvalidSpec(f"the sentences name different time zones: {', '.join(named)}")
            zone = named[0] if named else None
        said: dict[str, Any] = {}
        for text in self.texts:
            spec = _sentence(text, zone, base.get("time_zone"))
            for key, value in spec_to_wire(spec).items():
                if isinstance(value, list):
                    said[key] = [*said.get(key, ()), *value]
                elif said.setdefault(key, value) != value:
                    raise InvalidSpec(f"two sentences differ in their {key}; say it once")
        flags = {"start": self.start_time, "end": self.end_time, "jitter": self.jitter}
        for key in said.keys() & {"start", "end", "jitter", "dst"}:
            if whole.get(key) or flags.get(key):
                raise InvalidSpec(f"the {key} is given by a sentence and by another flag; say it once")
        return said

    def spec(self, base: Mapping[str, Any] | None = None, now: int | None = None) -> "Spec":
        """The spec; see `wire`. Raises InvalidSpec, which names the flag."""
        from evertick.recurrence.wire.reading import spec_from_wire

        wire = self.wire(base, now)
        try:
            return spec_from_wire(wire)
        except InvalidSpec:
            self._blame({key: wire[key] for key in ("dialect",) if key in wire})
            raise

    def _blame(self, context: Mapping[str, Any]) -> None:
        """Raise InvalidSpec for the first flag that is wrong by itself, however the others are."""
        from evertick.recurrence.wire.reading import spec_from_wire

        for option, key, values in (
            ("--time-zone", "time_zone", [self.time_zone]),
            ("--cron", "crons", self.crons),
            ("--interval", "intervals", self.intervals),
            ("--calendar", "calendars", self.calendars),
            ("--rrule", "rrules", self.rrules),
            ("--at", "times", [text for text in self.times if not _is_word(text)]),
            ("--except", "except", self.excepted),
            ("--jitter", "jitter", [self.jitter]),
        ):
            for text in values:
                value = _json(text, option) if text and text.lstrip()[:1] in ("{", "[") else text
                try:
                    spec_from_wire({**context, key: value})
                except InvalidSpec as problem:
                    raise InvalidSpec(f"{option}: {str(problem).removeprefix('except ')}") from None


spec_options: Final = flags(SpecFlags, "spec_flags")
"""The options, received as one `spec_flags: SpecFlags`."""


def _is_word(text: str) -> bool:
    """Whether a moment is a word such as tomorrow, which no spec has."""
    return text in ("yesterday", "today", "tomorrow") or text.startswith("now")


def parse_when(text: str, zone: "Zone", what: str, now: int | None = None, edge: "Edge" = "first") -> int:
    """A moment on the command line, in seconds since the epoch; see `typed_moment`.

    `now` is the present in seconds, the machine's unless given. Raises InvalidSpec.
    """
    from evertick.recurrence.parse.moments import typed_moment

    return typed_moment(text, what, zone, int(time.time()) if now is None else now, edge)


def parse_json(text: str) -> Any:
    """JSON, with every way of failing turned into InvalidSpec: also nesting that is too deep; see `read_json`."""
    try:
        return read_json(text)
    except RecursionError:
        raise InvalidSpec("JSON nested too deeply") from None
    except ValueError as problem:
        raise InvalidSpec(f"not JSON: {str(problem)[:200]}") from None


def _json(text: str, flag: str) -> Any:
    from evertick.recurrence.spec.sources import shown

    try:
        return parse_json(text)
    except InvalidSpec as problem:
        raise InvalidSpec(f"{flag} {shown(text)}: {problem}") from None


def _sentence(text: str, zone: str | None = None, default_zone: str | None = None) -> "Spec":
    """What a text of `--when` says. Raises InvalidSpec, which names the flag."""
    # The grammar is loaded for --when alone: other commands read only times and JSON with this module.
    from evertick.recurrence.english.parser.sentence import spec_of_text

    try:
        return spec_of_text(text, zone, default_zone=default_zone)
    except InvalidSpec as problem:
        raise InvalidSpec(f"--when: {problem}") from None


def text_or_file(text: str, flag: str) -> str:
    """What an option brings: its text, or with `@` before it the text of a file. Raises InvalidSpec."""
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        if path.stat().st_size > SPEC_FILE_MAX:
            raise InvalidSpec(f"{path} is larger than {SPEC_FILE_MAX} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidSpec(f"{flag} {text}: {reason(problem)}") from None
