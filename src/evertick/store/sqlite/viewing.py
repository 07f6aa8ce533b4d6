"""Reads for people on a SQLite file: they end when their time is over."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from evertick.store import store as contract
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

STEPS_BETWEEN_LOOKS: Final = 10_000
"""Steps of SQLite's machine between two looks at the clock: less than a millisecond."""


def within_limit(work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
    """The work, interrupted when it has taken too long."""

    def limited(transaction: Transaction) -> T:
        connection, deadline = transaction.connection, time.monotonic() + contract.VIEW_MAX_MS / 1000
        connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)
        try:
            return work(transaction)
        except Exception as error:
            if time.monotonic() > deadline:
                raise contract.took_too_long() from error
            raise
        finally:
            connection.set_progress_handler(None, 0)

    return limited
