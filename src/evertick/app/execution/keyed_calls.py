"""Keyed calls: a call under an idempotency key happens once.

The key is stored with the result, in the transaction of the call.
"""

import hashlib
from collections.abc import Callable

from evertick.base.errors import IdempotencyConflict
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.job_options import KEY
from evertick.base.options import check_options
from evertick.base.records.jobs import Call
from evertick.store.transaction.transaction import Transaction


class KeyedCall:
    """A call of `name` under a key, with the arguments `given`; `run` makes it in a transaction and returns its result.

    Arguments and result are text. Raises Misuse for a key that is not text of 1 to 512 characters.
    """

    def __init__(self, key: str, name: str, given: str, run: Callable[[Transaction], str]) -> None:
        check_options({"idempotency_key": KEY}, {"idempotency_key": key})
        self._key = key
        self._name = name
        self._run = run
        self._fingerprint = hashlib.sha256(f"{name}\0{given}".encode()).hexdigest()

    def result_in(self, transaction: Transaction, *, tenant: TenantId, now: Instant) -> str:
        """The result of the first call under the key, or of this one if it is the first.

        Raises IdempotencyConflict if the key was used for something else or with other arguments, and the errors of
        the call.
        """
        known = transaction.find_call(self._key, tenant=tenant)
        if known is None:
            result = self._run(transaction)
            transaction.save_call(self._key, Call(self._name, self._fingerprint, result), tenant=tenant, now=now)
            return result
        if known.fingerprint != self._fingerprint:
            raise IdempotencyConflict(
                f"the idempotency key {self._key!r} was used for {known.name} with other arguments; use a new key"
            )
        return known.result
