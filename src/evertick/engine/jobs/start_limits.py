"""Limits of tenants on what starts, as one claiming loop meets them.

A database whose tenants have no limits is asked whether that is still so (PostgreSQL once a second), and nothing else.
Where there are some, a look asks which of its tenants have any, and each claim for those locks their limits and counts
what runs.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, TypeVar

from evertick.base.ids import TenantId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import Claim
from evertick.base.records.tenants import StartLimit
from evertick.rules.jobs.start_limits import after_starts, next_start_at, starts_allowed
from evertick.store.contract.claims import Head, Suspect
from evertick.store.contract.store import Isolation, Transaction

ASK_EVERY_MS: Final = 1_000
"""Time between two questions whether any tenant has limits: so long a first limit may take to be heard of."""
LOOK_AGAIN_MS: Final = 100
"""While tenants are held back: time until the next look whether they still are."""

H = TypeVar("H", Head, Suspect)


class StartLimits:
    """Which tenants are limited, and how many of their jobs may start now."""

    def __init__(self, *, is_shared: bool) -> None:
        self._ask_every_ms = ASK_EVERY_MS if is_shared else 0
        self._any = False
        self._holds_locks = False
        self._asked_at = LONG_AGO
        self._limited: set[TenantId] = set()
        self._limits: dict[TenantId, StartLimit] = {}
        self._open: dict[TenantId, int] = {}

    def isolation(self, wanted: Isolation) -> Isolation:
        """How to claim: where limits must stay locked, not statement by statement. Ask before each claim."""
        isolation = Isolation.READ_COMMITTED if self._any and wanted is Isolation.EACH else wanted
        self._holds_locks = isolation is not Isolation.EACH
        return isolation

    def look(self, transaction: Transaction, heads: Sequence[Head], *, now: Instant) -> None:
        """With a look: learn which of the tenants of these heads are limited."""
        if not 0 <= now - self._asked_at < self._ask_every_ms:
            self._any, self._asked_at = transaction.any_tenant_limits(), now
        self._limited = self._limited_of(transaction, heads)

    def begin(self, transaction: Transaction, heads: Sequence[Head], *, now: Instant) -> None:
        """Before a claim behind heads that were looked at: lock the limits of their tenants, and count what runs."""
        limited = self._limited.intersection(head.tenant for head in heads) if self._limited else self._limited
        self._limits, self._open = self._allowed(transaction, limited, now)

    def begin_suspects(self, transaction: Transaction, suspects: Sequence[Suspect], *, now: Instant) -> None:
        """As `begin`, for suspects, which no look has seen."""
        self._limits, self._open = self._allowed(transaction, self._limited_of(transaction, suspects), now)

    @property
    def open(self) -> dict[TenantId, int]:
        """How many jobs of each limited tenant may still start in this claim."""
        return self._open

    def unheld(self, found: Sequence[H]) -> list[H]:
        """Those of tenants that may start a job."""
        return [each for each in found if self._open.get(each.tenant, 1) > 0] if self._open else list(found)

    def take(self, claims: Sequence[Claim]) -> None:
        """Jobs were claimed, and start."""
        for claim in claims if self._open else ():
            if claim.tenant in self._open:
                self._open[claim.tenant] -= 1

    def end(self, transaction: Transaction, claims: Sequence[Claim], *, now: Instant) -> None:
        """After a claim: note what it used."""
        if not self._limits:
            return
        for tenant, count in Counter(claim.tenant for claim in claims).items():
            limit = self._limits.get(tenant)
            if limit is not None and limit.per_minute is not None:
                transaction.use_starts(tenant, used_until_us=after_starts(limit, count, now=now))

    def hold_back(self, heads: Sequence[Head]) -> bool:
        """Whether limits, and nothing else, keep the jobs behind these heads from starting."""
        return bool(heads) and not self.unheld(heads)

    def look_again_at(self, *, now: Instant) -> Instant:
        """When a tenant that was held back may start a job again, as far as is known."""
        rates = [next_start_at(limit, now=now) for limit in self._limits.values() if limit.per_minute is not None]
        return min([at for at in rates if at is not None], default=Instant(now + LOOK_AGAIN_MS))

    def _limited_of(self, transaction: Transaction, found: Sequence[H]) -> set[TenantId]:
        return transaction.held_back_tenants({each.tenant for each in found}) if self._any and found else set()

    def _allowed(
        self, transaction: Transaction, limited: Collection[TenantId], now: Instant
    ) -> tuple[dict[TenantId, StartLimit], dict[TenantId, int]]:
        """The limits of tenants, and how many jobs of each may start."""
        if not limited:
            return {}, {}
        # Without a row, another worker claims for the tenant; and where no lock holds, the next claim will hold one.
        limits = transaction.start_limits(limited) if self._holds_locks else {}
        running = transaction.running_jobs(limits) if limits else {}
        allowed = dict.fromkeys(limited, 0)
        for tenant, limit in limits.items():
            count = starts_allowed(limit, running=running.get(tenant, 0), now=now)
            if count is None:
                del allowed[tenant]
            else:
                allowed[tenant] = count
        return limits, allowed
