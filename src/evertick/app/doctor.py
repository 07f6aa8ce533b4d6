"""The doctor: checks whether scheduled work matches the code that is about to be deployed.

It compares pending jobs, schedules and crons with the functions of an app. Those of other apps that share the database
are ignored. Nothing is written.
"""

import json
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from evertick.api.doctor import DoctorReport, Finding, Problem
from evertick.api.workflows import RunHistory, WorkflowTypeView
from evertick.app.crons import KIND as CRON
from evertick.app.functions.function import Function, Workflow
from evertick.app.paging import TENANTS_MAX, all_schedules, whole_jobs
from evertick.app.schedules.definition import is_declared
from evertick.app.workflows.replaying import replayed_end
from evertick.base.clock import SystemClock
from evertick.base.errors import (
    EvertickError,
    FunctionNotFound,
    InvalidArguments,
    RegistrationError,
    ReplayMismatch,
    SchemaMismatch,
)
from evertick.base.escaping import schedule_word, shell_word
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import Instant, to_iso
from evertick.base.records.jobs import OWN_FUNCTIONS, FunctionKind, Job, JobFilter, JobState, belongs_to
from evertick.base.records.schedules import ScheduleFilter
from evertick.base.records.workflows import STEP, WorkflowStatus
from evertick.base.suggested_commands import fix_of_unreadable, tenant_option
from evertick.base.time_limit import FunctionTimeout, Limit, TimeLimits
from evertick.engine.schedules.times import times_of
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.rules.schedules.metadata import CODE
from evertick.rules.schedules.state import OCCURRENCES_PER_ROUND
from evertick.store.records.schedule import Schedule
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.app import App

FILE_DEFAULT: Final = "app.py"
JOBS_MAX: Final = 100_000
"""Pending jobs of a tenant that are examined."""
RUNS_REPLAYED_MAX: Final = 10_000
"""Runs of a tenant that are replayed with the code."""
RUNS_AT_A_TIME: Final = 50
REPLAYS_S: Final = 5.0
"""Seconds for the replays of one tenant: half of the limit of a read."""
ALL_REPLAYS_S: Final = 60.0
"""Seconds for the replays of all tenants."""
CODE_LIMIT: Final = Limit(wall_s=60.0, cpu_s=5.0)
"""The limit for the code of a workflow between two events."""
IDS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _Complaint:
    """A problem of a call."""

    function: str
    problem: Problem
    detail: str
    renamed: str = ""
    """`--rename old=new`, if the arguments would match after that."""
    has_begun: bool = False
    """Whether it is the call of runs that have begun and keep their arguments."""
    schedule: str = ""
    """The schedule or cron that started the jobs, empty if none did."""
    step: str = ""
    """The step of a run where the code makes another call, quoted for a command; empty if there is none."""


@dataclass(slots=True)
class _Group:
    """Jobs, schedules or crons with the same complaint."""

    count: int = 0
    ids: list[str] = field(default_factory=list)
    times: list[Instant] = field(default_factory=list)
    """The nominal times of jobs that are runs of a schedule."""

    def add(self, name: str, *times: Instant) -> None:
        """Add one to the group."""
        self.count += 1
        self.times += times
        if len(self.ids) < IDS_SHOWN:
            self.ids.append(name)


@dataclass(slots=True)
class _Examined:
    """The result for one tenant."""

    findings: list[Finding]
    jobs: int
    complete: bool
    kinds: Counter[str] = field(default_factory=Counter)
    """The number of schedules and of crons."""
    declared: set[str] = field(default_factory=set)
    """The crons that this app's code has declared before."""


def examine(app: "App", store: Store, tenant: TenantId | None, file: str = FILE_DEFAULT) -> DoctorReport:
    """Compare pending jobs, schedules and crons of a tenant, or of all that have work, with the code of an app.

    Each tenant is a separate read, so the number of tenants is not limited. `file` is the app's file, for commands.
    """
    tenants = _tenants(store) if tenant is None else (tenant,)
    now_declared, declared = {cron.name for cron in app.crons.declared}, set[str]()
    kinds: Counter[str] = Counter()
    findings: list[Finding] = []
    jobs, complete, last = 0, True, time.monotonic() + ALL_REPLAYS_S
    for each in tenants:
        found = store.view(partial(_of_tenant, app, file, each, last))
        findings += found.findings
        jobs += found.jobs
        kinds += found.kinds
        declared |= found.declared
        complete = complete and found.complete
    findings += _of_declared_crons(app)
    return DoctorReport(
        app=app.name,
        tenants=tenants,
        jobs=jobs,
        schedules=kinds["schedule"],
        crons=kinds["cron"],
        complete=complete,
        findings=tuple(findings),
        inactive=tuple(store.view(lambda transaction: list(_inactive(app, transaction)))),
        crons_added=tuple(sorted(now_declared - declared)) if DEFAULT_TENANT in tenants else (),
        crons_deleted=tuple(sorted(declared - now_declared)),
    )


