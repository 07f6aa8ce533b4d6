"""`evertick schedule explain`, `audit`, `occurrences` and `history`: what became of every time, and why."""

from datetime import datetime
from typing import Any, Final

import click

from evertick.app.schedule_audit import AuditReport
from evertick.app.schedule_explain import Answer, Explanation
from evertick.app.schedule_reading import PAGE_MAX
from evertick.app.schedule_views import OccurrenceView
from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.base.instants import Instant, to_datetime
from evertick.cli.databases import db_option
from evertick.cli.exits import Exit
from evertick.cli.output import chosen_fields, fields_option, output_option, write_rows
from evertick.cli.printable import json_text, printable
from evertick.cli.schedule_desk import Desk, open_desk, sid_option, sid_or_query
from evertick.cli.schedule_rows import (
    HISTORY_FIELDS,
    HISTORY_LIST,
    OCCURRENCE_FIELDS,
    OCCURRENCE_LIST,
    cells,
    history_row,
    iso,
    moments,
    occurrence_line,
    occurrence_row,
    occurrence_words,
    plain,
    time_option,
)
from evertick.cli.spec_flags import parse_when
from evertick.engine.schedule_times import recurrence_of
from evertick.rules.recurrence.explain import change_near, clock_note
from evertick.rules.recurrence.moments import format_instant, parse_moment
from evertick.rules.recurrence.source import MomentKind
from evertick.rules.recurrence.walls import local_of
from evertick.rules.recurrence.zones import zone_named
from evertick.rules.schedule import Fate, Reason

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 100_000
SIGNS: Final = {Answer.YES: "✓", Answer.NO: "✕", Answer.UNKNOWN: "?"}
HISTORY_LIMIT_MAX: Final = 1_000


# -- explain


@click.command()
@sid_option
@click.option("--at", metavar="TIME", help="The time in question, on the schedule's clock; its last time unless given.")
@db_option
@output_option
def explain(sid: str, at: str | None, db: str | None, output: str | None) -> None:
    """Say why a schedule ran at a time, or why it did not, check by check; or, ahead, whether it will."""
    with open_desk(db) as desk:
        moment = _last_time(desk, sid) if at is None else _meant(desk, sid, at)
        told = desk.schedules.explain(sid, moment)
        zone = desk.zone_of(sid)
    second = int(told.at.timestamp())
    if output in ("json", "jsonl"):
        click.echo(json_text(_explanation_row(told), indent=2 if output == "json" else None))
    elif output != "none":
        clock = format_instant(second, zone.offset_at(second)) if zone.name != "UTC" else iso(told.at)
        click.echo(printable(f"{told.schedule} at {clock}" + (f" ({zone.name})" if zone.name != "UTC" else "")))
        for check in told.checks:
            click.echo(printable(f"  {SIGNS[check.answer]} {check.name}: {check.text}"))
        click.echo(printable(f"  → {told.sentence}"))
        others = told.occurrences[1:] if len(told.occurrences) > 1 else ()
        for each in others:
            click.echo(printable(f"  also: {each.origin} {occurrence_line(each)}"))
        if told.fix is not None:
            click.echo(printable(f"  fix: {told.fix}"))


def _meant(desk: Desk, sid: str, at: str) -> datetime:
    """The moment in question. A local time that a clock change skips means the time to which its run was moved."""
    moment = _moment(desk, sid, at, "--at")
    row = desk.ask(lambda transaction: transaction.get_schedule(ScheduleId(sid), tenant=DEFAULT_TENANT))
    second = int(moment.timestamp())
    recurrence = None if row is None else recurrence_of(row.spec)
    change = None if recurrence is None else change_near(recurrence.zone, second)
    if recurrence is None or change is None or not at[:1].isdigit():
        return moment
    written = parse_moment(at, "--at")
    if written.kind is not MomentKind.LOCAL or local_of(recurrence.zone, second) == written.value:
        return moment
    moved = recurrence.next(change[0] - 1)
    note = None if moved is None else clock_note(recurrence, moved)
    if moved is None or note is None or note.meant_local != written.value:
        return moment
    return to_datetime(Instant(moved * 1000))


