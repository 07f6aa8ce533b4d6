"""`evertick schedule preview`: when would it fire? Offline: needs no database and no server.

From flags it prints the sentence, the next times on the schedule's clock and in UTC, and what clock changes do to
them. From `--file` it answers one line of JSON for each line asked:

    {"id": "a", "spec": {"crons": ["0 9 * * 1-5"]}, "after": "2026-01-01T00:00:00Z", "count": 3}
    {"id": "a", "times": ["2026-01-01T09:00:00+00:00", ...], "description": "at 09:00 on weekdays"}

or `{"id", "never": true}` for a spec that can never fire, `{"id", "times": [], "ended": true}` for one whose last time
has passed, or `{"id", "error": {"code", "message"}}`. A line that asks with `jitter_seed` is answered with actual
times instead of nominal ones. One bad line never stops the others.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import click

from evertick.base.errors import EvertickError, InvalidSpec
from evertick.cli.spec_flags import SpecFlags, parse_json, parse_when, spec_options
from evertick.rules.recurrence import Recurrence, Spec, compile_spec, jitter_ms
from evertick.rules.recurrence.describe import describe
from evertick.rules.recurrence.explain import clock_note
from evertick.rules.recurrence.lint import lint
from evertick.rules.recurrence.moments import format_instant, parse_instant
from evertick.rules.recurrence.wire import spec_from_wire

COUNT_DEFAULT = 5
COUNT_MAX = 10_000
LINE_MAX = 16 * 1024 * 1024


@click.command()
@spec_options
@click.option("--after", metavar="TIME", default="now", show_default=True, help="Times later than this moment.")
@click.option("--count", "-n", type=click.IntRange(1, COUNT_MAX), default=COUNT_DEFAULT, show_default=True)
@click.option("--output", "-o", type=click.Choice(["table", "json", "jsonl"]), default="table", show_default=True)
@click.option("--file", "lines", type=click.File("r", encoding="utf-8", errors="replace"), help="Specs, one a line.")
def preview(spec_flags: SpecFlags, after: str, count: int, output: str, lines: TextIO | None) -> None:
    """Show the next times of a spec, without a server."""
    if lines is not None:
        if spec_flags.given:
            raise click.UsageError("--file brings its own specs; give either it or flags")
        for answer in answers(lines, after, count):
            click.echo(json.dumps(answer, ensure_ascii=False))
        return
    if not spec_flags.given:
        raise click.UsageError("say when: --cron, --interval, --calendar, --rrule, --at or --spec")
    try:
        spec = spec_flags.spec()
        recurrence = compile_spec(spec)
        begin = parse_when(after, recurrence.zone, "--after")
    except EvertickError as problem:
        raise click.UsageError(str(problem)) from None
    shown = _preview(recurrence, begin, count)
    if output != "json":
        _say(shown)
    if output == "json":
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    elif output == "jsonl":
        for row in shown["times"]:
            click.echo(json.dumps(row, ensure_ascii=False))
    else:
        _table(shown)


# --- many specs, one line each -------------------------------------------------------------------------------


def answers(lines: Iterable[str], after: str, count: int) -> Iterator[dict[str, Any]]:
    """The answer to each line; blank lines are passed over."""
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
    except Exception as problem:  # a defect of ours in one line must not cost the others their answers
        error = {"code": "internal_error", "message": f"{type(problem).__name__}: {str(problem)[:200]}"}
    return {"id": asked.get("id") if isinstance(asked, dict) else None, "error": error}


def _times(asked: dict[str, Any], after: str, count: int) -> dict[str, Any]:
    number = asked.get("count", count)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= COUNT_MAX:
        raise InvalidSpec(f"count must be a whole number from 1 to {COUNT_MAX}")
    begin = asked.get("after", after)
    seed = asked.get("jitter_seed")
    if not isinstance(begin, str) or not (seed is None or isinstance(seed, str)):
        raise InvalidSpec("after and jitter_seed must be text")
    spec = spec_from_wire(asked.get("spec", {}))
    recurrence = compile_spec(spec)
    instant = parse_when(begin, recurrence.zone, "after")
    times = recurrence.preview(number, instant) if seed is None else None
    written = _written(recurrence, times) if times is not None else _actual(recurrence, instant, number, seed or "")
    if not written and recurrence.is_empty():
        return {"never": True}
    answer: dict[str, Any] = {"times": written}
    if not written:
        answer["ended"] = True
    description = _description(spec)
    return answer if description is None else {**answer, "description": description}


def _written(recurrence: Recurrence, times: list[int]) -> list[str]:
    offset_at = recurrence.zone.offset_at
    return [format_instant(at, offset_at(at)) for at in times]


def _actual(recurrence: Recurrence, after: int, number: int, seed: str) -> list[str]:
    """The times with their jitter, in UTC; each is searched for after the one before, as it really was."""
    written: list[str] = []
    while len(written) < number and (nominal := recurrence.next(after)) is not None:
        following = recurrence.following_nominal(nominal)
        delay = jitter_ms(seed, nominal, following, recurrence.spec.jitter_ms)
        after = nominal + delay // 1000
        written.append(f"{format_instant(after)[:-1]}.{delay % 1000:03d}Z" if delay % 1000 else format_instant(after))
    return written


def _description(spec: Spec) -> str | None:
    try:
        return describe(spec)
    except InvalidSpec:
        return None


# --- one spec ------------------------------------------------------------------------------------------------


def _preview(recurrence: Recurrence, after: int, count: int) -> dict[str, Any]:
    rows = []
    for at in recurrence.preview(count, after):
        note = clock_note(recurrence, at)
        row = {"time": format_instant(at, recurrence.zone.offset_at(at)), "utc": format_instant(at)}
        rows.append(row if note is None else {**row, "note": note.text})
    shown: dict[str, Any] = {
        "description": _description(recurrence.spec),
        "time_zone": recurrence.zone.name,
        "after": format_instant(after),
        "times": rows,
    }
    if not rows:
        shown["never" if recurrence.is_empty() else "ended"] = True
    if remarks := lint(recurrence.spec, after):
        shown["warnings"] = [{"code": one.code, "where": one.where, "message": one.message} for one in remarks]
    return shown


def _say(shown: dict[str, Any]) -> None:
    """The sentence and the warnings: words, so they go to stderr."""
    click.echo(shown["description"] or "", err=True)
    if shown.get("never"):
        click.echo("it never fires", err=True)
    elif shown.get("ended"):
        click.echo("it has ended: no time is left", err=True)
    for warning in shown.get("warnings", ()):
        click.echo(f"note: {warning['where']}: {warning['message']}", err=True)


def _table(shown: dict[str, Any]) -> None:
    """The times: data, so they go to stdout; with tabs when nobody looks."""
    wide = sys.stdout.isatty()
    now = int(time.time())
    for row in shown["times"]:
        cells = [row["time"], row["utc"], _distance(parse_instant(row["utc"]) - now), row.get("note", "")]
        line = f"{cells[0]}   {cells[1]}   {cells[2]:>10}   {cells[3]}" if wide else "\t".join(cells)
        click.echo(line.rstrip())


def _distance(seconds: int) -> str:
    """How far away, roughly: `in 3h`, `2d ago`."""
    size = abs(seconds)
    unit, length = next(((u, n) for u, n in (("d", 86_400), ("h", 3_600), ("m", 60)) if size >= n), ("s", 1))
    return f"in {size // length}{unit}" if seconds >= 0 else f"{size // length}{unit} ago"