def _tenants(store: Store) -> tuple[TenantId, ...]:
    """The tenant `default`, and all tenants with unfinished jobs, failed jobs or schedules."""
    found: list[TenantId] = []

    def page(transaction: Transaction) -> list[TenantId]:
        return transaction.tenants_at_work(limit=TENANTS_MAX, after=found[-1] if found else None)

    while len(following := store.view(page)) == TENANTS_MAX:
        found += following
    return tuple(sorted({DEFAULT_TENANT, *found, *following}))


def _of_tenant(app: "App", file: str, tenant: TenantId, last: float, transaction: Transaction) -> _Examined:
    """The problems of a tenant's scheduled work; no run is replayed after `last`."""
    until = min(time.monotonic() + REPLAYS_S, last)
    examined = _Examined(*_of_jobs(app, file, transaction, tenant, limit=JOBS_MAX, until=until))
    groups: dict[tuple[str, _Complaint], _Group] = {}
    now_declared = {cron.name for cron in app.crons.declared}
    for row in all_schedules(transaction, ScheduleFilter(tenant=tenant)):
        if not _is_of_another(app, row):
            examined.kinds[row.kind] += 1
            if is_declared(row) and row.kind == CRON:
                examined.declared.add(row.id)
                if row.id not in now_declared:
                    examined.findings += _of_deleted_cron(transaction, row)
                    continue
            if (complaint := _of_schedule(app, row)) is not None:
                groups.setdefault((row.kind, complaint), _Group()).add(row.id)
    examined.findings += [_finding_of_schedules(app, tenant, *which, group) for which, group in groups.items()]
    return examined


def _inactive(app: "App", transaction: Transaction) -> Iterator[WorkflowTypeView]:
    names = {function.name for function in app.functions if function.kind is FunctionKind.WORKFLOW}
    for name, given in transaction.workflow_types(names).items() if names else ():
        if given.status is not WorkflowStatus.ACTIVE:
            yield WorkflowTypeView.of(name, given)


def _of_deleted_cron(transaction: Transaction, row: Schedule) -> Iterator[Finding]:
    """The times that are lost with a cron that the code no longer declares: waiting ones, and those of an outage."""
    if row.unreadable or row.state.pause is not None:
        return
    [row], now = transaction.with_open_runs([row]), SystemClock().now()
    due, _ = times_of(row).due(row.state.seen_until, Instant(now - LATE_AFTER_MS), OCCURRENCES_PER_ROUND)
    times = [*(each.nominal_at for each in row.state.waiting), *(each.nominal_at for each in due)]
    if times:
        detail = (
            f"the code no longer declares the cron {row.id!r}, so a worker deletes it, and {len(times):,} of its times "
            "that have not started will not run"
        )
        fix = f"declare it again, or, if it has a new name, run them then: {_backfill('NAME', times, DEFAULT_TENANT)}"
        complaint = _Complaint(row.function, Problem.REMOVED, detail)
        yield _finding("cron", row.tenant, complaint, _Group(1, [row.id]), fix)


def _backfill(word: str, times: Sequence[Instant], tenant: TenantId) -> str:
    return (
        f"evertick schedule backfill {word} --start-time {to_iso(min(times))} --end-time {to_iso(max(times))} "
        f"--overlap-policy BufferAll{tenant_option(tenant)}"
    )


def _of_jobs(
    app: "App", file: str, transaction: Transaction, tenant: TenantId, *, limit: int, until: float
) -> tuple[list[Finding], int, bool]:
    """The problems of a tenant's pending jobs, their number, and whether all of them and their runs were examined."""
    groups: dict[_Complaint, _Group] = {}
    read, jobs, runs = 0, 0, list[Job]()

    def note(complaint: _Complaint, job: Job) -> None:
        times = () if job.schedule is None or not complaint.schedule else (job.schedule.value.nominal_at,)
        groups.setdefault(complaint, _Group()).add(job.id, *times)

    where = JobFilter(tenant=tenant, states=(JobState.PENDING,))
    for job in whole_jobs(transaction, where, limit=limit):
        read += 1
        if not belongs_to(job.pool, _apps(app)):
            continue
        jobs += 1
        complaints = list(_of_job(app, job))
        if _has_begun(job) and not complaints:
            runs.append(job)
        for complaint in complaints:
            note(complaint, job)
    replayed = 0
    while replayed < min(len(runs), RUNS_REPLAYED_MAX) and time.monotonic() < until:
        for job, complaint in _of_runs(app, transaction, runs[replayed : replayed + RUNS_AT_A_TIME]):
            note(complaint, job)
        replayed += RUNS_AT_A_TIME
    findings = [_finding_of_jobs(app, file, tenant, complaint, group) for complaint, group in groups.items()]
    return findings, jobs, replayed >= len(runs) and read < limit


