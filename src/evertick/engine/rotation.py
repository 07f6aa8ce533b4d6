"""Rotation: whose turn it is, when more tenants have due jobs than there is room or time for.

A loop goes round the waiting tenants in the order of their names and remembers how far it came. So one who has been
waiting for long with many jobs, or whose name comes first, keeps nobody from his turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from evertick.base.ids import TenantId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records import Claim, FunctionKind
from evertick.store.contract import Transaction

PAGES_MAX: Final = 10
"""Pages of waiting tenants read in one look."""
LOOK_EVERY_MS: Final = 200
"""While one tenant's jobs fill every claim: time after which it is looked whether others wait as well."""
_NOBODY: Final = TenantId("")


@dataclass(slots=True)
class Rotation:
    """How far one loop came. `tenants` is the size of a page.

    A look reads pages until it has found as many due tenants as there is room for, or everybody was seen. With more
    than PAGES_MAX pages of waiting tenants a way round takes several looks, one after another; what falls due behind
    them is found at the next way round, at the latest when the loop looks by itself.
    """

    kind: FunctionKind
    tenants: int
    _after: TenantId = _NOBODY
    _later_at: Instant | None = None
    _again: bool = False
    _only: TenantId | None = None
    _guess: TenantId | None = None
    _guess_from: Instant = LONG_AGO
    _looked_at: Instant = LONG_AGO

    def guess(self) -> tuple[TenantId, Instant] | None:
        """Whose jobs may be claimed without a look, and from which due time on: nobody had others lately.

        Unless the claims are full, never twice in a row.
        """
        guess, self._guess = self._guess, None
        return None if guess is None else (guess, self._guess_from)

    def claimed(self, claims: Sequence[Claim], *, now: Instant, limit: int) -> None:
        """What a guess found. If there was as much as there was room for, the next may be a guess again."""
        if len(claims) == limit and 0 <= now - self._looked_at < LOOK_EVERY_MS:
            self._guess, self._guess_from = claims[0].tenant, claims[0].due_at

    def look(
        self, transaction: Transaction, *, now: Instant, limit: int
    ) -> tuple[list[tuple[Instant, TenantId]], Instant | None]:
        """Up to `limit` tenants with due jobs, the earliest due first; and when to look again, if nothing is claimed.

        The second is None where nobody waits.
        """
        due: list[tuple[Instant, TenantId]] = []
        again, self._again = self._again, True
        seen = 0
        for _ in range(PAGES_MAX):
            if self._after == _NOBODY:
                self._later_at = None
            page = transaction.waiting_tenants(self.kind, after=self._after, limit=self.tenants)
            seen += len(page)
            for tenant, due_at in page:
                if due_at <= now and len(due) == limit:
                    return sorted(due), now
                if due_at <= now:
                    due.append((due_at, tenant))
                elif self._later_at is None or due_at < self._later_at:
                    self._later_at = due_at
                self._after = tenant
            if len(page) < self.tenants:  # everybody was seen since the beginning, in this look or in those before
                if seen:
                    self._only = page[0][0] if seen == len(page) == 1 and not again else None
                self._guess_from = min(page[0][1], now) if page else now
                self._looked_at = now
                self._after, self._again, self._guess = _NOBODY, False, self._only
                return sorted(due), now if again else self._later_at
        self._again = again or bool(due)
        return sorted(due), now
