"""Overlap policies under which a backfill does not run all of its times: it is said before they are lost."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from evertick.cli.backfill.flags import BackfillFlags
from evertick.cli.schedule.selection import counted
from evertick.cli.schedule.session import Session
from evertick.rules.schedules.policies import Overlap

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
    """The policy (the schedule's own unless `given`) under which times of a backfill get lost; None if all run."""
    if flags.max_active is not None:
        return None
    policy = given or session.schedules.get(schedule_id).policies.overlap
    return policy if policy in LOSSY else None


def notes_of_many(session: Session, schedule_ids: Iterable[str], flags: BackfillFlags) -> list[str]:
    """What becomes of times of these schedules under their own policies, a line for each that loses some."""
    if flags.overlap is not None:
        return []  # it was chosen
    found = Counter(lossy_policy(session, each, flags) for each in schedule_ids)
    return [
        f"note: {counted(count)} with {policy}: {words}; {SAFE}"
        for policy, words in LOSSY.items()
        if (count := found[policy])
    ]
