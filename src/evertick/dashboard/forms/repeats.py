"""Forms that come twice: the second gets the reply of the first.

That holds for a minute, in which people press a button again. What must not happen twice, ever, has the form's key in
the API besides (`Caller.once`); this is for all others, whose second reply would be that there is nothing left to do.
"""

import json
from typing import Final

from evertick.app.transacting import Work
from evertick.base.ids import TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.jobs import Call
from evertick.server.problems import Problem
from evertick.store.transaction.transaction import Transaction

KIND: Final = "form"


class SentBefore(Problem):
    """The form was carried out before: `to` is where that led, with `said`."""

    def __init__(self, to: str, said: str) -> None:
        super().__init__(409, "sent_before", "this form was sent before, and was carried out then")
        self.to = to
        self.said = said


def checked_new(key: str, tenant: TenantId, now: Instant) -> Work[None]:
    """Raises SentBefore if the same form was carried out a moment ago."""

    def work(transaction: Transaction) -> None:
        known = transaction.find_call(f"{KIND} {key}", tenant=tenant)
        if known is not None:
            at, to, said = json.loads(known.result)
            if now - at < MINUTE_MS:
                raise SentBefore(to, said)

    return work


def kept_reply(key: str, tenant: TenantId, now: Instant, to: str, said: str) -> Work[None]:
    """Notes that a form was carried out, and where that led."""
    key = f"{KIND} {key}"

    def work(transaction: Transaction) -> None:
        if transaction.find_call(key, tenant=tenant) is None:
            transaction.save_call(key, Call(KIND, key, json.dumps([now, to, said])), tenant=tenant, now=now)

    return work
