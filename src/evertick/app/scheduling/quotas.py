"""Quotas: how many unfinished jobs a tenant may have, how large their arguments may be together, how many schedules.

They concern what a tenant's programs and functions schedule. What schedules start and what follows a job's end counts,
but is never refused; jobs that run do not count for what jobs schedule. Two transactions at a time may each find room:
a quota can be exceeded by what they write.
"""

from collections.abc import Sequence
from typing import Final

from evertick.base.errors import QuotaExceeded
from evertick.base.ids import TenantId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import JobState, NewJob
from evertick.base.records.stored import size_of
from evertick.store.transaction.transaction import Transaction

ASK_EVERY_MS: Final = 1_000
"""Time between two questions whether any tenant has limits: so long a first limit may take to be heard of."""


class Quotas:
    """Refuses what exceeds the quotas of a tenant. Where no tenant has limits, that is asked once a second at most."""

    def __init__(self) -> None:
        self._any = True
        self._asked_at = LONG_AGO

    def forget(self) -> None:
        """Ask again: limits were changed here."""
        self._any = True

    def may_refuse(self, now: Instant) -> bool:
        """Whether a check must ask the database: unless it was seen just now that no tenant has limits."""
        return self._any or not 0 <= now - self._asked_at < ASK_EVERY_MS

    def check(self, transaction: Transaction, jobs: Sequence[NewJob], *, now: Instant) -> None:
        """Raise QuotaExceeded if a tenant has no room for more jobs, which are all its."""
        jobs = [job for job in jobs if job.state is JobState.PENDING]
        if not jobs or not self._are_any(transaction, now):
            return
        tenant = jobs[0].tenant
        limits = transaction.get_tenant_limits(tenant)
        if limits.jobs is not None:
            used = transaction.unfinished_jobs(tenant)
            if jobs[0].parent_id is not None and used + len(jobs) > limits.jobs:
                # A job that schedules what follows it is about to end. If it and those beside it counted, a tenant at
                # its limit would lose jobs that it has already: their functions would fail with QuotaExceeded.
                used -= transaction.running_jobs([tenant])[tenant]
            _refuse_beyond(limits.jobs, used, len(jobs), tenant, "unfinished jobs", "jobs")
        if limits.argument_bytes is not None:
            size, more = transaction.argument_bytes(tenant), sum(size_of(job.args) for job in jobs)
            _refuse_beyond(
                limits.argument_bytes, size, more, tenant, "bytes of arguments of unfinished jobs", "argument_bytes"
            )

    def check_schedule(self, transaction: Transaction, tenant: TenantId, *, now: Instant) -> None:
        """Raise QuotaExceeded if a tenant may not have one more schedule."""
        if not self._are_any(transaction, now):
            return
        limit = transaction.get_tenant_limits(tenant).schedules
        if limit is not None:
            _refuse_beyond(limit, transaction.count_schedules(tenant, limit=limit), 1, tenant, "schedules", "schedules")

    def _are_any(self, transaction: Transaction, now: Instant) -> bool:
        """Whether a tenant has limits, as far as is known."""
        if self.may_refuse(now):
            self._any, self._asked_at = transaction.any_tenant_limits(), now
        return self._any


def _refuse_beyond(limit: int, used: int, more: int, tenant: TenantId, what: str, name: str) -> None:
    if used + more > limit:
        raise QuotaExceeded(
            f"tenant {tenant} has {used:,} {what} and is given {more:,} more; its limit is {limit:,}: wait, remove "
            f"some, or raise the limit (app.tenants.set, evertick tenant set --{name.replace('_', '-')})"
        )