def _has_begun(job: Job) -> bool:
    return job.kind is FunctionKind.WORKFLOW and job.attempt > 0


def _of_runs(app: "App", transaction: Transaction, jobs: Sequence[Job]) -> Iterator[tuple[Job, _Complaint]]:
    """The differences between the code and what these runs have done; only the workflow's code runs."""
    records = transaction.get_runs([job.id for job in jobs])
    journals = transaction.load_journals([(each.id, each.generation) for each in records.values()])
    for job in jobs:
        workflow = app.functions.resolve(job.name)
        if job.id not in records or not isinstance(workflow, Workflow):
            continue
        try:
            history = RunHistory.of(job, records[job.id], journals.get(job.id, []))
            replayed_end(workflow, history, partial(TimeLimits().call, CODE_LIMIT))
        except ReplayMismatch as error:
            # Without the run and the row, so that equal differences of several runs are one finding.
            difference = str(error).partition(": ")[2].partition("; deploy code")[0]
            row = next((each for each in history.events if each.position == error.position), None)
            step = "" if row is None or not row.step else str(row.step)
            yield job, _Complaint(job.name, Problem.JOURNAL, difference, step=step)
        except (EvertickError, FunctionTimeout) as error:
            yield job, _Complaint(job.name, Problem.JOURNAL, str(error))


def _of_declared_crons(app: "App") -> Iterator[Finding]:
    """The problems of the crons that the code declares; they belong to the tenant `default`."""
    for cron in app.crons.declared:
        try:
            cron.call(app.functions)
        except (RegistrationError, FunctionNotFound, InvalidArguments) as error:
            name = cron.function if isinstance(cron.function, str) else cron.function.name
            fix = f"correct app.crons.add({cron.name!r}, ...)"
            complaint = _Complaint(name, Problem.INVALID, str(error))
            yield _finding("cron", DEFAULT_TENANT, complaint, _Group(1, [cron.name]), fix)


def _of_job(app: "App", job: Job) -> Iterator[_Complaint]:
    """The problems of a job: of its own call, and of its `on_complete` function."""
    complaint = _of_call(app, job.name, job.args)
    try:
        if complaint is not None:
            schedule = "" if job.schedule is None else job.schedule.value.id
            yield replace(complaint, has_begun=_has_begun(job), schedule=schedule)
        completion = None if job.on_complete is None else job.on_complete.value
        callback = None if completion is None or completion.kind == STEP else completion.name
    except SchemaMismatch as error:
        yield _Complaint(job.name, Problem.UNREADABLE, str(error))
        return
    complaint = None if callback is None else _of_call(app, callback, None)
    if complaint is not None:
        yield _Complaint(
            complaint.function, complaint.problem, f"{complaint.detail}; it is the on_complete of {job.name}"
        )


def _apps(app: "App") -> tuple[str, ...]:
    return app.name, *app.aliases


def _is_of_another(app: "App", row: Schedule) -> bool:
    """Whether a schedule or cron belongs to another app that shares the database."""
    known = row.with_defaults()
    whose = known.target.app or known.metadata.app
    return whose is not None and whose not in _apps(app)


def _of_schedule(app: "App", row: Schedule) -> _Complaint | None:
    """The problem of a schedule, None if there is none. Crons of this app's code are updated when it is deployed."""
    if row.status == "completed":
        return None
    if why := row.why_unreadable:
        return _Complaint(row.function, Problem.UNREADABLE, why)
    return None if row.metadata.source == CODE else _of_call(app, row.target.name, row.target.args)


def _finding_of_schedules(app: "App", tenant: TenantId, kind: str, complaint: _Complaint, group: _Group) -> Finding:
    whose, first = tenant_option(tenant), schedule_word(group.ids[0])
    chosen = shell_word(f"function:{shlex.quote(complaint.function)}")
    match complaint.problem:
        case Problem.ARGUMENTS:
            present = app.functions.resolve(complaint.function).name  # which may have been an alias
            name = f" --function {shell_word(present)}"
            if complaint.renamed:
                renamed = "" if present == complaint.function else name
                fix = f"evertick schedule update --query {chosen} {complaint.renamed}{renamed}{whose}"
            else:
                fix = f"evertick schedule update {first}{name} --input JSON{whose}"
        case Problem.UNREADABLE:
            fix = fix_of_unreadable(group.ids[0], tenant)
            if any(cron.name == group.ids[0] for cron in app.crons.declared):
                fix = "start a worker with this code, which declares it and writes it again"
        case _:
            update = f"evertick schedule update --query {chosen} --function NAME{whose}"
            fix = f"{_alias(app, complaint)}{update}, or delete {'it' if group.count == 1 else 'them'}"
    return _finding(kind, tenant, complaint, group, fix)


