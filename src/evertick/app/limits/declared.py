"""Pools that are declared in code: `mail = app.pool("mail", running=5, retry=Retry(3))`.

At its start a worker writes the declarations to the database, as it does with crons. The declaration is stored next to
the limits, and written again only when it has changed. So a change at run time (`app.pools.set`) stays until then, and
the last change counts, whether in code or on the command line.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evertick.app.registry import nearest_names
from evertick.base.errors import RegistrationError
from evertick.base.ids import DEFAULT_POOL, check_pool
from evertick.base.options import UNCHANGED, Unchanged, check_options, some, stated
from evertick.base.records.jobs import IS_RETRY, RetryPolicy
from evertick.base.records.limits import NO_SETTINGS, NUMBERS, PoolLimits

if TYPE_CHECKING:
    from evertick.app.transacting import Work
    from evertick.store.transaction.transaction import Transaction


class Pool(str):
    """A pool that is declared in code. It is a string, its name, and can be used wherever a pool's name is expected."""

    limits: PoolLimits
    """Its limits, unless they are changed at run time."""
    retry: RetryPolicy | None
    """The retry policy of its actions, unless the action or its caller sets one."""

    def __new__(cls, name: str, limits: PoolLimits, retry: RetryPolicy | None = None) -> "Pool":
        """Raises Misuse for an invalid pool name, and for a retry that is not a policy."""
        check_pool(name)
        check_options({"retry": IS_RETRY}, some({"retry": retry}))
        pool = super().__new__(cls, name)
        pool.limits, pool.retry = limits, retry
        return pool


class DeclaredPools:
    """The pools of an app's code, by name."""

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}

    def add(self, pool: Pool, in_use: Iterable[str]) -> Pool:
        """Declare a pool. Raises RegistrationError if it is declared twice, or if it has a retry policy and functions
        that were registered before are in it.
        """
        if pool in self._pools:
            raise RegistrationError(f"the pool {str(pool)!r} is declared twice; declare it once, with all its limits")
        if pool.retry is not None and (functions := sorted(in_use)):
            raise RegistrationError(
                f"declare the pool {str(pool)!r} before the functions that use its retry: {functions[0]}"
            )
        self._pools[pool] = pool
        return pool

    def retry_of(self, name: str) -> RetryPolicy | None:
        """The default retry policy of the actions in a pool."""
        pool = self._pools.get(name)
        return None if pool is None else pool.retry

    def sync(self) -> "Work[Mapping[str, PoolLimits]] | None":
        """Work that writes changed declarations and returns the written limits; None if there are no declarations."""
        return self._sync if self._pools else None

    def warn(self, pools: Mapping[str, str]) -> None:
        """Log functions whose pool is not declared, but whose pool's name is similar to a declared one; `pools` has the
        pool of each function.
        """
        import difflib
        import logging  # a program that only registers functions does without

        for function, pool in pools.items():
            if pool in self._pools or pool == DEFAULT_POOL:
                continue
            if near := difflib.get_close_matches(pool, self._pools, n=3):
                logging.getLogger("evertick.engine").warning(
                    "%s is in the pool %s, which is not declared; did you mean %s?", function, pool, " or ".join(near)
                )

    def warn_of_empty(self, served: Iterable[str], in_use: Iterable[str]) -> None:
        """Log pools that a worker serves but that contain no function; their names may be misspelled."""
        import logging  # a program that only registers functions does without

        there = {DEFAULT_POOL, *self._pools, *in_use}
        for pool in served:
            if pool not in there:
                near = " or ".join(nearest_names(pool, sorted(there)))
                logging.getLogger("evertick.engine").warning(
                    "no function is in the pool %s, which this worker serves%s",
                    pool,
                    f"; did you mean {near}?" if near else "",
                )

    def log(self, written: Mapping[str, PoolLimits]) -> None:
        """Log the limits that were written."""
        import logging  # a program that only registers functions does without

        logger = logging.getLogger("evertick.engine")
        for name, limits in written.items():
            given = {each: value for each, value in asdict(limits).items() if value is not None and each in NUMBERS}
            words = ", ".join(f"{each}={value}" for each, value in given.items())
            logger.info("the pool %s is declared with %s", name, words or "no limits")

    def _sync(self, transaction: "Transaction") -> Mapping[str, PoolLimits]:
        settings = transaction.pool_use().settings
        written = {}
        for pool in self._pools.values():
            declaration = _declaration(pool.limits)
            known, declared = settings.get(pool, NO_SETTINGS)
            if declared == declaration:
                continue
            written[str(pool)] = replace(pool.limits, paused=known.paused, note=known.note)
            transaction.declare_pool(str(pool), written[str(pool)], declaration)
        return written


def origin_of(limits: PoolLimits, declared: str | None) -> str:
    """The origin of a pool's limits: "code", "changed", "set" or ""; see `PoolView`."""
    if declared is not None:
        return "code" if _declaration(limits) == declared else "changed"
    return "" if _declaration(limits) is None else "set"


def _declaration(limits: PoolLimits) -> str | None:
    """The limits as text for comparison; None if there are none, as if nothing was declared."""
    given = {name: getattr(limits, name) for name in NUMBERS}
    return json.dumps(given) if any(value is not None for value in given.values()) else None


# -- The limits of pools as programs give them.


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChanges:
    """The options of `app.pools.set`; None removes a limit."""

    name: str = field(kw_only=False)
    running: int | Unchanged | None = UNCHANGED
    per_tenant: int | Unchanged | None = UNCHANGED
    per_key: int | Unchanged | None = UNCHANGED
    starts_per_minute: int | Unchanged | None = UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDeclaration:
    """The options of `app.pool`; None means no limit."""

    name: str = field(kw_only=False)
    retry: RetryPolicy | None = None
    running: int | None = None
    per_tenant: int | None = None
    per_key: int | None = None
    starts_per_minute: int | None = None


def limits_of(given: PoolChanges | PoolDeclaration) -> dict[str, Any]:
    """The limits that are given, checked. Raises Misuse for a value that is not a number."""
    found = {name: value for name, value in stated(given).items() if name in NUMBERS}
    PoolLimits(**found)
    return found
