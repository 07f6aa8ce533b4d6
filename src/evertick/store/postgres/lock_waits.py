"""How long functions wait for locks of other transactions, before their own transaction is run again.

PostgreSQL looks for a deadlock after a second. Until then both functions wait, and what they have locked keeps others
waiting; one that has less time would fail for good, although nothing is wrong with it. So a wait ends earlier, as a
conflict: after a quarter to half of a second, or of what is left of the function's time. Two that wait for each other
mostly give up one after the other, so that one goes on.

The functions of a batch share a transaction, which holds the locks of all of them. Where others lock the same rows in
another order, nearly every batch would be in a deadlock, so it waits for a moment only. Then it is run in halves, and
in the end each mutation alone: of those that lock one row each, none is in a deadlock then.
"""

import math
import random
from typing import Final

import psycopg
from psycopg import errors as pg_errors

from evertick.base.time_limit import current_guard, function_time
from evertick.store.transaction.endings import limits_lock_waits

SHARED_MAX_MS: Final = 50
"""For a transaction that several functions share."""
SINGLE_MAX_MS: Final = 1_000
"""Of which a function alone waits for a quarter to half."""
UNLIMITED_MS: Final = 10_000
"""For code without a time limit, as every session is set (`address.SESSION`)."""
MIN_MS: Final = 5


def lock_limit(*, is_shared: bool) -> str:
    """The setting of a transaction for the function that runs in this thread, and those after it."""
    deadline = current_guard().deadline
    limit_ms: float = SHARED_MAX_MS if is_shared else UNLIMITED_MS
    if deadline and deadline < math.inf:
        left_ms = (deadline - function_time()) * 1000
        limit_ms = min(limit_ms, min(SINGLE_MAX_MS, left_ms) * random.uniform(0.25, 0.5))
    return f"set local lock_timeout = {max(MIN_MS, round(limit_ms))}"


def has_waited(error: psycopg.Error) -> bool:
    """Whether a statement has waited for a lock for as long as it may. With NOWAIT it does not; both have one code."""
    return isinstance(error, pg_errors.LockNotAvailable) and error.diag.source_function == "ProcessInterrupts"


class LockWaits:
    """How long the functions of one transaction wait."""

    def __init__(self) -> None:
        self.are_limited = False
        self.as_told = False
        """Whether a function has said itself how long its statements wait."""

    def see(self, statement: object) -> None:
        """A statement of a function's own is about to run."""
        self.as_told = self.as_told or limits_lock_waits(statement)

    def are_over(self, error: psycopg.Error) -> bool:
        """Whether this error says that a function has waited for as long as it may, which it has not set itself."""
        return not self.as_told and has_waited(error)
