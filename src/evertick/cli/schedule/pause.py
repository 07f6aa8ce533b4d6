"""`evertick schedule pause`, `resume` and `toggle`: pause a schedule, and let it go on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from evertick.base.escaping import printable
from evertick.base.instants import from_datetime, to_iso
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, output_option
from evertick.cli.core.reasons import asked_for, reason_option
from evertick.cli.schedule.selection import (
    Selection,
    change_all,
    if_version_option,
    named,
    selection_options,
    sid_option,
)
from evertick.cli.schedule.session import Session, open_session

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleSummary


@dataclass(frozen=True, slots=True)
class PauseFlags:
    """The options for the reason and the end of a pause."""

    reason: str | None = shared(reason_option)
    until: str | None = flag(
        "--until", metavar="TIME", help="When it goes on by itself, such as 2026-12-24T09:00 or now+2h."
    )


@dataclass(frozen=True, slots=True)
class ResumeFlags:
    """The options for the reason of a resumption, and for the time from which the schedule's times count."""

    reason: str | None = shared(reason_option)
    from_now: bool = flag(
        "--from-now", default=False, help="Count all times from now on, also those judged while the clock was ahead."
    )


@dataclass(frozen=True, slots=True)
class Direction:
    """The options that choose between pausing and resuming."""

    pause: bool = flag("--pause", default=False, help="Take no scheduled runs.")
    unpause: bool = flag("--unpause", default=False, help="Go on from now; skipped times are not caught up.")
    if_version: int | None = shared(if_version_option)

    @property
    def pausing(self) -> bool:
        """Whether to pause. Raises UsageError unless exactly one of the two is given."""
        if self.pause == self.unpause:
            raise click.UsageError("give --pause or --unpause" + ("; both contradict each other" if self.pause else ""))
        return self.pause


@click.command()
@sid_option
@flags(Direction, "direction")
@flags(PauseFlags, "how")
@data_options
@output_option
def toggle(sid: str, direction: Direction, how: PauseFlags, db: str | None, out: OutputOptions) -> None:
    """Pause or unpause a schedule, and say why."""
    pausing, if_version = direction.pausing, direction.if_version
    if how.until is not None and not pausing:
        raise click.UsageError("--until ends a pause; it goes with --pause")
    with open_session(db) as session:
        if pausing:
            found = pause_one(session, sid, how, if_version=if_version)
        else:
            found = resume_one(session, sid, ResumeFlags(how.reason), if_version=if_version)
    out.write_view(found)


@click.command()
@selection_options("pause", "'function:app.mail'")
@flags(PauseFlags, "how")
@data_options
@output_option
def pause(chosen: Selection, how: PauseFlags, db: str | None, out: OutputOptions) -> None:
    """Pause a schedule: its times are skipped, and not caught up. Triggers and backfills run all the same."""
    with open_session(db) as session:
        if chosen.query is None:
            out.write_view(pause_one(session, named(chosen.sid), how, if_version=chosen.if_version))
            return
        if how.until is not None:
            raise click.UsageError("--until is for one schedule")
        where = chosen.where(session, "pause")
        change_all(session, "pause", where, out, note=asked_for(how.reason))


@click.command()
@selection_options("resume", "paused ones of 'function:app.mail'")
@flags(ResumeFlags, "how")
@data_options
@output_option
def resume(chosen: Selection, how: ResumeFlags, db: str | None, out: OutputOptions) -> None:
    """Let a schedule go on, from now: times during the pause are not caught up."""
    with open_session(db) as session:
        if chosen.query is None:
            out.write_view(resume_one(session, named(chosen.sid), how, if_version=chosen.if_version))
            return
        if how.from_now:
            raise click.UsageError("--from-now is for one schedule")
        where = chosen.where(session, "resume")
        change_all(session, "resume", where, out, note=how.reason or "")


def pause_one(
    session: Session, sid: str, how: PauseFlags, *, if_version: int | None = None, kind: str | None = None
) -> "ScheduleSummary":
    """Pause a schedule, print a sentence, and return it. Raises ScheduleNotFound, also for a wrong kind."""
    was = session.status(sid, kind=kind)
    end = None if how.until is None else session.moment(how.until, "--until", sid, "after")
    note = asked_for(how.reason)
    found = session.schedules.pause(sid, note, until=end, if_version=if_version)
    words = f"{sid} was paused already" if was == "paused" else f"paused {sid}"
    words += "" if end is None else f" until {to_iso(from_datetime(end))}"
    click.echo(printable(f"{words}: {found.note}" if found.note else words), err=True)
    return found


def resume_one(
    session: Session, sid: str, how: ResumeFlags, *, if_version: int | None = None, kind: str | None = None
) -> "ScheduleSummary":
    """Resume a schedule, print its next time, and return it. Raises ScheduleNotFound, also for a wrong kind."""
    was = session.status(sid, kind=kind)
    found = session.schedules.resume(sid, how.reason or "", from_now=how.from_now, if_version=if_version)
    words = f"resumed {sid}" if was == "paused" else f"{sid} was not paused"
    following = "no further time" if found.next is None else f"next {to_iso(from_datetime(found.next))}"
    click.echo(printable(f"{words}; {following}"), err=True)
    return found
