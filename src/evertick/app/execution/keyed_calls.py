"""Keyed calls: a mutation that is called under an idempotency key happens once.

The key is stored with the result, in the mutation's own transaction.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from evertick.app.functions.function import Mutation
from evertick.app.functions.options import check_key
from evertick.base.errors import IdempotencyConflict
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.calls import Call
from evertick.store.contract.store import Transaction


class KeyedCall:
    """A call of a mutation under a key; `run` runs it in a transaction.

    Raises Misuse for a key that is not text of 1 to 512 characters.
    """

    def __init__(self, key: str, function: Mutation[..., Any], encoded: str, run: Callable[[Transaction], Any]) -> None:
        check_key(key, what="an idempotency key")
        self._key = key
        self._function = function
        self._run = run
        self._fingerprint = hashlib.sha256(f"{function.name}\0{encoded}".encode()).hexdigest()

    def result_in(self, transaction: Transaction, *, tenant: TenantId, now: Instant) -> str:
        """The encoded result: of the first call under the key, or of this one if it is the first.

        Raises IdempotencyConflict if the key was used with another function or other arguments, and what the mutation
        raises.
        """
        known = transaction.find_call(self._key, tenant=tenant)
        if known is None:
            result = self._function.encode_result(self._run(transaction))
            transaction.save_call(
                self._key, Call(self._function.name, self._fingerprint, result), tenant=tenant, now=now
            )
            return result
        if known.fingerprint != self._fingerprint:
            raise IdempotencyConflict(
                f"the idempotency key {self._key!r} was used for {known.name} with other arguments; use a new key"
            )
        return known.result
