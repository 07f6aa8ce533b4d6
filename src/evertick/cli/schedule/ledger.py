"""`evertick schedule explain`, `audit`, `occurrences` and `history`: what became of every time, and why."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from evertick.base.durations import full_length
from evertick.base.escaping import printable, shell_word
from evertick.base.instants import Instant, to_datetime
from evertick.base.suggested_commands import SEPARATOR, commands_of
from evertick.cli.core.databases import data_options, named_tenant
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.output import OutputOptions, output_option, time_row_options
from evertick.cli.schedule.selection import LIMIT_DEFAULT, LIMIT_MAX, collected, sid_option, sid_or_query
from evertick.cli.schedule.session import Session, open_session
from evertick.rules.schedules.fates import Fate, Reason

if TYPE_CHECKING:
    from evertick.api.reports import AuditReport, Explanation
    from evertick.api.schedules import OccurrenceView

SIGNS: Final = {"yes": "✓", "no": "✕", "unknown": "?"}
"""By the answer of a check."""
AUDIT_LIST: Final = ("what", "schedule", "nominal", "why")
"""The columns of an audit's table."""
HISTORY_LIMIT_MAX: Final = 1_000


# -- explain


@click.command()
@sid_option
@click.option("--at", metavar="TIME", help="The time in question, on the schedule's clock; its last time unless given.")
@data_options
@output_option
def explain(sid: str, at: str | None, db: str | None, out: OutputOptions) -> None:
    """Say why a schedule ran at a time, or why it did not, check by check; or, ahead, whether it will."""
    from evertick.cli.schedule.words import iso
    from evertick.recurrence.parse.moments import format_instant

    with open_session(db) as session:
        moment = _last_time(session, sid) if at is None else _meant(session, sid, at)
        explanation = session.schedules.explain(sid, moment)
        recurrence = session.recurrence(sid)
    if out.is_data:
        out.write_json(explanation.to_json())
    elif not out.is_none:
        second = int(explanation.at.timestamp())
        zone = None if recurrence is None or recurrence.zone.name == "UTC" else recurrence.zone
        clock = (
            iso(explanation.at) if zone is None else f"{format_instant(second, zone.offset_at(second))} ({zone.name})"
        )
        click.echo(printable(f"{explanation.schedule} at {clock}"))
        _write_chain(explanation)


def _write_chain(explanation: "Explanation") -> None:
    from evertick.cli.schedule.words import occurrence_line

    lines = [f"{SIGNS[check.answer]} {check.name}: {check.text}" for check in explanation.checks]
    lines.append(f"→ {explanation.sentence}")
    lines += [f"also: {each.origin} {occurrence_line(each)}" for each in explanation.occurrences[1:]]
    if explanation.fix is not None:
        lines.append(f"fix: {_of_tenant(explanation.fix)}")
    for line in lines:
        click.echo(printable(f"  {line}"))


def _of_tenant(fix: str) -> str:
    """The suggested commands, with the option for the current tenant."""
    tenant = named_tenant()
    return SEPARATOR.join(commands_of(fix, "" if tenant is None else f" --tenant {shell_word(tenant)}"))


def _meant(session: Session, sid: str, at: str) -> datetime:
    """The instant that the user means. A local time that a clock change skips means the time to which its run moved."""
    from evertick.recurrence.explain import change_near, clock_note
    from evertick.recurrence.parse.moments import parse_moment
    from evertick.recurrence.spec.sources import MomentKind
    from evertick.recurrence.zones.zones import local_of

    moment = session.moment(at, "--at", sid)
    second = int(moment.timestamp())
    recurrence = session.recurrence(sid)
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


