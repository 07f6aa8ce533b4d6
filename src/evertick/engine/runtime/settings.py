"""Settings: every size, limit and waiting time of the engine, by name."""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final

from evertick.base.errors import Misuse
from evertick.base.instants import MILLISECOND
from evertick.base.options import Rule, shown, whole

VALUE_MAX: Final = 1_000_000_000_000
"""More than any useful number, or duration in milliseconds (31 years)."""
AT_LEAST_ONE: Final = frozenset({"await_within", "batch", "action_threads", "poll", "prune_batch", "tenants"})
"""Settings that may not be 0, because nothing would run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the workers of an app work: `App("shop", settings=Settings(action_slots=200))`.

    The defaults suit one small machine. Durations are timedeltas, as `Settings(drain=timedelta(minutes=1))`, and are
    kept to the millisecond; all other values are whole numbers.

    Running mutations:

    - `batch` (256): mutations that share one commit. Lower it if a conflict between some of them repeats too much work.
    - `batch_time` (200 ms): a batch is committed early once its functions have taken this long. Lower it if short
      mutations wait for slow ones.
    - `mutation_cpu_limit` (1 s): processor time one query or mutation may use, unless its decorator has
      `cpu_limit=` or `timeout=`. Other load of the machine does not count.
    - `mutation_timeout` (10 s): time one query or mutation may take in all, unless its decorator has `timeout=`.
      A job that has used it up mostly by waiting (a lock, a sleep, a busy machine) is run again, three times in all.

    Running workflows:

    - `runs_in_memory` (1,000): workflow runs that a worker keeps in memory between their steps. Other runs are replayed
      from their journals before they continue, which takes longer the more steps they have. A run takes about 10 KB and
      the memory of its code. One that only sleeps for more than five minutes is not kept. With 0 none is.

    Running actions:

    - `action_slots` (64): concurrent actions of one worker. Raise it for actions that mostly wait for a network.
    - `action_threads` (16): threads for queries, mutations and plain `def` actions that `async` code awaits. Raise it
      if such calls wait for a free thread. Plain `def` actions that are jobs need none of them: each has its own.
    - `action_timeout` (10 minutes): time one action may take, unless its decorator has `timeout=`.
    - `await_within` (10 s): processor time that an `async def` action may use until its next `await`; it may take
      twice that long in all until then. Meanwhile it blocks the event loop, and its worker starts and ends no other
      action. An action that takes longer is interrupted and ends timed out. Raise it only if no health check restarts a
      worker whose event loop is blocked for so long.
    - `drain` (30 s): time that running actions have to end when the worker is asked to stop. Keep it below the time
      after which your service manager kills the process.

    Polling for work:

    - `poll` (5 s): longest time between two polls of the database. Notifications make workers prompt; this is the
      maximum delay of a job if one is lost. Raise it to reduce the load of many idle workers on a database. While
      actions run, a worker polls five times as often whether one of them was canceled.
    - `lease` (10 s): how long a worker counts as alive after its last heartbeat, which it sends three times as
      often. Jobs of a dead worker are given back after this time. Raise it if the network stalls for seconds. SQLite
      has no leases.
    - `tenants` (1,000): tenants that one round polls. Raise it if more of them have work at the same time.

    Schedules:

    - `evaluate_every` (1 minute): longest time between two polls of the schedules, whatever `poll` is.
    - `schedule_interval_min` (1 s): least time between two times of a schedule. A closer spec is refused.
    - `schedule_starts_per_minute` (60): most times a schedule may have in one minute. A denser spec is refused. Change
      both to allow or forbid schedules that run often.

    Keeping and removing:

    - `retention` (7 days): how long a job can be read after it ended. Lower it if many jobs fill the disk.
    - `ledger_retention` (90 days): how long an occurrence of a schedule can be read after it was decided.
    - `audit_retention` (365 days): how long the audit log of the HTTP API can be read.
    - `completed_retention` (7 days): how long a schedule that has ended stays, after its last start or change.
    - `prune_batch` (1,000): rows removed in one transaction.
    - `prune_every` (1 minute): time between two rounds that remove what is past its retention.

    Raises Misuse for a value of another type, below 0, or 0 where nothing would run (`await_within`, `batch`,
    `action_threads`, `poll`, `prune_batch`, `tenants`).
    """

    batch: int = 256
    batch_time: timedelta = timedelta(milliseconds=200)
    runs_in_memory: int = 1_000
    action_slots: int = 64
    action_threads: int = 16
    poll: timedelta = timedelta(seconds=5)
    lease: timedelta = timedelta(seconds=10)
    mutation_cpu_limit: timedelta = timedelta(seconds=1)
    mutation_timeout: timedelta = timedelta(seconds=10)
    action_timeout: timedelta = timedelta(minutes=10)
    await_within: timedelta = timedelta(seconds=10)
    drain: timedelta = timedelta(seconds=30)
    retention: timedelta = timedelta(days=7)
    ledger_retention: timedelta = timedelta(days=90)
    audit_retention: timedelta = timedelta(days=365)
    completed_retention: timedelta = timedelta(days=7)
    evaluate_every: timedelta = timedelta(minutes=1)
    prune_batch: int = 1_000
    prune_every: timedelta = timedelta(minutes=1)
    schedule_interval_min: timedelta = timedelta(seconds=1)
    schedule_starts_per_minute: int = 60
    tenants: int = 1_000

    def __post_init__(self) -> None:
        for field in fields(self):
            least, value = 1 if field.name in AT_LEAST_ONE else 0, getattr(self, field.name)
            rule = _duration(least) if isinstance(field.default, timedelta) else whole(least, VALUE_MAX)
            if not rule.fits(value):
                raise Misuse(f"Settings({field.name}=...) takes {rule.words}, not {shown(value)}")

    @property
    def renew_every_ms(self) -> int:
        """Time between two heartbeats."""
        return max(1, self.lease // MILLISECOND // 3)


def _duration(least_ms: int) -> Rule:
    """A duration of at least `least_ms`."""
    least, most = least_ms * MILLISECOND, VALUE_MAX * MILLISECOND
    return Rule(
        f"a timedelta from {least} to {most.days:,} days, such as timedelta(seconds=30)",
        lambda value: isinstance(value, timedelta) and least <= value <= most,
    )
