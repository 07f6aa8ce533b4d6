"""Withdrawing events that were sent to a run and that its code has not taken."""

from typing import TYPE_CHECKING, Final

from evertick.api.workflows import WithdrawnEvent, event_id
from evertick.app.transacting import Work
from evertick.base.errors import Conflict, EvertickError, Misuse, NotFound
from evertick.base.instants import to_iso
from evertick.base.job_options import KEY, check_name
from evertick.base.options import check_options, some
from evertick.base.outcomes import Returned
from evertick.base.records.jobs import Job
from evertick.base.records.workflows import CallKind, RowKind
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.workflows.operations import RunId, WorkflowOperations

EVENTS_MAX: Final = 1_000
"""Waiting events that are read."""
NAMED: Final = 5
"""Events listed in an error message."""


def withdraw(
    operations: "WorkflowOperations", run_id: "RunId", event: str, *, id: str | None = None, key: str | None = None
) -> Work[WithdrawnEvent]:
    """Withdraw an event that was sent to a run and that its code has not taken; returns it, with its value.

    If several events with this name wait, `id` selects one (see `get(run_id).waiting_events`), or the `key` that it was
    sent with. The code never sees it, and its key can be used again. Events of an ended run can be withdrawn, too: a
    restart would deliver them.

    Raises JobNotFound, NotFound if no such event waits, Conflict if the code has taken it, Misuse if several match, and
    in a step of the run itself.
    """
    check_name(event, "an event")
    check_options({"key": KEY}, some({"key": key}))

    def work(transaction: Transaction) -> WithdrawnEvent:
        job = operations.job(transaction, run_id)
        if transaction.own is not None and transaction.own.claim.id == job.id:
            raise Misuse(f"a step cannot withdraw an event of its own run: take it with step.wait_for({event!r})")
        named = transaction.events_named(job.id, event, limit=EVENTS_MAX)
        meant = [each for each in named if id in (None, event_id(each)) and key in (None, each.key)]
        if len(meant) > 1:
            ids = ", ".join(event_id(each) for each in meant[:NAMED])
            raise Misuse(f"{len(meant)} events {event!r} wait for run {job.id}; give the id of one: {ids}")
        value = transaction.withdraw_event(job.id, meant[0]) if meant else None
        if value is None:
            raise _not_waiting(operations, transaction, job, event, id)
        return WithdrawnEvent.of_value(meant[0], value)

    return work


def _not_waiting(
    operations: "WorkflowOperations", transaction: Transaction, job: Job, event: str, id: str | None
) -> EvertickError:
    """The error for an event that cannot be withdrawn."""
    _, rows = operations.journal(transaction, job)
    waits = {row.seq for row in rows if row.call is CallKind.EVENT and row.name == event}
    taken = [row for row in rows if row.kind is RowKind.END and row.seq in waits and isinstance(row.outcome, Returned)]
    sent_at = 0 if id is None else int(head) if (head := id.partition("-")[0]).isdecimal() else 0
    if taken and taken[-1].at >= sent_at:
        last = taken[-1]
        return Conflict(
            f"run {job.id} has already taken the event {event!r}, at {to_iso(last.at)} as its step {last.seq}, so it "
            "cannot be withdrawn"
        )
    count, others = transaction.waiting_events(job.id, limit=NAMED)
    names = ", ".join(dict.fromkeys(repr(each.name) for each in others)) or "none"
    more = f" and {count - NAMED} more" if count > NAMED else ""
    which = "" if id is None else f" with the id {id!r}"
    return NotFound(f"no event {event!r}{which} waits for run {job.id}; waiting events: {names}{more}")
