"""`app.crons`: schedules declared in code, and crons that functions register at run time.

    app.crons.add("clear messages table", every(minutes=1), clear_all)
    app.crons.using(retry=Retry(3)).add("payment reminder", monthly(day=1, hour=16), send_email, email="me@example.org")

A declared cron is a schedule like any other, whose definition is the code: when a worker starts, crons that are new are
added, changed ones updated and those no longer declared deleted, each with a line in the log and in the schedule's
history; what did not change keeps its next run, its state and its history. At most one run of a cron is open at a time
(overlap `skip`), and after an outage the latest missed time runs (catch-up `latest`), unless `using` says otherwise.

An interval is counted from the moment the cron was first deployed, which is also its first run.
"""

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, ParamSpec, Self, TypedDict, Unpack, cast

from evertick.app.contexts import MutationCtx, QueryCtx, SyncActionCtx
from evertick.app.functions import Function, FunctionCall
from evertick.app.options import Retry
from evertick.app.schedule_definition import Defining, Definition, define, schedule_id_of
from evertick.app.schedule_memo import CODE, RUN_TIME, Memo
from evertick.app.schedule_operations import ScheduleOperations
from evertick.app.schedule_reading import PAGE_MAX, Work
from evertick.app.schedule_specs import When, anchored, check_spec, union
from evertick.app.schedule_update import difference
from evertick.app.schedule_views import ScheduleDescription, ScheduleSummary, summary
from evertick.app.schedules import ScheduleReader, Schedules
from evertick.base.errors import AlreadyExists, EvertickError, Misuse, RegistrationError, ScheduleNotFound
from evertick.base.ids import ScheduleId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records import JobState
from evertick.base.schedule_records import ScheduleFilter, ScheduleRow
from evertick.engine import schedule_requests as requests
from evertick.engine.finish import cancel
from evertick.rules.lifecycle import cut
from evertick.rules.recurrence import Spec
from evertick.rules.recurrence.describe import describe as say
from evertick.rules.recurrence.writing import canonical
from evertick.rules.schedule import CatchUp, Overlap
from evertick.rules.state_text import from_text, to_text
from evertick.store.contract import Transaction

P = ParamSpec("P")

_logger: Final = logging.getLogger("evertick.schedules")

KIND: Final = "cron"


class CronOptions(TypedDict, total=False):
    """What `using` may say, in the words of `schedules.create`."""

    overlap: Overlap | str
    concurrency_limit: int
    catch_up: CatchUp | str
    catch_up_window: float | timedelta | None
    pause_on_failure: bool
    buffer_limit: int
    retry: Retry | None
    pool: str | None
    note: str


