"""Forms that come twice: the second gets the reply of the first.

That holds for a minute, in which people press a button again. What must not happen twice, ever, has the form's key in
the API besides (`Caller.once`); this is for all others, whose second reply would be that there is nothing left to do.
"""

import json
from contextlib import suppress
from typing import Final

from evertick.base.errors import EvertickError
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import MINUTE_MS
from evertick.base.records.calls import Call
from evertick.server.callers import Caller
from evertick.server.problems import Problem
from evertick.store.contract.store import Transaction

KIND: Final = "form"


class SentBefore(Problem):
    """The form was carried out before: `to` is where that led, with `said`."""

    def __init__(self, to: str, said: str) -> None:
        super().__init__(409, "sent_before", "this form was sent before, and was carried out then")
        self.to = to
        self.said = said


async def check_new(caller: Caller) -> None:
    """Raise SentBefore if the same form was carried out a moment ago."""
    key, tenant, e = _key(caller), caller.tenant or DEFAULT_TENANT, caller.app.environment
    known = await e.executors.read(lambda transaction: transaction.find_call(key, tenant=tenant))
    if known is not None:
        at, to, said = json.loads(known.result)
        if e.clock.now() - at < MINUTE_MS:
            raise SentBefore(to, said)


async def keep_reply(caller: Caller, to: str, said: str) -> None:
    """Note that a form was carried out, and where that led."""
    key, tenant, e = _key(caller), caller.tenant or DEFAULT_TENANT, caller.app.environment
    now = e.clock.now()
    call = Call(KIND, key, json.dumps([now, to, said]))

    def work(transaction: Transaction) -> None:
        if transaction.find_call(key, tenant=tenant) is None:
            transaction.save_call(key, call, tenant=tenant, now=now)

    with suppress(EvertickError):  # what the form asked for is done, whatever becomes of this
        await e.executors.write(work)


def _key(caller: Caller) -> str:
    return f"{KIND} {caller.key}"