def _of_call(app: "App", name: str, args: str | None) -> _Complaint | None:
    """The problem of a call; None if it matches. Without `args` only the name is checked."""
    try:
        function = app.functions.resolve(name)
    except FunctionNotFound as error:
        return _Complaint(name, Problem.REMOVED, str(error))
    if function.kind is FunctionKind.QUERY:
        return _Complaint(name, Problem.NOT_CALLABLE, f"{function.name} is a query now, which is never a job")
    try:
        if args is not None:
            function.decode_args(args)
    except InvalidArguments as error:
        return _Complaint(name, Problem.ARGUMENTS, str(error), _renamed(args or "{}", function))
    return None


def _renamed(args: str, function: Function[..., Any]) -> str:
    """`--rename old=new`, if there are as many unknown arguments as parameters without one (or required ones)."""
    given, parameters = json.loads(args), function.parameter_names
    unknown = [name for name in given if name not in parameters]
    needed = [name for name in function.argument_schema["required"] if name not in given]
    without = needed or [name for name in parameters if name not in given]
    pairs = zip(unknown, without, strict=True) if len(unknown) == len(without) else ()
    return " ".join(f"--rename {shell_word(f'{old}={new}')}" for old, new in pairs)


def _finding_of_jobs(app: "App", file: str, tenant: TenantId, complaint: _Complaint, group: _Group) -> Finding:
    whose, first, name = tenant_option(tenant), group.ids[0], shell_word(complaint.function)
    cancel, pending = f"evertick job cancel-all --function {name}{whose}", f"--function {name} --state pending"
    match complaint.problem:
        case Problem.ARGUMENTS | Problem.REMOVED | Problem.NOT_CALLABLE if (
            complaint.schedule and not complaint.has_begun
        ):
            schedule = schedule_word(complaint.schedule)
            detail = f"{complaint.detail}; it is a run of {complaint.schedule!r}, whose schedule has passed later times"
            complaint = replace(complaint, detail=detail)
            cancel = f"evertick job cancel-all --schedule {schedule}{whose}"
            again = _backfill(schedule, group.times, tenant)
            fix = f"{_alias(app, complaint)}{cancel}, and after the deploy {again}"
        case Problem.ARGUMENTS if complaint.has_begun:
            fix = "these runs have begun: keep the parameters that they have, and give new parameters a default"
        case Problem.ARGUMENTS if complaint.renamed:
            fix = f"evertick job retry {pending} {complaint.renamed} --app {shell_word(file)}{whose}"
        case Problem.ARGUMENTS if group.count > 1:
            fix = f"evertick job retry {pending} --set NAME=VALUE --app {shell_word(file)}{whose}, or: {cancel}"
        case Problem.ARGUMENTS:
            fix = f"evertick job retry {first} --args JSON{whose}, or: evertick job cancel {first}{whose}"
        case Problem.JOURNAL:
            chosen = first if group.count == 1 else f"--workflow {name} --state pending"
            restart = f"evertick workflow restart {chosen}{complaint.step and f' --step {complaint.step}'}{whose}"
            fix = f"keep the old path next to the new one with step.patched(...), or: {restart}"
        case Problem.UNREADABLE:
            fix = "deploy the release that wrote them first"
        case _:
            fix = f"{_alias(app, complaint)}{cancel}"
    return _finding("job", tenant, complaint, group, fix)


def _finding(what: str, tenant: TenantId, complaint: _Complaint, group: _Group, fix: str) -> Finding:
    return Finding(
        what=what,
        tenant=tenant,
        function=complaint.function,
        problem=complaint.problem,
        detail=complaint.detail,
        count=group.count,
        ids=tuple(group.ids),
        fix=fix,
    )


def _alias(app: "App", complaint: _Complaint) -> str:
    """The fix for a function that may have been renamed; empty for other problems."""
    if complaint.problem is not Problem.REMOVED:
        return ""
    if complaint.function in OWN_FUNCTIONS:
        part = complaint.function.removeprefix("evertick.")
        return f"use app.{part}s in the code of the app, or: "
    near = app.functions.nearest(complaint.function)
    name = near[0] if near else "the renamed function"
    return f"give {name} aliases=[{complaint.function!r}], or: "