@dataclass(frozen=True)
class Cron:
    """A cron as it stands in the code."""

    name: str
    when: Spec
    function: Function[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: CronOptions

    @property
    def sentence(self) -> str:
        """Its times in words."""
        return say(self.when)

    @cached_property
    def call(self) -> FunctionCall:
        """The call; its arguments are checked on first use, when all annotations can be resolved."""
        return FunctionCall(self.function, self.function.encode_args(self.args, self.kwargs))


@dataclass(frozen=True, slots=True, kw_only=True)
class CronChanges:
    """What a synchronisation did, by name."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


class Crons:
    """The crons of an app."""

    def __init__(self, app_name: str) -> None:
        self._app_name = app_name
        self._declared: dict[str, Cron] = {}
        self._options: CronOptions = {}

    def using(self, **options: Unpack[CronOptions]) -> Self:
        """The same crons, with options for those that are added or registered through what this answers."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._options = {**self._options, **options}
        return copy

    # -- in code

    def add(self, name: str, when: When, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Declare a cron: a name, its times, and the call of a mutation or an action.

        Raises RegistrationError for a name that is taken or not of printable ASCII characters, InvalidSpec.
        """
        cron = self._cron(name, when, function, args, kwargs)
        if name in self._declared:
            raise RegistrationError(f"Cron identifier registered twice: {name}")
        self._declared[name] = cron

    @property
    def declared(self) -> tuple[Cron, ...]:
        """The crons of this app's code, in the order of their declaration."""
        return tuple(self._declared.values())

    def sync(self, operations: ScheduleOperations) -> Work[CronChanges]:
        """Make the schedules in the database what the code declares; only crons of this app are touched.

        Raises RegistrationError if a cron cannot work, or its name is that of another schedule.
        """
        by_code = replace(operations, actor=f"code of {self._app_name}")
        definitions = {cron.name: self._definition(operations, cron) for cron in self.declared}

        def work(transaction: Transaction) -> CronChanges:
            now = operations.now()
            done: dict[str, list[str]] = {"added": [], "updated": [], "deleted": [], "unchanged": []}
            for cron in self.declared:
                word = self._sync_one(by_code, transaction, cron, definitions[cron.name], now)
                done[word].append(cron.name)
            for row in self._deployed(by_code, transaction):
                if row.id not in self._declared:
                    requests.delete(transaction, row.id, by_code.by(now))
                    done["deleted"].append(row.id)
            return CronChanges(**{word: tuple(names) for word, names in done.items()})

        return work

    def log(self, changes: CronChanges) -> None:
        """Say what a synchronisation did."""
        for word in ("added", "updated", "deleted"):
            for name in getattr(changes, word):
                cron = self._declared.get(name)
                times = f": {cron.sentence}" if cron is not None else ""
                _logger.info("cron %s: %s%s", word, name, times, extra={"schedule_id": name, "change": word})

    # -- at run time

    def register(
        self,
        ctx: MutationCtx | SyncActionCtx,
        name: str,
        when: When,
        function: Function[P, Any],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ScheduleId:
        """Register a cron from a function, with its transaction. An interval runs first when it has passed once.

        Raises AlreadyExists if the name is taken, InvalidSpec, LimitExceeded, InvalidArguments.
        """
        schedules = _changing(ctx)
        operations = schedules.operations
        cron = self._cron(name, when, function, args, kwargs)

        def work(transaction: Transaction) -> ScheduleId:
            taken = transaction.get_schedule(ScheduleId(name), tenant=operations.tenant)
            if taken is not None:
                raise AlreadyExists(f"a {taken.kind} with the name {name!r} exists already")
            now = operations.now()
            definition = _define(operations, cron)
            check_spec(definition.spec, now, operations.settings)
            memo = Memo(source=RUN_TIME, app=self._app_name)
            spec = anchored(definition.spec, now)
            definition = replace(definition, spec=spec)
            note = cron.options.get("note", "")
            row = operations.new_row(ScheduleId(name), definition, memo, now, kind=KIND, note=note)
            requests.create(transaction, row, [], operations.by(now), detail=cron.sentence)
            return row.id

        return schedules.do(work)

    def list(self, ctx: QueryCtx | SyncActionCtx, /) -> "tuple[ScheduleSummary, ...]":
        """The crons that were registered at run time, by name."""
        schedules = _of(ctx)
        where = ScheduleFilter(tenant=schedules.operations.tenant, kind=KIND)
        rows = schedules.ask(lambda transaction: _all(transaction, where))
        return tuple(summary(row) for row in rows if _is_registered(row))

    def get(self, ctx: QueryCtx | SyncActionCtx, name: str, /) -> ScheduleDescription | None:
        """A cron that was registered at run time, or None."""
        schedules = _of(ctx)

        def question(transaction: Transaction) -> ScheduleDescription | None:
            row = transaction.get_schedule(ScheduleId(name), tenant=schedules.operations.tenant)
            return schedules.operations.described(transaction, row) if row and _is_registered(row) else None

        return schedules.ask(question)

    def delete(self, ctx: MutationCtx | SyncActionCtx, name: str, /) -> None:
        """Remove a cron that was registered at run time; its name is free again. A run that has not begun is canceled.

        Raises ScheduleNotFound if there is none, Misuse for one that is declared in code.
        """
        schedules = _changing(ctx)
        operations = schedules.operations

        def work(transaction: Transaction) -> None:
            row = transaction.lock_schedule(ScheduleId(name), tenant=operations.tenant)
            if row is None or row.kind != KIND:
                raise ScheduleNotFound(f"no cron {name!r} is registered")
            if not _is_registered(row):
                raise Misuse(f"the cron {name!r} is declared in code; remove it there")
            now = operations.now()
            _cancel_pending(operations, transaction, row, now)
            requests.delete(transaction, row.id, operations.by(now))

        schedules.do(work)

    # -- helpers

    def _cron(
        self, name: str, when: When, function: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Cron:
        if not isinstance(name, str) or not name.strip() or not all(" " <= each <= "~" for each in name):
            raise RegistrationError(f"a cron's name is made of printable ASCII characters, not {name!r}")
        if not isinstance(function, Function):
            raise RegistrationError(f"cron {name!r}: {function!r} is no function of an app; decorate it")
        return Cron(schedule_id_of(name), union(when), function, args, kwargs, self._options)

    def _definition(self, operations: ScheduleOperations, cron: Cron) -> Definition:
        """What a declared cron is to be. Raises RegistrationError, naming it."""
        try:
            definition = _define(operations, cron)
            check_spec(definition.spec, operations.now(), operations.settings, may_have_ended=True)
        except EvertickError as error:
            raise RegistrationError(f"cron {cron.name!r}: {error}") from error
        return definition

    def _sync_one(
        self,
        operations: ScheduleOperations,
        transaction: Transaction,
        cron: Cron,
        definition: Definition,
        now: Instant,
    ) -> str:
        """Make one cron what the code says; answers what that was."""
        note = cut(cron.options.get("note", ""))
        declared = canonical(definition.spec)
        digest = definition.digest(note)
        first_at = _first_at(definition.spec, now)
        row = transaction.lock_schedule(ScheduleId(cron.name), tenant=operations.tenant)
        if row is None:
            memo = Memo(source=CODE, app=self._app_name, declared=declared, definition=digest)
            fresh = replace(definition, spec=anchored(definition.spec, now))
            seen_until = None if first_at is None else Instant(first_at - 1)
            new = operations.new_row(
                ScheduleId(cron.name), fresh, memo, now, kind=KIND, note=note, seen_until=seen_until
            )
            requests.create(transaction, new, [], operations.by(now), detail=cron.sentence)
            return "added"
        memo = Memo.from_text(row.memo)
        if memo.source != CODE or memo.app != self._app_name:
            owner = f"a cron of the app {memo.app!r}" if row.kind == KIND else "a schedule made at run time"
            raise RegistrationError(f"cron {cron.name!r}: {owner} has that name; choose another one")
        if memo.definition == digest:
            return "unchanged"
        spec_changed = memo.declared != declared
        fresh = replace(
            definition,
            spec=anchored(definition.spec, now) if spec_changed else operations.described(transaction, row).spec,
        )

        def change(row: ScheduleRow) -> ScheduleRow:
            memo = replace(Memo.from_text(row.memo), declared=declared, definition=digest)
            memo = replace(memo, spec_at=now) if spec_changed else memo
            state = replace(from_text(row.state), note=note)
            return replace(row, memo=memo.to_text(), state=to_text(state))

        requests.update(
            transaction,
            row.id,
            operations.by(now),
            spec=canonical(fresh.spec),
            target=fresh.target.to_text(),
            function=fresh.target.name,
            policies=fresh.policies,
            run_id_template=fresh.run_id_template,
            detail=difference(row, replace(fresh, memo=memo.user), {"note": note}),
            change=change,
            first_at=first_at if spec_changed else None,
        )
        return "updated"

    def _deployed(self, operations: ScheduleOperations, transaction: Transaction) -> "tuple[ScheduleRow, ...]":
        """The crons of this app's code that the database has."""
        rows = _all(transaction, ScheduleFilter(tenant=operations.tenant, kind=KIND))
        ours = ((row, Memo.from_text(row.memo)) for row in rows)
        return tuple(row for row, memo in ours if memo.source == CODE and memo.app == self._app_name)


def _define(operations: ScheduleOperations, cron: Cron) -> Definition:
    given = cast("Defining", {name: value for name, value in cron.options.items() if name != "note"})
    defining: Defining = {"overlap": Overlap.SKIP, "catch_up": CatchUp.LATEST, **given}
    return define(operations.functions, ScheduleId(cron.name), cron.when, cron.call, **defining)


def _first_at(spec: Spec, now: Instant) -> Instant | None:
    """When an interval cron that is deployed now runs first: now, cut to the second. Others wait for their time."""
    plain = any(one.anchor is None and not one.offset for one in spec.intervals)
    return Instant(now // SECOND_MS * SECOND_MS) if plain else None


def _of(ctx: QueryCtx | SyncActionCtx) -> ScheduleReader:
    """The schedules of the function that asks."""
    schedules: Any = ctx.schedules
    if not isinstance(schedules, ScheduleReader):
        raise Misuse(
            "an `async def` action reaches its crons through a mutation: write one that registers them, and "
            "`await ctx.run_mutation(...)`"
        )
    return schedules


def _changing(ctx: MutationCtx | SyncActionCtx) -> Schedules:
    """The schedules of the function that changes them."""
    schedules = _of(ctx)
    if not isinstance(schedules, Schedules):
        raise Misuse("a query changes nothing; register and delete crons in a mutation")
    return schedules


def _is_registered(row: ScheduleRow) -> bool:
    return row.kind == KIND and Memo.from_text(row.memo).source == RUN_TIME


def _all(transaction: Transaction, where: ScheduleFilter) -> tuple[ScheduleRow, ...]:
    rows: Any = []
    after: tuple[Instant | None, str] | None = None
    while True:
        page = transaction.list_schedules(where, limit=PAGE_MAX, after=after)
        rows += page
        if len(page) < PAGE_MAX:
            return tuple(rows)
        after = (page[-1].next_at, page[-1].id)


def _cancel_pending(operations: ScheduleOperations, transaction: Transaction, row: ScheduleRow, now: Instant) -> None:
    """Cancel the runs of a cron that have not begun."""
    for run in from_text(row.state).running:
        key = run.occurrence.key
        found = transaction.get_occurrence(
            row.id, tenant=row.tenant, nominal_at=key.nominal_at, origin=key.origin.value, request=key.request
        )
        job = None if found is None or found.job_id is None else transaction.get_job(found.job_id, tenant=row.tenant)
        if job is not None and job.state is JobState.PENDING:
            cancel(transaction, job.id, tenant=row.tenant, now=now, make_id=operations.make_id)