def _last_time(desk: Desk, sid: str) -> datetime:
    """The newest time that a schedule's rule names and that has come; the present if there is none."""
    row = desk.row(sid)
    last = recurrence_of(row.spec).prev(desk.now // 1000 + 1)
    return to_datetime(Instant(last * 1000) if last is not None else desk.now)


def _explanation_row(told: Explanation) -> dict[str, Any]:
    return {
        "schedule": told.schedule,
        "at": iso(told.at),
        "ran": told.ran,
        "fate": None if told.fate is None else told.fate.value,
        "reason": None if told.reason is None else told.reason.value,
        "missing": None if told.missing is None else told.missing.value,
        "sentence": told.sentence,
        "fix": told.fix,
        "checks": [{"name": each.name, "answer": each.answer.value, "text": each.text} for each in told.checks],
        "occurrences": [occurrence_row(each) for each in told.occurrences],
    }


# -- audit


@click.command()
@sid_or_query
@click.option("--from", "start", metavar="TIME", default="now-24h", show_default=True, help="The first moment.")
@click.option("--to", "end", metavar="TIME", default="now", show_default=True, help="The moment after the last.")
@db_option
@output_option
def audit(sid: str | None, start: str, end: str, db: str | None, output: str | None) -> int:
    """Check a span of time, of all schedules or of one: what was late, skipped or missed, or is not accounted for.

    The exit code is 8 if anything that should have run did not: a check for another scheduler to run every night.
    """
    with open_desk(db) as desk:
        if sid is not None:
            desk.row(sid)
        span = [_moment(desk, sid, text, flag) for text, flag in ((start, "--from"), (end, "--to"))]
        report = desk.schedules.audit(span[0], span[1], schedule_id=sid)
    if output in ("json", "jsonl"):
        click.echo(json_text(_audit_row(report), indent=2 if output == "json" else None))
    elif output != "none":
        for title, rows in (("missed", report.missed), ("late", report.late), ("skipped", report.skipped)):
            for each in rows:
                click.echo(printable(f"{title}\t{each.schedule}\t{_audit_line(each)}"))
        for time in report.unrecorded:
            click.echo(printable(f"{time.why}\t{time.schedule}\t{iso(time.nominal)}"))
    words = (
        f"{iso(report.start)} to {iso(report.end)} (the end is not included): {report.started:,} in time, "
        f"{report.late_count:,} late, {report.skipped_count:,} skipped, {report.missed_count:,} missed"
    )
    unrecorded = f", {len(report.unrecorded):,} not recorded" if report.unrecorded else ""
    cut = "" if report.complete else "; there was too much to look at all of it"
    click.echo(f"{words}{unrecorded}{cut}", err=True)
    return Exit.OK if report.clean else Exit.NOT_FULFILLED


def _audit_line(each: OccurrenceView) -> str:
    late = "" if each.late_by is None or not each.is_late else f"  {each.late_by.total_seconds():g} s late"
    return f"{occurrence_line(each)}{late}"


def _audit_row(report: AuditReport) -> dict[str, Any]:
    return {
        "start": iso(report.start),
        "end": iso(report.end),
        "clean": report.clean,
        "complete": report.complete,
        "counts": {
            "started": report.started,
            "late": report.late_count,
            "skipped": report.skipped_count,
            "missed": report.missed_count,
            "waiting": report.waiting,
            "unrecorded": len(report.unrecorded),
        },
        "missed": [occurrence_row(each) for each in report.missed],
        "late": [occurrence_row(each) for each in report.late],
        "skipped": [occurrence_row(each) for each in report.skipped],
        "unrecorded": [
            {"schedule": each.schedule, "nominal": iso(each.nominal), "why": each.why.value}
            for each in report.unrecorded
        ],
    }


# -- the ledger and the history


@click.command()
@sid_or_query
@click.option("--fate", "fates", multiple=True, type=click.Choice([fate.value for fate in Fate]), help="Repeatable.")
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in Reason]),
    metavar="REASON",
    help="Such as overlap or catch_up_window.",
)
@click.option("--from", "start", metavar="TIME", help="Nominal times from this moment on.")
@click.option("--to", "end", metavar="TIME", help="Nominal times before this moment.")
@click.option("--oldest-first", is_flag=True, help="In the order of time; else the newest stand first.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@time_option
@db_option
@output_option
@fields_option
def occurrences(
    sid: str | None, fates: tuple[str, ...], reason: str | None, start: str | None, end: str | None,
    oldest_first: bool, limit: int, time_style: str | None, db: str | None, output: str | None, fields: str | None,
) -> None:  # fmt: skip
    """List what became of each time, of one schedule (also a deleted one) or of all."""
    chosen = chosen_fields(fields, OCCURRENCE_FIELDS, OCCURRENCE_FIELDS if _is_data(output) else OCCURRENCE_LIST)
    found: list[OccurrenceView] = []
    cursor: str | None = None
    with open_desk(db) as desk:
        first = None if start is None else _moment(desk, sid, start, "--from")
        last = None if end is None else _moment(desk, sid, end, "--to")
        while len(found) <= limit:
            page = desk.schedules.occurrences(
                sid, fate=fates or None, reason=reason, start=first, end=last, newest_first=not oldest_first,
                limit=min(PAGE_MAX, limit + 1 - len(found)), cursor=cursor,
            )  # fmt: skip
            found += page.occurrences
            cursor = page.cursor
            if cursor is None:
                break
        if sid is not None and not found and not desk.schedules.history(sid, limit=1):
            desk.row(sid)
        moment = moments(time_style, output, desk.now)
    more, found = len(found) > limit, found[:limit]
    rows = [occurrence_words(each, moment) for each in found]
    write_rows([occurrence_row(each) for each in found], cells(rows, chosen), chosen, output)
    if not found and output in (None, "table"):
        click.echo("no occurrences", err=True)
    if more and output != "none":
        click.echo(f"these are {limit}; there are more: --limit", err=True)


@click.command()
@sid_option
@click.option("--limit", type=click.IntRange(1, HISTORY_LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@time_option
@db_option
@output_option
@fields_option
def history(
    sid: str, limit: int, time_style: str | None, db: str | None, output: str | None, fields: str | None
) -> None:
    """List what was done to a schedule, the newest first: when, by whom, what. Also of a deleted one."""
    chosen = chosen_fields(fields, HISTORY_FIELDS, HISTORY_FIELDS if _is_data(output) else HISTORY_LIST)
    with open_desk(db) as desk:
        lines = desk.schedules.history(sid, limit=limit)
        if not lines:
            desk.row(sid)
        moment = moments(time_style, output, desk.now)
    rows = [history_row(line) for line in lines]
    words = [
        {name: plain(value) for name, value in row.items()} | {"at": moment(line.at)}
        for row, line in zip(rows, lines, strict=True)
    ]
    write_rows(rows, cells(words, chosen), chosen, output)


def _is_data(output: str | None) -> bool:
    return output in ("json", "jsonl")


def _moment(desk: Desk, sid: str | None, text: str, flag: str) -> datetime:
    """A moment as it is written, on the schedule's clock where it says none."""
    zone = zone_named("UTC") if sid is None else desk.zone_of(sid)
    return to_datetime(Instant(parse_when(text, zone, flag, desk.now // 1000) * 1000))
