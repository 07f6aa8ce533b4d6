"""Child workflows with keys: one that cannot have its key does not begin, and its step fails."""

from collections.abc import Callable

from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.outcomes import Raised
from evertick.base.records.jobs import Claim
from evertick.base.records.runs import MessageKind, NewMessage
from evertick.rules.workflows.calls import Call
from evertick.store.transaction.transaction import Transaction

Begun = list[tuple[JobId, Call]]
"""Calls that begin as jobs."""


def without_key_conflicts(claim: Claim, begun: Begun, flushed: Callable[[], Transaction], *, now: Instant) -> Begun:
    """The calls of a run that begin: those without a key, and those whose key no unfinished job has.

    To the run the others have ended at once, with AlreadyExists. `flushed` returns the transaction when the database
    sees all that was scheduled before.
    """
    if all(call.options.key is None for _, call in begun):
        return begun
    transaction, holders, accepted = flushed(), dict[str, JobId](), Begun()
    for job_id, call in begun:
        key = call.options.key
        if key is not None:
            holder = holders.get(key) or transaction.find_unfinished_key(key, tenant=claim.tenant)
            if holder is not None:
                refused = Raised("AlreadyExists", f"the unfinished job {holder} holds the key {key!r}")
                ended = NewMessage(claim.id, MessageKind.ENDED, "", call.seq, refused)
                transaction.send_messages([ended], now=now)
                continue
            holders[key] = job_id
        accepted.append((job_id, call))
    return accepted
