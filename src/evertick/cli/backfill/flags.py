"""The flags of `evertick schedule backfill`: which times run, and how."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict

import click

from evertick.cli.core.flags import flag
from evertick.cli.schedule.selection import counted
from evertick.cli.schedule.session import Session
from evertick.rules.schedules.policies import Overlap

if TYPE_CHECKING:
    from evertick.cli.schedule.session import Session


class Choice(TypedDict):
    """How the times of a backfill run, and which of them."""

    overlap: str | None
    max_active: int | None
    skip_done: bool
    only_missed: bool


@dataclass(frozen=True, slots=True)
class BackfillFlags:
    """A backfill to plan and start; with `watched` or `canceled`, the id of one that was started before."""

    start_time: str | None = flag(
        "--start-time", metavar="TIME", help="The first moment, such as 2022-05-01T00:00:00Z; included."
    )
    end_time: str | None = flag("--end-time", metavar="TIME", help="The last moment, included too; a date: its end.")
    before: str | None = flag("--before", metavar="TIME", help="In place of --end-time: the end, not included.")
    overlap: str | None = flag(
        "--overlap-policy", metavar="POLICY",
        help="BufferAll runs one after the other, AllowAll all at once; the schedule's own unless given.",
    )  # fmt: skip
    max_active: int | None = flag(
        "--max-active", metavar="N", help="How many of its runs may be open at a time, not counting other runs."
    )
    include_done: bool = flag(
        "--include-done/--skip-done", default=False,
        help="Run times again that ran before; or leave them out, as is usual.",
    )  # fmt: skip
    only_missed: bool = flag(
        "--only-missed", default=False,
        help="Run only times that were missed, in an outage for example, and not caught up since.",
    )  # fmt: skip
    dry_run: bool = flag("--dry-run", default=False, help="List the times it would run; start nothing.")
    waiting: bool | None = flag(
        "--wait/--detach", help="Stay until it is done, as is usual at a terminal; or leave it to itself."
    )
    yes: bool = flag("--yes", default=False, help="Do not ask whether times that are still to come should run now.")
    watched: str | None = flag("--watch", metavar="ID", help="Show the progress of a backfill that was started before.")
    canceled: str | None = flag("--cancel", metavar="ID", help="End a backfill: what waits is skipped.")

    @property
    def choice(self) -> Choice:
        """The options that select times and say how they run, as keywords of `schedules.backfill`."""
        return {
            "overlap": self.overlap,
            "max_active": self.max_active,
            "skip_done": not self.include_done,
            "only_missed": self.only_missed,
        }

    def span(self, session: "Session", sid: str | None) -> tuple[datetime, datetime]:
        """The first and the last instant. A time without a zone is in the zone of the schedule `sid`, if that is given.
        Raises InvalidSpec.
        """
        start = session.moment(self.start_time or "", "--start-time", sid)
        if self.before is None:
            return start, session.moment(self.end_time or "", "--end-time", sid, "last")
        return start, session.moment(self.before, "--before", sid) - timedelta(milliseconds=1)

    def check(self) -> None:
        """Raise UsageError if flags contradict each other or are missing."""
        if self.watched is not None or self.canceled is not None:
            if self != BackfillFlags(waiting=self.waiting, watched=self.watched, canceled=self.canceled) or (
                self.watched is not None and self.canceled is not None
            ):
                raise click.UsageError(
                    "--watch and --cancel are about a backfill that was started; give one of them alone"
                )
        elif self.start_time is None or (self.end_time is None) == (self.before is None):
            raise click.UsageError("a backfill is of a span of time; give --start-time and --end-time (or --before)")


# -- Overlap policies under which a backfill does not run all of its times: it is said before they are lost.

LOSSY: Final[dict[str, str]] = {
    Overlap.SKIP: "the first runs and the others are skipped while it runs",
    Overlap.BUFFER_ONE: "one runs, one waits and the others are skipped",
    Overlap.CANCEL_OTHER: "only the newest gets to run",
    Overlap.TERMINATE_OTHER: "only the newest gets to run",
}
"""What becomes of many times at once under the policies that are not meant for them."""
SAFE: Final = "choose --overlap-policy BufferAll or AllowAll, or --max-active"


def lossy_policy(
    session: Session, schedule_id: str, flags: BackfillFlags, *, given: Overlap | None = None
) -> str | None:
    """The overlap policy under which some times of a backfill do not run: `given`, else the schedule's own.

    None if all times run.
    """
    if flags.max_active is not None:
        return None
    policy = given or session.schedules.get(schedule_id).policies.overlap
    return policy if policy in LOSSY else None


def notes_of_many(session: Session, schedule_ids: Iterable[str], flags: BackfillFlags) -> list[str]:
    """A note for each of the schedules' own overlap policies under which some times of the backfill do not run.

    Empty if the caller has chosen a policy.
    """
    if flags.overlap is not None:
        return []  # it was chosen
    found = Counter(lossy_policy(session, each, flags) for each in schedule_ids)
    return [
        f"note: {counted(count)} with {policy}: {words}; {SAFE}"
        for policy, words in LOSSY.items()
        if (count := found[policy])
    ]
