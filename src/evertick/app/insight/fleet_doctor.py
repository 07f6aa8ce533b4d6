"""The doctor of a fleet: finds what keeps the workers of a database from running what is scheduled.

It reads only the database, and writes nothing. `evertick.app.doctor` examines the code before a deploy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from evertick.api.doctor import FleetCheck, FleetFinding, FleetReport
from evertick.api.schema import RowReading
from evertick.api.status import StatusView
from evertick.app.paging import unfinished_schedules
from evertick.app.schedules.definition import is_declared
from evertick.app.status import status_of
from evertick.base.clock import SystemClock, difference
from evertick.base.durations import length
from evertick.base.escaping import schedule_word, shell_word
from evertick.base.ids import TenantId
from evertick.base.instants import Instant, to_datetime, to_iso
from evertick.base.records.jobs import Serves, Worker
from evertick.base.suggested_commands import fix_of_unreadable, tenant_option
from evertick.rules.jobs.coverage import served
from evertick.store.addresses import servers_in
from evertick.store.records.schedule import Schedule
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure

SKEW_MAX_MS: Final = 1_000
"""The engine treats a larger difference of clocks as a jump."""
LAG_MAX_MS: Final = 60_000
SCHEDULES_MAX: Final = 20_000
"""Active schedules that are examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Facts from outside the transaction: how far the database's clock is ahead of this machine's, how many servers its
    address has, and why the database cannot be written (None if it can).
    """

    clock_ahead_ms: int = 0
    servers: int = 1
    write_failure: WriteFailure | None = None

    @classmethod
    def of(cls, store: Store) -> Self:
        """The facts about an open database. Raises Unavailable."""
        return cls(
            clock_ahead_ms=difference(SystemClock(), store.database_now).ahead_ms,
            servers=servers_in(store.url),
            write_failure=store.write_failure(thorough=True),
        )


def examine_fleet(transaction: Transaction, tenant: TenantId | None, now: Instant, around: Surroundings) -> FleetReport:
    """What keeps workers from running the scheduled work of a tenant; None means all tenants that have work."""
    status = status_of(transaction, tenant, now)
    known = transaction.list_workers()
    alive = transaction.workers_alive(now, among=known)
    serves = served(alive)
    unfinished = list(islice(unfinished_schedules(transaction, status.tenants), SCHEDULES_MAX + 1))
    active = [row for row in unfinished[:SCHEDULES_MAX] if row.status == "active"]
    findings = [
        *_writing(around.write_failure, now),
        *_clock(around.clock_ahead_ms),
        *_copies(transaction, around.servers),
        *_zone_data(alive),
        *_workers(alive, known, status, active),
        *_lag(status),
        *_unserved(status, serves),
        *_stuck(status),
        *_unreadable(status),
        *_missed(status),
        *_schedules(active, serves),
    ]
    return FleetReport(
        at=to_datetime(now),
        tenants=status.tenants,
        workers=len(alive),
        clock_ahead_ms=around.clock_ahead_ms,
        complete=status.complete and len(unfinished) <= SCHEDULES_MAX,
        findings=tuple(findings),
    )


def _writing(failure: WriteFailure | None, now: Instant) -> Iterator[FleetFinding]:
    if failure is not None:
        detail = f"{failure.sentence(now)}. The last error: {failure.detail}"
        fix = "free space on its disk, or give this program write permission; workers then continue by themselves"
        yield _finding(FleetCheck.WRITES, "writes", detail, fix)


def _clock(ahead_ms: int) -> Iterator[FleetFinding]:
    if abs(ahead_ms) > SKEW_MAX_MS:
        where = "behind" if ahead_ms > 0 else "ahead of"
        detail = f"this machine's clock is {length(abs(ahead_ms))} {where} the database's, whose time counts"
        yield _finding(FleetCheck.CLOCK, "clock", detail, "let NTP set the clocks of both machines")


def _copies(transaction: Transaction, servers: int) -> Iterator[FleetFinding]:
    if servers > 1 and not transaction.waits_for_copies():
        detail = (
            f"the address names {servers} servers, and commits do not wait for a standby: a failover loses the last "
            "commits, and actions that had begun can run again"
        )
        fix = "set synchronous_standby_names to the standby, and synchronous_commit neither to off nor to local"
        yield _finding(FleetCheck.COPIES, "copies", detail, fix)


def _zone_data(alive: Sequence[Worker]) -> Iterator[FleetFinding]:
    versions: dict[str, list[str]] = {}
    for worker in alive:
        versions.setdefault(worker.zone_data or "unknown", []).append(f"{worker.host}:{worker.pid}")
    if len(versions) > 1:
        found = "; ".join(f"{version} on {', '.join(hosts[:5])}" for version, hosts in sorted(versions.items()))
        detail = f"live workers have different time zone data and may compute different times: {found}"
        yield _finding(FleetCheck.ZONE_DATA, "zone data", detail, "install the same version of tzdata on all workers")


def _workers(
    alive: Sequence[Worker], known: Sequence[Worker], status: StatusView, schedules: Sequence[Schedule]
) -> Iterator[FleetFinding]:
    if not alive and (status.queues or schedules):
        detail = "no worker is alive, so scheduled work does not run"
        yield _finding(FleetCheck.WORKERS, "workers", detail, "start one: evertick worker")
    living = {worker.id for worker in alive}
    for worker in known:
        reading = RowReading()
        reading.value("serves", worker.serves)
        if reading.problems:
            detail = f"what the worker {worker.host}:{worker.pid} serves cannot be read ({reading.problems[0]})"
            fix = "upgrade this program to the release of the worker, or restart the worker, which rewrites its row"
            yield _finding(FleetCheck.ROWS, worker.id, detail, fix)
        if worker.id not in living:
            detail = f"the worker {worker.host}:{worker.pid} is dead: its lease ended at {to_iso(worker.leased_until)}"
            fix = (
                "a live worker releases its jobs within seconds; if it stays, that one cannot reach the database"
                if alive
                else "start a worker, which releases its jobs: evertick worker"
            )
            yield _finding(FleetCheck.WORKERS, worker.id, detail, fix)


def _lag(status: StatusView) -> Iterator[FleetFinding]:
    if status.lag_ms > LAG_MAX_MS:
        detail = f"the oldest due job that a live worker could run waits for {length(status.lag_ms)}"
        fix = "see `evertick status` and `evertick pool list`; then add workers or raise a limit"
        yield _finding(FleetCheck.LAG, "lag", detail, fix)


def _unserved(status: StatusView, serves: Sequence[Serves]) -> Iterator[FleetFinding]:
    """Due jobs that no live worker runs, because none serves their pool or has their function."""
    elsewhere = {function.name for each in serves for function in each.functions}
    for queue in status.queues:
        if not queue.blocked:
            continue
        jobs = f"{queue.blocked:,} due job{'' if queue.blocked == 1 else 's'} of {queue.function}"
        if queue.function in elsewhere:
            detail = f"{jobs} wait in the pool {queue.pool!r}, which no live worker serves"
            fix = f"start a worker for it: evertick worker --pool {queue.pool}"
            yield _finding(FleetCheck.POOLS, queue.pool, detail, fix, queue.tenant)
        else:
            detail = f"{jobs} wait, but no live worker has this function"
            cancel = f"evertick job cancel-all --function {shell_word(queue.function)}{tenant_option(queue.tenant)}"
            fix = f"deploy code that has it, or: {cancel}"
            yield _finding(FleetCheck.FUNCTIONS, queue.function, detail, fix, queue.tenant)


def _stuck(status: StatusView) -> Iterator[FleetFinding]:
    """Runs that cannot continue."""
    for each in status.stuck:
        runs = "1 run cannot" if each.count == 1 else f"{each.count:,} runs cannot"
        whose = tenant_option(each.tenant)
        fix = f"inspect the oldest: evertick workflow get {each.job_id}{whose}; deploy matching code, or restart it"
        if each.error.startswith("QuotaExceeded"):
            fix = (
                f"wait until other jobs have ended, or raise the limits: evertick tenant set {shell_word(each.tenant)}"
            )
        yield _finding(FleetCheck.RUNS, each.function, f"{runs} continue: {each.error}", fix, each.tenant)


def _unreadable(status: StatusView) -> Iterator[FleetFinding]:
    for each in status.unreadable:
        detail = f"the schedule cannot be read, so it does not run: {each.why}"
        fix = fix_of_unreadable(each.schedule, each.tenant)
        yield _finding(FleetCheck.ROWS, each.schedule, detail, fix, each.tenant)


def _missed(status: StatusView) -> Iterator[FleetFinding]:
    for each in status.missed:
        times = "1 of its times was" if each.times == 1 else f"{each.times:,} of its times were"
        word, whose = schedule_word(each.schedule), tenant_option(each.tenant)
        fix = f"evertick schedule backfill {word} --start-time now-30d --only-missed --overlap-policy BufferAll{whose}"
        yield _finding(FleetCheck.MISSED, each.schedule, f"{times} found missed in the last 24 hours", fix, each.tenant)


def _schedules(rows: Sequence[Schedule], serves: Sequence[Serves]) -> Iterator[FleetFinding]:
    functions = {function.name for each in serves for function in each.functions}
    for row in rows:
        if row.unreadable:
            continue
        if row.spec.value.has_sources and row.next_at is None:
            detail = "it is active but has no future times"
            fix = (
                f"give it other times, or: evertick schedule delete {schedule_word(row.id)}{tenant_option(row.tenant)}"
            )
            yield _finding(FleetCheck.TIMES, row.id, detail, fix, row.tenant)
        if serves and row.function not in functions:
            detail = f"it calls {row.function}, which no live worker has"
            fix = "deploy code that has it"
            if not is_declared(row):
                update = f"evertick schedule update {schedule_word(row.id)} --function NAME{tenant_option(row.tenant)}"
                fix += f", or: {update}"
            yield _finding(FleetCheck.FUNCTIONS, row.id, detail, fix, row.tenant)


def _finding(check: FleetCheck, name: str, detail: str, fix: str, tenant: TenantId | None = None) -> FleetFinding:
    return FleetFinding(check=check, tenant=tenant, name=name, detail=detail, fix=fix)
