"""`evertick schedule preview`: when would it fire? Offline, unless a schedule is asked for by its id.

From flags it prints the sentence, the next times on the schedule's clock and in UTC, and what clock changes do to
them. From `--file` it writes one line of JSON for each line read:

    {"id": "a", "spec": {"crons": ["0 9 * * 1-5"]}, "after": "2026-01-01T00:00:00Z", "count": 3}
    {"id": "a", "times": ["2026-01-01T09:00:00+00:00", ...], "description": "at 09:00 on weekdays"}

or `{"id", "never": true}` for a spec that never fires (with `"times": [], "ended": true` if it did once, and will not
after that moment), or `{"id", "error": {"code", "message"}}`. A line with `jitter_seed` gets
actual times instead of nominal ones. One bad line never stops the others.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TextIO

import click

from evertick.base.durations import distance
from evertick.base.errors import EvertickError, InvalidSpec
from evertick.base.instants import SECOND_MS, Instant
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import on_terminal
from evertick.cli.schedule.flags import SpecFlags, parse_json, parse_when, spec_options

if TYPE_CHECKING:
    from evertick.api.reports import TimePreview
    from evertick.recurrence.search.recurrence import Recurrence
    from evertick.recurrence.spec.spec import Spec

COUNT_DEFAULT = 5
COUNT_MAX = 10_000
LINE_MAX = 16 * 1024 * 1024
ID_SEARCHED = 10_000
_ID = re.compile(r'"id"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.){0,200}"|-?[0-9]{1,18}(?![0-9.eE]))')


@dataclass(frozen=True, slots=True)
class PreviewFlags:
    """The options that select times: `count` times after one time, or those of a span."""

    after: str | None = flag("--after", metavar="TIME", help="Times later than this moment; now unless given.")
    count: int | None = flag(
        "--count", "-n", type=click.IntRange(1, COUNT_MAX), help=f"How many; {COUNT_DEFAULT} unless given."
    )
    first: str | None = flag("--from", metavar="TIME", help="With --to: all times from this moment on.")
    last: str | None = flag(
        "--to", metavar="TIME", help="With --from: all times before this moment; a date: up to its end."
    )
    sid: str | None = flag(
        "--schedule-id", "--sid", "-s", metavar="ID", help="The times of this schedule, with its jitter."
    )
    db: str | None = shared(data_options)

    def check(self) -> None:
        """Raise UsageError unless the options are one time, or a complete span."""
        if (self.first is None) != (self.last is None) or (self.first is not None and self.after is not None):
            raise click.UsageError("a span is --from TIME --to TIME; without it, --after TIME and --count N")


@click.command()
@click.argument("schedule_id", metavar="[ID]", required=False)
@spec_options
@flags(PreviewFlags, "asked")
@click.option("--output", "-o", type=click.Choice(["table", "json", "jsonl"]), default="table", show_default=True)
@click.option(
    "--file",
    "lines",
    type=click.File("r", encoding="utf-8-sig", errors="replace"),
    help="Specs, one a line; - is stdin.",
)
def preview(
    schedule_id: str | None, spec_flags: SpecFlags, asked: PreviewFlags, output: str, lines: TextIO | None
) -> int:
    """Show the next times of a rule, without a database; or of the schedule ID. The exit code is 8 if it never fires.

    \b
    --file writes one line of JSON for each line of the file:
      {"id": "a", "spec": {"crons": ["0 9 * * 1-5"]}, "after": "2026-01-01T00:00:00Z", "count": 3}
      {"id": "a", "times": ["2026-01-01T09:00:00+00:00", ...], "description": "at 09:00 on weekdays"}
      or {"id", "never": true} (and "ended": true if its last time has passed), {"id", "error": {"code", "message"}}

    \b
    A spec (also for --spec) has any of:
      "crons", "intervals", "calendars", "rrules", "times", "except": what --cron, --interval, --calendar, --rrule,
      --at and --except take, one or a list; "start", "end", "jitter", "time_zone",
      "dst": {"gap": "next|shift|skip", "overlap": "first|both|last"}, "dialect": "evertick|temporal"
    """
    from evertick.recurrence.search.compiler import compile_spec

    if schedule_id is not None:
        if asked.sid is not None:
            raise click.UsageError("give ID or --schedule-id")
        asked = replace(asked, sid=schedule_id)
    if lines is not None:
        if spec_flags.given or asked.sid is not None or asked.first is not None or asked.last is not None:
            raise click.UsageError("--file brings its own specs; give either it or flags")
        for answer in previews(lines, asked.after or "now", asked.count or COUNT_DEFAULT):
            click.echo(_line_of(answer))
        return Exit.OK
    asked.check()
    now = Instant(int(time.time()) * SECOND_MS)
    if asked.sid is not None:
        if spec_flags.given:
            raise click.UsageError("a schedule has its own times; give either its id or flags of times")
        shown, now = _of_schedule(asked.sid, asked)
    elif not spec_flags.given:
        raise click.UsageError(
            "say when: --when, --cron, --interval, --calendar, --rrule, --at or --spec; or the id of a schedule"
        )
    else:
        try:
            shown = _of_flags(compile_spec(spec_flags.spec()), asked)
        except EvertickError as problem:
            raise click.UsageError(str(problem)) from None
    if output != "json":
        _say(shown)
    if output == "json":
        click.echo(json.dumps(shown.to_json(), ensure_ascii=False, indent=2))
    elif output == "jsonl":
        for row in shown.times:
            click.echo(json.dumps(row.to_json(), ensure_ascii=False))
    else:
        _table(shown, now)
    return Exit.NOT_FULFILLED if shown.never else Exit.OK


def _of_flags(recurrence: "Recurrence", asked: PreviewFlags) -> "TimePreview":
    if asked.first is None or asked.last is None:
        after = parse_when(asked.after or "now", recurrence.zone, "--after")
        return _preview(recurrence, after, asked.count or COUNT_DEFAULT)
    begin = parse_when(asked.first, recurrence.zone, "--from")
    end = parse_when(asked.last, recurrence.zone, "--to", edge="after")
    return _preview(recurrence, begin - 1, asked.count or COUNT_MAX, until=end)


def _of_schedule(sid: str, asked: PreviewFlags) -> "tuple[TimePreview, Instant]":
    """The times of a schedule, and the current time by the clock of its database."""
    # Imported here, since a preview of flags needs no database.
    from evertick.cli.schedule.session import open_session
    from evertick.cli.schedule.words import times_of_schedule

    with open_session(asked.db) as session:
        if asked.first is None:
            first, last, count = asked.after or "now", None, asked.count or COUNT_DEFAULT
        else:
            first, last, count = asked.first, asked.last, asked.count or COUNT_MAX
        return times_of_schedule(session, sid, first, last, count), session.now


# --- many specs, one line each -------------------------------------------------------------------------------


def previews(lines: Iterable[str], after: str, count: int) -> Iterator[dict[str, Any]]:
    """The reply to each input line; blank lines are skipped."""
    for line in lines:
        if line.strip():
            yield _answer(line, after, count)


def _answer(line: str, after: str, count: int) -> dict[str, Any]:
    asked: Any = None
    try:
        if len(line) > LINE_MAX:
            raise InvalidSpec(f"a line of {len(line)} characters; at most {LINE_MAX} are read")
        asked = parse_json(line)
        if not isinstance(asked, dict):
            raise InvalidSpec('a line must be an object: {"id", "spec", "after", "count"}')
        unknown = asked.keys() - {"id", "spec", "after", "count", "jitter_seed"}
        if unknown:
            raise InvalidSpec(f"a line has no key {sorted(map(str, unknown))[0][:60]!r}")
        return {"id": asked.get("id"), **_times(asked, after, count)}
    except EvertickError as problem:
        error = {"code": problem.code, "message": str(problem)}
    except Exception as problem:  # a defect in one line must not stop the others
        error = {"code": "internal_error", "message": f"{type(problem).__name__}: {str(problem)[:200]}"}
    return {"id": asked.get("id") if isinstance(asked, dict) else _id_in(line), "error": error}


def _id_in(line: str) -> str | int | None:
    """The id of a line that is not JSON, if it can be found, so that the error can be assigned to its line."""
    found = _ID.search(line[:ID_SEARCHED])
    try:
        return None if found is None else json.loads(found[1])
    except ValueError:
        return None


def _line_of(answer: dict[str, Any]) -> str:
    """A reply as one line; a lone surrogate from the input is escaped."""
    text = json.dumps(answer, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(answer)
    return text


def _times(asked: dict[str, Any], after: str, count: int) -> dict[str, Any]:
    from evertick.recurrence.search.compiler import compile_spec
    from evertick.recurrence.wire.reading import spec_from_wire

    number = count if asked.get("count") is None else asked["count"]
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= COUNT_MAX:
        raise InvalidSpec(f"count must be a whole number from 1 to {COUNT_MAX}")
    begin = after if asked.get("after") is None else asked["after"]
    seed = asked.get("jitter_seed")
    if not isinstance(begin, str) or not (seed is None or isinstance(seed, str)):
        raise InvalidSpec("after and jitter_seed must be text")
    if "spec" not in asked:
        raise InvalidSpec('a line needs a "spec": {"id", "spec", "after", "count"}')
    spec = spec_from_wire(asked["spec"])
    recurrence = compile_spec(spec)
    instant = parse_when(begin, recurrence.zone, "after")
    times = recurrence.preview(number, instant) if seed is None else None
    written = _written(recurrence, times) if times is not None else _actual(recurrence, instant, number, seed or "")
    if not written and recurrence.is_empty():
        return {"never": True}
    answer: dict[str, Any] = {"times": written}
    if not written:
        answer |= {"never": True, "ended": True}
    description = _description(spec)
    return answer if description is None else {**answer, "description": description}


def _written(recurrence: "Recurrence", times: list[int]) -> list[str]:
    from evertick.recurrence.parse.moments import format_instant

    offset_at = recurrence.zone.offset_at
    return [format_instant(at, offset_at(at)) for at in times]


def _actual(recurrence: "Recurrence", after: int, number: int, seed: str) -> list[str]:
    """The actual times (with jitter), in UTC. Each search begins at the exact previous time."""
    from evertick.recurrence.parse.moments import format_instant
    from evertick.recurrence.search.jitter import jitter_ms

    written: list[str] = []
    while len(written) < number and (nominal := recurrence.next(after)) is not None:
        following = recurrence.following_nominal(nominal)
        delay = jitter_ms(seed, nominal, following, recurrence.spec.jitter_ms)
        after = nominal + delay // 1000
        written.append(f"{format_instant(after)[:-1]}.{delay % 1000:03d}Z" if delay % 1000 else format_instant(after))
    return written


def _description(spec: "Spec") -> str | None:
    from evertick.recurrence.english.describe import describe

    try:
        return describe(spec)
    except InvalidSpec:
        return None


def _sentence(recurrence: "Recurrence") -> str | None:
    """The spec in English; None if it cannot be described.

    `describe` returns "never" for dates that do not exist. A spec whose exclusions remove every time is detected only
    by compiling it.
    """
    said = _description(recurrence.spec)
    if said is None or said.startswith("never") or not recurrence.spec.has_sources or not recurrence.is_empty():
        return said
    return f"never (no time is left of: {said})"


# --- one spec ------------------------------------------------------------------------------------------------


def _preview(recurrence: "Recurrence", after: int, count: int, until: int | None = None) -> "TimePreview":
    from evertick.api.reports import PreviewedTime, TimePreview
    from evertick.api.schedules import Remark
    from evertick.app.schedules.views import outage_warnings
    from evertick.recurrence.lint import lint
    from evertick.recurrence.parse.moments import format_instant
    from evertick.rules.schedules.policies import DEFAULT_POLICIES

    times = tuple(
        PreviewedTime.at(recurrence, at)
        for at in takewhile(lambda at: until is None or at < until, recurrence.preview(count, after))
    )
    more: dict[str, Any] = {}
    if not times and (until is None or recurrence.is_empty()):
        more["never" if recurrence.is_empty() else "ended"] = True
    remarks = [Remark(code=one.code, where=one.where, message=one.message) for one in lint(recurrence.spec, after)]
    coming = [Instant(at * SECOND_MS) for at in recurrence.preview(COUNT_DEFAULT, after)]
    if remarks := [*remarks, *outage_warnings(DEFAULT_POLICIES, coming)]:
        more["warnings"] = tuple(remarks)
    return TimePreview(
        description=_sentence(recurrence),
        time_zone=recurrence.zone.name,
        after=format_instant(after),
        times=times,
        **more,
    )


def _say(shown: "TimePreview") -> None:
    """Write the description and the warnings, to stderr because they are not data."""
    click.echo(shown.description or "", err=True)
    if shown.never:
        click.echo("it never fires", err=True)
    elif shown.ended:
        click.echo("it has ended: no time is left", err=True)
    for warning in shown.warnings:
        click.echo(f"note: {warning.where}: {warning.message}", err=True)


def _table(shown: "TimePreview", now: Instant) -> None:
    """Write the times, to stdout because they are data; in a pipe separated by tabs."""
    from evertick.recurrence.parse.moments import parse_instant

    wide = on_terminal()
    for row in shown.times:
        note = ", ".join(filter(None, (f"starts {row.actual}" if row.actual else "", row.note or "")))
        cells = [row.time, row.utc, distance(Instant(parse_instant(row.utc) * SECOND_MS), now), note]
        line = f"{cells[0]}   {cells[1]}   {cells[2]:>10}   {cells[3]}" if wide else "\t".join(cells)
        click.echo(line.rstrip())
