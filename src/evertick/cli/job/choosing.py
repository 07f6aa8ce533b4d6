"""What commands that choose jobs by filters share: the filters, moments, and names that must not be misspelt."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

import click

from evertick.app.functions.options import check_pool
from evertick.app.functions_by_name import require_seen
from evertick.app.scheduling.choice import JobsWhere, jobs_where
from evertick.base.errors import ScheduleNotFound
from evertick.base.escaping import printable
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime
from evertick.base.records.jobs import JobFilter, JobState
from evertick.cli.core.databases import chosen_tenant, now_of
from evertick.cli.core.flags import flag
from evertick.cli.schedule.spec_flags import parse_when
from evertick.recurrence.zones.names import zone_named
from evertick.store.contract.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class JobFilters:
    """Which jobs are meant."""

    function: str | None = flag("--function", metavar="NAME", help="Jobs of this function, such as app.destruct.")
    schedule: str | None = flag("--schedule", metavar="ID", help="Jobs that this schedule has started.")
    key: str | None = flag("--key", metavar="KEY", help="Jobs that were scheduled with this key.")
    pool: str | None = flag("--pool", metavar="NAME", help="Jobs of this pool.")
    limit_key: str | None = flag("--limit-key", metavar="KEY", help="Jobs with this limit key.")
    error: str | None = flag("--error", metavar="TEXT", help="Jobs whose error says this, such as TimeoutError.")
    blocked: bool = flag("--blocked", default=False, help="Due jobs that no live worker runs.")
    since: str | None = flag("--since", metavar="TIME", help="Jobs due at this time or later, such as now-1h.")
    until: str | None = flag("--until", metavar="TIME", help="Jobs due before this time.")

    @property
    def is_given(self) -> bool:
        """Whether any of them is."""
        texts = (self.function, self.schedule, self.key, self.pool, self.limit_key, self.error, self.since, self.until)
        return self.blocked or any(each is not None for each in texts)

    def words(self, jobs: str) -> str:
        """These jobs, in a few words."""
        of = f" of {printable(self.function)}" if self.function else ""
        return f"{jobs}{of}{' that the filters choose' if replace(self, function=None).is_given else ''}"

    def where(self, store: Store, states: tuple[JobState, ...]) -> JobFilter:
        """The filter for the store, of jobs in these states. Raises InvalidSpec, UsageError."""
        now = now_of(store)
        return jobs_where(chosen_tenant(), now=now, **self.chosen_at(now, states))

    def chosen_at(self, now: Instant, states: tuple[JobState, ...]) -> JobsWhere:
        """The filters as `app.jobs.list` and `client.jobs.list` take them. Raises InvalidSpec, UsageError."""
        if self.pool is not None:
            check_pool(self.pool)
        if self.error == "":
            raise click.UsageError("--error takes a text that is not empty")
        if self.blocked and states and JobState.PENDING not in states:
            raise click.UsageError("--blocked: only pending jobs can be blocked")
        given: dict[str, Any] = {
            "function": self.function, "schedule": self.schedule, "key": self.key, "error": self.error,
            "due_from": moment_at(now, self.since, "--since"), "due_until": moment_at(now, self.until, "--until"),
            "pool": self.pool, "limit_key": self.limit_key, "blocked": self.blocked or None,
            "state": (JobState.PENDING,) if self.blocked else states or None,
        }  # fmt: skip
        return cast("JobsWhere", {name: value for name, value in given.items() if value is not None})


def moment_of(store: Store, text: str | None, what: str) -> Instant | None:
    """The moment that `text` names, given as the flag `what`; None for none. Raises InvalidSpec."""
    found = moment_at(now_of(store), text, what)
    return None if found is None else from_datetime(found)


def moment_at(now: Instant, text: str | None, what: str) -> datetime | None:
    """As `moment_of`, where it is `now`."""
    if text is None:
        return None
    return to_datetime(Instant(parse_when(text, zone_named("UTC"), what, now // SECOND_MS) * SECOND_MS))


def require_known(store: Store, where: JobFilter) -> None:
    """No job was found: raise FunctionNotFound, ScheduleNotFound if the function or the schedule was never seen."""
    if where.name is not None:
        store.view(partial(require_seen, name=where.name, tenant=where.tenant))
    if where.schedule_id is not None:
        store.view(partial(_require_schedule, where=where))


def _require_schedule(transaction: Transaction, where: JobFilter) -> None:
    wanted, whole = where.schedule_id, JobFilter(tenant=where.tenant, schedule_id=where.schedule_id)
    assert wanted is not None  # noqa: S101
    if transaction.get_schedule(wanted, tenant=where.tenant) is None and not transaction.list_jobs(whole, limit=1):
        raise ScheduleNotFound(f"no schedule {wanted!r}; list them with `evertick schedule list`")
