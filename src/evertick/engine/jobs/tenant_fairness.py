"""Tenant fairness: round robin over the tenants with due jobs, when there is not room or time for all of them.

A loop goes round the waiting tenants in the order of their names and remembers how far it came, so neither a tenant
with many old jobs nor one whose name comes first delays the others.

`RoundRobin` is a value. `look` is a pure function of it and of the pages it reads, and returns the next value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from evertick.base.ids import TenantId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import Claim
from evertick.store.contract.claims import NO_TENANT

PAGES_MAX: Final = 10
"""Pages of waiting tenants read in one look."""
LOOK_EVERY_MS: Final = 200
"""While one tenant's jobs fill every claim: time after which the loop looks for other waiting tenants."""

ReadPage = Callable[[TenantId], Sequence[tuple[TenantId, Instant]]]
"""Returns the waiting tenants beyond a name, in the order of names, and when the earliest job of each is due."""


class DueTenant(NamedTuple):
    """A tenant with due jobs, and when the earliest of them was due: earlier rows need not be read to claim them."""

    due_from: Instant
    tenant: TenantId


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """How far a loop has come in a round of the waiting tenants, and what it knows without looking."""

    page_size: int
    after: TenantId = NO_TENANT
    """The last tenant seen in this round; NO_TENANT before the first."""
    later_at: Instant | None = None
    """The earliest due time of the tenants seen in this round that had nothing due."""
    due_seen: bool = False
    """Whether an earlier look of this round found due jobs: some of them may be due still."""
    sole_tenant: TenantId | None = None
    """The only tenant that waited when last anyone waited, if it was one."""
    shortcut: DueTenant | None = None
    """From whom the next claim may take jobs without a look, because no other tenant waited lately.

    Unless the claims are full, two claims in a row never take it.
    """
    looked_at: Instant = LONG_AGO
    """When the last round was completed."""

    def after_shortcut(self, claims: Sequence[Claim], *, now: Instant, limit: int) -> "RoundRobin":
        """The state after a claim of `limit` jobs that took the shortcut: if it was full, the next may take it too."""
        if len(claims) == limit and 0 <= now - self.looked_at < LOOK_EVERY_MS:
            return replace(self, shortcut=DueTenant(claims[0].due_at, claims[0].tenant))
        return replace(self, shortcut=None)

    def _after_round(self, last_page: Sequence[tuple[TenantId, Instant]], seen: int, now: Instant) -> "RoundRobin":
        sole_tenant = self.sole_tenant  # where no tenant waits, the next job is probably of the same tenant
        if seen:
            sole_tenant = last_page[0][0] if seen == len(last_page) == 1 and not self.due_seen else None
        due_from = min(last_page[0][1], now) if last_page else now
        shortcut = None if sole_tenant is None else DueTenant(due_from, sole_tenant)
        return RoundRobin(self.page_size, sole_tenant=sole_tenant, shortcut=shortcut, looked_at=now)


class Look(NamedTuple):
    """Up to `limit` tenants with due jobs, the earliest due first, and the state after the look.

    `look_at` is when to look again if nothing is claimed; None if no tenant waits.
    """

    due: list[DueTenant]
    look_at: Instant | None
    state: RoundRobin


def look(state: RoundRobin, read_page: ReadPage, *, now: Instant, limit: int) -> Look:
    """Read pages until `limit` due tenants were found or the round is complete.

    With more than PAGES_MAX pages of waiting tenants a round takes several looks, one after another. A job that falls
    due behind the place it has reached is found in the next round.
    """
    due: list[DueTenant] = []
    after, later_at, seen = state.after, state.later_at, 0
    for _ in range(PAGES_MAX):
        page = read_page(after)
        seen += len(page)
        for tenant, due_at in page:
            if due_at > now:
                later_at = due_at if later_at is None else min(later_at, due_at)
            elif len(due) < limit:
                due.append(DueTenant(due_at, tenant))
            else:
                reached = replace(state, after=after, later_at=later_at, due_seen=True, shortcut=None)
                return Look(sorted(due), now, reached)
            after = tenant
        if len(page) < state.page_size:
            return Look(sorted(due), now if state.due_seen else later_at, state._after_round(page, seen, now))
    due_seen = state.due_seen or bool(due)
    return Look(sorted(due), now, replace(state, after=after, later_at=later_at, due_seen=due_seen, shortcut=None))
