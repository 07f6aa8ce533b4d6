"""`app.pools`: what each pool may run, and what it has to do.

    app.pools.set("mail", running=5, starts_per_minute=600)
    app.pools.pause("mail", "the mail server is down")
    app.pools.delete("old-mail")
    print(app.pools.get("mail").ready)

Limits are kept in the database, so they hold for all workers. A first limit is heard of within a second. Apps on the
same tables share the limits of pools of one name.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from evertick.api.limits import PoolView
from evertick.app.limits.declared import PoolChanges, limits_of, origin_of
from evertick.app.operations import Awaited, Blocking, reads, writes
from evertick.app.transacting import Work
from evertick.base.errors import Conflict, LimitExceeded, NotFound
from evertick.base.ids import DEFAULT_POOL, JobId, TenantId, check_pool, pool_name
from evertick.base.instants import Instant, to_datetime_or_none
from evertick.base.options import TEXT, check_options, takes
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.limits import NO_LIMITS, NO_SETTINGS, PoolLimits, PoolUse, StartLimit
from evertick.base.records.stored import storable
from evertick.rules.jobs.coverage import served
from evertick.rules.jobs.start_limits import next_start_at
from evertick.rules.schedules.state import cut
from evertick.store.transaction.transaction import Transaction

# -- Why jobs that are due wait: the limits of their pools, in words.


class PoolRoom:
    """What keeps further jobs of each pool from starting at a moment."""

    def __init__(self, use: PoolUse, now: Instant) -> None:
        self._use, self._now = use, now
        self._by_pool, self._by_tenant = Counter[str](), Counter[tuple[str, TenantId]]()
        for (pool, tenant, _), count in use.running.items():
            self._by_pool[pool] += count
            self._by_tenant[pool, tenant] += count

    def held(self, pool: str, tenant: TenantId | None = None, key: str | None = None) -> str | None:
        """What holds back the due jobs of a pool, such as "waits: pool 'mail' is paused: why"; None if nothing does.

        With a tenant, and with the limit key of a job, what holds back those jobs alone is said, too.
        """
        limits = self._limits(pool)
        if limits.paused:
            return f"waits: pool {pool!r} is paused{f': {limits.note}' if limits.note else ''}"
        places = [(limits.running, self._by_pool[pool], "")]
        if tenant is not None:
            places.append((limits.per_tenant, self._by_tenant[pool, tenant], f" for the tenant {tenant!r}"))
        if tenant is not None and key is not None:
            running = self._use.running.get((pool, tenant, key), 0)
            places.append((limits.per_key, running, f" for the key {key!r}"))
        for most, running, whose in places:
            if most is not None and running >= most:
                return f"waits: pool {pool!r} runs {running:,} of {most:,}{whose}"
        if self._rate_is_used(pool, limits):
            return f"waits: pool {pool!r} starts {limits.starts_per_minute:,} a minute"
        return None

    def holds_back(self, pool: str) -> bool:
        """Whether due jobs of a pool wait by plan: it is paused, or its rate is used; no worker starts them sooner.

        Also between two starts of a rate that is used to the full, where the next job may start at once.
        """
        limits = self._limits(pool)
        spread = limits.starts_per_minute is not None and self._use.used_until_us.get(pool, 0) > self._now * 1_000
        return limits.paused or spread

    def _limits(self, pool: str) -> PoolLimits:
        return self._use.settings[pool].limits if pool in self._use.settings else NO_LIMITS

    def _rate_is_used(self, pool: str, limits: PoolLimits) -> bool:
        rate = StartLimit(None, limits.starts_per_minute, self._use.used_until_us.get(pool, 0))
        return next_start_at(rate, now=self._now) is not None


def pool_waits(transaction: Transaction, jobs: Iterable[Job], now: Instant) -> dict[JobId, str]:
    """Which of the jobs are due and held back by their pools, and by what: "waits: pool 'mail' runs 3 of 3"."""
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    if not due:
        return {}
    room = PoolRoom(transaction.pool_use(), now)
    held = {job.id: room.held(pool_name(job.pool), job.tenant, job.limit_key) for job in due}
    return {job_id: words for job_id, words in held.items() if words is not None}


LIMITED_MAX: Final = 1_000
"""Pools that may have limits: all of them are read when a worker looks whether there are any."""
READY_MAX: Final = 10_000
"""Ready jobs of one function in a pool that are counted."""


@dataclass(slots=True, eq=False, repr=False)
class PoolOperations:
    """What may be done with pools, as work for a transaction."""

    _now: Callable[[], Instant]

    @reads
    def get(self, name: str) -> Work[PoolView]:
        """A pool's limits, and what it has to do. Raises Misuse for what cannot be the name of a pool.

        A pool needs no creation: one of which nothing is known has no limits and nothing to do.
        """
        check_pool(name)
        return lambda transaction: _views(transaction, self._now(), [name])[0]

    @reads
    def list(self) -> Work[list[PoolView]]:
        """All pools with limits, with jobs that run or are due, or with functions on a live worker, by name."""
        return lambda transaction: _views(transaction, self._now())

    @writes
    @takes(PoolChanges, "a pool")
    def set(self, changes: PoolChanges) -> Work[PoolView]:
        """Change some of a pool's limits; None removes one, and those that are not given stay.

        - `running`: jobs that run at a time, on all workers together.
        - `per_tenant`: jobs of one tenant that run at a time in the pool.
        - `per_key`: jobs of one key (`using(limit_key=...)`) of a tenant that run at a time in the pool. Jobs without a
          key are not limited by it.
        - `starts_per_minute`: attempts that start in a minute, evenly spread; a tenth of them may start at once.

        Jobs wait until they may start, those of tenants that run least first. Returns the pool as it is then.

        Raises Misuse for an unknown limit, a value that is no number or what cannot be the name of a pool;
        LimitExceeded for the 1,001st pool with limits.
        """
        return self._changed(changes.name, limits_of(changes))

    @writes
    def pause(self, name: str, note: str = "") -> Work[PoolView]:
        """Let no job of a pool start, and say why; what runs goes on. Its limits stay.

            app.pools.pause("mail", "the mail server is down")

        One that is paused already keeps its reason unless another is given. Raises as `set`, and Misuse for a note
        that is no text.
        """
        check_options({"note": TEXT}, {"note": note})
        return self._changed(name, {"paused": True, **({"note": cut(storable(note))} if note else {})})

    @writes
    def resume(self, name: str) -> Work[PoolView]:
        """Let the jobs of a paused pool start again. Raises as `set`."""
        return self._changed(name, {"paused": False, "note": ""})

    @writes
    def delete(self, name: str, *, force: bool = False) -> Work[PoolView]:
        """Delete a pool's settings: its limits, its pause, and what code has declared for it; returns it as it is then.

        Jobs and functions keep their pool, which has no limits any more. Refused while a live worker has functions in
        it or jobs of it run or are due, unless with `force`; jobs that are due later are not looked at. A pool that
        code declares has its settings again when a worker of that code starts.

        Raises NotFound if it has no settings, Conflict, Misuse for what cannot be the name of a pool.
        """
        check_pool(name)

        def work(transaction: Transaction) -> PoolView:
            if name not in transaction.pool_use().settings:
                raise NotFound(f"the pool {name!r} has no settings; `evertick pool list` shows what pools have")
            if not force and (use := _use_of(transaction, name, self._now())):
                raise Conflict(
                    f"the pool {name!r} is in use: {'; '.join(use)}. To remove limits alone: `evertick pool set {name} "
                    f"--running none`; to delete its settings all the same: `evertick pool delete {name} --force`"
                )
            transaction.declare_pool(name, NO_LIMITS, None)
            return _views(transaction, self._now(), [name])[0]

        return work

    def _changed(self, name: str, changes: dict[str, Any]) -> Work[PoolView]:
        check_pool(name)
        replace(NO_LIMITS, **changes)  # what can never be stored is refused before the transaction

        def work(transaction: Transaction) -> PoolView:
            known = transaction.pool_limits()
            if name not in known and len(known) >= LIMITED_MAX:
                raise LimitExceeded(f"{LIMITED_MAX:,} pools have limits already; remove those of another one")
            transaction.save_pool_limits(name, replace(known.get(name, NO_LIMITS), **changes))
            return _views(transaction, self._now(), [name])[0]

        return work


class Pools(Blocking[PoolOperations], PoolOperations):
    """`app.pools`: each call is a transaction of its own."""


class AsyncPools(Awaited[PoolOperations], PoolOperations):
    """`app.aio.pools`: as `Pools`, and every call is awaited."""


def _use_of(transaction: Transaction, name: str, now: Instant) -> list[str]:
    """What uses a pool at `now`, in words."""
    [view] = _views(transaction, now, [name])
    functions = {
        function.name
        for each in served(transaction.workers_alive(now))
        for function in each.functions
        if pool_name(function.pool) == name
    }
    found = {
        f"{view.running:,} of its jobs run": view.running,
        f"{view.ready:,} of its jobs are due and wait": view.ready,
        f"a live worker has {', '.join(sorted(functions)[:3])} in it": functions,
    }
    return [words for words, is_so in found.items() if is_so]


def _views(transaction: Transaction, now: Instant, names: Iterable[str] | None = None) -> list[PoolView]:
    """The pools of these names, or all that are known."""
    use = transaction.pool_use(every=True)
    settings, room = use.settings, PoolRoom(use, now)
    ready = transaction.ready_in_pools(limit=READY_MAX)
    if names is None:
        serves = served(transaction.list_workers())
        of_code = {pool_name(function.pool) for each in serves for function in each.functions}
        names = sorted({DEFAULT_POOL, *settings, *ready, *of_code})
    running = Counter[str]()
    for (pool, _, _), count in use.running.items():
        running[pool] += count
    found = []
    for name in names:
        limits, declared = settings.get(name, NO_SETTINGS)
        waits = ready.get(name)
        found.append(
            PoolView(
                pool=name,
                limits=limits,
                limits_from=origin_of(limits, declared),
                running=running[name],
                ready=waits.jobs if waits else 0,
                held=room.held(name) if waits else None,
                oldest=to_datetime_or_none(waits.oldest if waits else None),
            )
        )
    return found
