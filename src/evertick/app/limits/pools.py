"""`app.pools`: the limits of each pool, and its jobs.

    app.pools.set("mail", running=5, starts_per_minute=600)
    app.pools.pause("mail", "the mail server is down")
    app.pools.delete("old-mail")
    print(app.pools.get("mail").ready)

Limits are stored in the database, so they apply to all workers. Workers notice the first limit within a second. Apps on
the same tables share the limits of pools with the same name.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from evertick.api.limits import PoolView
from evertick.app.limits.declared import PoolChanges, limits_of, origin_of
from evertick.app.operations import Awaited, Blocking, Endpoint, reads, writes
from evertick.app.transacting import Work
from evertick.base.errors import Conflict, LimitExceeded, NotFound
from evertick.base.ids import DEFAULT_POOL, JobId, TenantId, check_pool, pool_name
from evertick.base.instants import Instant, to_datetime_or_none
from evertick.base.options import TEXT, check_options, takes
from evertick.base.records.access import Scope
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.limits import NO_LIMITS, NO_SETTINGS, PoolLimits, PoolUse, StartLimit
from evertick.base.records.stored import storable
from evertick.rules.jobs.coverage import served
from evertick.rules.jobs.start_limits import next_start_at
from evertick.rules.schedules.state import cut
from evertick.store.transaction.transaction import Transaction

# -- Why due jobs wait: the limits of their pools, as text.


class PoolRoom:
    """The limits that keep further jobs of each pool from starting at an instant."""

    def __init__(self, use: PoolUse, now: Instant) -> None:
        self._use, self._now = use, now
        self._by_pool, self._by_tenant = Counter[str](), Counter[tuple[str, TenantId]]()
        for (pool, tenant, _), count in use.running.items():
            self._by_pool[pool] += count
            self._by_tenant[pool, tenant] += count

    def held(self, pool: str, tenant: TenantId | None = None, key: str | None = None) -> str | None:
        """Why due jobs of a pool wait, such as "waits: pool 'mail' is paused: why"; None if they can start.

        With a tenant, and with the limit key of a job, the limits that apply only to those jobs are checked, too.
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
        """Whether due jobs of a pool wait on purpose: it is paused, or its rate is used up. More workers do not help.

        Also true between two starts of a fully used rate, when the next job may start at once.
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
    """The due jobs that their pools hold back, with the reason: "waits: pool 'mail' runs 3 of 3"."""
    due = [job for job in jobs if job.state is JobState.PENDING and job.due_at <= now]
    if not due:
        return {}
    room = PoolRoom(transaction.pool_use(), now)
    held = {job.id: room.held(pool_name(job.pool), job.tenant, job.limit_key) for job in due}
    return {job_id: words for job_id, words in held.items() if words is not None}


O_co = TypeVar("O_co", covariant=True)

LIMITED_MAX: Final = 1_000
"""Pools that may have limits. Workers read all of them when they check for limits."""
READY_MAX: Final = 10_000
"""Ready jobs that are counted for each function in a pool."""


@dataclass(slots=True, eq=False, repr=False)
class PoolOperations:
    """Operations on pools. Each method returns work for a transaction."""

    noun: ClassVar[str] = "pool"
    _now: Callable[[], Instant]

    @reads(Endpoint("GET", "/pools/{name}", Scope.READ))
    def get(self, name: str) -> Work[PoolView]:
        """A pool's limits and its jobs. Raises Misuse for an invalid pool name.

        Pools need not be created: an unknown pool has no limits and no jobs.
        """
        check_pool(name)
        return lambda transaction: _views(transaction, self._now(), [name])[0]

    @reads(Endpoint("GET", "/pools", Scope.READ, operation_id="list_pools"))
    def list(self) -> Work[list[PoolView]]:
        """All pools with limits, with jobs that run or are due, or with functions on a live worker, by name."""
        return lambda transaction: _views(transaction, self._now())

    @writes(Endpoint("PATCH", "/pools/{name}", Scope.ADMIN, operation_id="change_pool", body_name="PoolChange"))
    @takes(PoolChanges, "a pool")
    def set(self, changes: PoolChanges) -> Work[PoolView]:
        """Change some of a pool's limits; None removes one, and those that are not given stay.

        - `running`: concurrent jobs on all workers together.
        - `per_tenant`: concurrent jobs of one tenant in the pool.
        - `per_key`: concurrent jobs of one key (`using(limit_key=...)`) of a tenant in the pool. It does not apply to
          jobs without a key.
        - `starts_per_minute`: attempts that start in a minute, evenly spread; a tenth of them may start at once.

        Jobs wait until they may start; those of the tenant with the fewest running jobs start first. Returns the pool
        after the change. Raises Misuse for an unknown limit, a value that is not a number, or an invalid pool name;
        LimitExceeded for the 1,001st pool with limits.
        """
        return self._changed(changes.name, limits_of(changes))

    @writes(Endpoint("POST", "/pools/{name}/pause", Scope.ADMIN, body_name="PoolPause"))
    def pause(self, name: str, note: str = "") -> Work[PoolView]:
        """Prevent jobs of a pool from starting, and store the reason; running jobs continue. Its limits stay.

            app.pools.pause("mail", "the mail server is down")

        A pool that is already paused keeps its reason unless another is given. Raises the errors of `set`, and Misuse
        for a note that is not text.
        """
        check_options({"note": TEXT}, {"note": note})
        return self._changed(name, {"paused": True, **({"note": cut(storable(note))} if note else {})})

    @writes(Endpoint("POST", "/pools/{name}/resume", Scope.ADMIN))
    def resume(self, name: str) -> Work[PoolView]:
        """Let the jobs of a paused pool start again. Raises the errors of `set`."""
        return self._changed(name, {"paused": False, "note": ""})

    @writes(Endpoint("DELETE", "/pools/{name}", Scope.ADMIN))
    def delete(self, name: str, *, force: bool = False) -> Work[PoolView]:
        """Delete a pool's settings: its limits, its pause, and the declaration from code. Returns the pool afterwards.

        Jobs and functions keep their pool, which then has no limits. Refused while a live worker has functions in it or
        jobs of it run or are due, unless `force` is set; jobs that are due later do not matter. If code declares the
        pool, its settings return when a worker of that code starts.

        Raises NotFound if it has no settings, Conflict, Misuse for an invalid pool name.
        """
        check_pool(name)

        def work(transaction: Transaction) -> PoolView:
            if name not in transaction.pool_use().settings:
                raise NotFound(f"the pool {name!r} has no settings; `evertick pool list` lists pools")
            if not force and (use := _use_of(transaction, name, self._now())):
                raise Conflict(
                    f"the pool {name!r} is in use: {'; '.join(use)}. To remove only limits: `evertick pool set {name} "
                    f"--running none`; to delete its settings anyway: `evertick pool delete {name} --force`"
                )
            transaction.declare_pool(name, NO_LIMITS, None)
            return _views(transaction, self._now(), [name])[0]

        return work

    def _changed(self, name: str, changes: dict[str, Any]) -> Work[PoolView]:
        check_pool(name)
        replace(NO_LIMITS, **changes)  # refuse invalid values before the transaction

        def work(transaction: Transaction) -> PoolView:
            known = transaction.pool_limits()
            if name not in known and len(known) >= LIMITED_MAX:
                raise LimitExceeded(f"{LIMITED_MAX:,} pools already have limits; remove those of another pool first")
            transaction.save_pool_limits(name, replace(known.get(name, NO_LIMITS), **changes))
            return _views(transaction, self._now(), [name])[0]

        return work


class AnyPools(Blocking[O_co], PoolOperations):
    """The operations that `app.pools` and `client.pools` share."""


class AnyAsyncPools(Awaited[O_co], PoolOperations):
    """Like `AnyPools`, but every call is awaited."""


class Pools(AnyPools[PoolOperations]):
    """Reads, changes and pauses pools (`app.pools`). Each call is its own transaction."""


class AsyncPools(AnyAsyncPools[PoolOperations]):
    """`app.aio.pools`: like `Pools`, but every call is awaited."""


def _use_of(transaction: Transaction, name: str, now: Instant) -> list[str]:
    """What uses a pool at `now`, as text."""
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
    """The pools with these names, or all known pools if it is None."""
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