def _last_time(session: Session, sid: str) -> datetime:
    """The latest past time of a schedule's spec; the current time if there is none."""
    session.status(sid)
    recurrence = session.recurrence(sid)
    last = None if recurrence is None else recurrence.prev(session.now // 1000 + 1)
    return to_datetime(Instant(last * 1000) if last is not None else session.now)


# -- audit


@click.command()
@sid_or_query
@click.option(
    "--from",
    "start",
    metavar="TIME",
    help="The first moment; 24 hours before the last, or the first time that was found missed since, unless given.",
)
@click.option("--to", "end", metavar="TIME", help="The moment after the last; a date: its end; now unless given.")
@data_options
@output_option
def audit(sid: str | None, start: str | None, end: str | None, db: str | None, out: OutputOptions) -> int:
    """Check a span of time, of all schedules or of one: what was late, skipped or missed, or is not accounted for.

    The exit code is 8 if anything that should have run did not: a check for another scheduler to run every night.
    """
    from evertick.cli.schedule.words import iso

    with open_session(db) as session:
        first = None if start is None else session.moment(start, "--from", sid)
        last = None if end is None else session.moment(end, "--to", sid, "after")
        report = session.schedules.audit(first, last, schedule_id=sid)
    if out.is_data:
        out.write_json(report.to_json())
    else:
        cells = [_audit_row(title, each) for title, rows in _kinds(report) for each in rows]
        cells += [
            dict(zip(AUDIT_LIST, (time.why, time.schedule, iso(time.nominal), ""), strict=True))
            for time in report.unrecorded
        ]
        cells += [
            dict(zip(AUDIT_LIST, ("unreadable", each.schedule, "", each.why), strict=True))
            for each in report.unreadable
        ]
        out.write_rows(cells, cells, AUDIT_LIST)
    words = (
        f"{iso(report.start)} to {iso(report.end)} (the end is not included): {report.started:,} started, "
        f"{report.late_count:,} started late, {report.skipped_count:,} skipped, {report.missed_count:,} missed"
    )
    words += f", {report.caught_up_count:,} more caught up since" if report.caught_up_count else ""
    words += f", {report.waiting:,} waiting to start" if report.waiting else ""
    words += f", {report.blocked_count:,} blocked: no live worker runs their function" if report.blocked_count else ""
    unrecorded = f", {len(report.unrecorded):,} not recorded" if report.unrecorded else ""
    unrecorded += f", {len(report.unreadable):,} schedules that cannot be read" if report.unreadable else ""
    cut = "" if report.complete else "; there was too much to check all of it"
    click.echo(f"{words}{unrecorded}{cut}", err=True)
    return Exit.OK if report.clean else Exit.NOT_FULFILLED


def _kinds(report: "AuditReport") -> "tuple[tuple[str, tuple[OccurrenceView, ...]], ...]":
    return ("missed", report.missed), ("blocked", report.blocked), ("late", report.late), ("skipped", report.skipped)


def _audit_row(title: str, each: "OccurrenceView") -> dict[str, str]:
    from evertick.cli.schedule.words import iso

    late = "" if not each.is_late else f", {full_length(each.late_ms or 0)} late"
    why = f"{each.reason}{late}{f': {each.detail}' if each.detail else ''}"
    return dict(zip(AUDIT_LIST, (title, each.schedule, iso(each.nominal), why), strict=True))


# -- the ledger and the history


@dataclass(frozen=True, slots=True)
class OccurrenceFlags:
    """The options that select rows of the ledger."""

    fates: tuple[str, ...] = flag(
        "--fate", default=(), type=click.Choice([fate.value for fate in Fate]), help="Repeatable."
    )
    reason: str | None = flag(
        "--reason", type=click.Choice([reason.value for reason in Reason]), metavar="REASON",
        help="Such as overlap or catch_up_window.",
    )  # fmt: skip
    start: str | None = flag("--from", metavar="TIME", help="Nominal times from this moment on.")
    end: str | None = flag("--to", metavar="TIME", help="Nominal times before this moment; a date: up to its end.")
    oldest_first: bool = flag(
        "--oldest-first", default=False, help="In the order of time; else the newest stand first."
    )
    limit: int = flag("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)


@click.command()
@sid_or_query
@flags(OccurrenceFlags, "chosen")
@data_options
@time_row_options
def occurrences(sid: str | None, chosen: OccurrenceFlags, db: str | None, out: OutputOptions) -> None:
    """List what became of each time, of one schedule (also a deleted one) or of all."""
    from evertick.api.schedules import OccurrenceView
    from evertick.cli.schedule.words import OCCURRENCE_LIST, occurrence_words

    fields = out.columns(OccurrenceView.names(), OCCURRENCE_LIST)
    with open_session(db) as session:
        found = _rows(session, sid, chosen)
        now = session.now
    more, found = len(found) > chosen.limit, found[: chosen.limit]
    out.show_views(found, now, fields, occurrence_words)
    if not found and out.tells_of_nothing:
        click.echo("no occurrences", err=True)
    if more and not out.is_none:
        click.echo(f"these are {chosen.limit}; there are more: --limit", err=True)


def _rows(session: Session, sid: str | None, chosen: OccurrenceFlags) -> "list[OccurrenceView]":
    """The selected rows, and one more if there are more than the limit."""
    first = None if chosen.start is None else session.moment(chosen.start, "--from", sid)
    last = None if chosen.end is None else session.moment(chosen.end, "--to", sid, "after")

    def page(size: int, cursor: str | None) -> "tuple[tuple[OccurrenceView, ...], str | None]":
        found = session.schedules.occurrences(
            sid, fate=chosen.fates or None, reason=chosen.reason, start=first, end=last,
            newest_first=not chosen.oldest_first, limit=size, cursor=cursor,
        )  # fmt: skip
        return found.occurrences, found.cursor

    return collected(chosen.limit + 1, page)


@click.command()
@sid_option
@click.option("--limit", type=click.IntRange(1, HISTORY_LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@data_options
@time_row_options
def history(sid: str, limit: int, db: str | None, out: OutputOptions) -> None:
    """List what was done to a schedule, the newest first: when, by whom, what. Also of a deleted one."""
    from evertick.api.schedules import HistoryLine
    from evertick.cli.schedule.words import HISTORY_LIST

    chosen = out.columns(HistoryLine.names(), HISTORY_LIST)
    with open_session(db) as session:
        lines = session.schedules.history(sid, limit=limit)
        now = session.now
    out.show_views(lines, now, chosen)
