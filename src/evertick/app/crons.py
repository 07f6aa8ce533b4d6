"""`app.crons`: schedules declared in code, and crons that functions register at run time.

    app.crons.add("clear messages table", every(minutes=1), clear_all)
    app.crons.using(retry=Retry(3)).add("payment reminder", monthly(day=1, hour=16), send_email, email="me@example.org")

A declared cron is a schedule like any other, but its definition is the code. When a worker starts, it adds new crons,
updates changed ones and deletes those no longer declared. Each change has a line in the log and in the schedule's
history. An unchanged cron keeps its next run, its state and its history. At most one run of a cron is open at a time
(overlap `skip`), and after an outage the latest missed time runs (catch-up `latest`); `using` can change both.

An interval counts from the time when the cron was first deployed, which is also its first run.
"""

import logging
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, ParamSpec, Self, overload

from evertick.api.schedules import ScheduleDescription, ScheduleSummary
from evertick.app.execution.contexts import MutationCtx, QueryCtx, SyncActionCtx
from evertick.app.functions.function import Function, FunctionCall
from evertick.app.paging import all_schedules
from evertick.app.schedules.api import ScheduleReader, Schedules
from evertick.app.schedules.commands import ScheduleOperations, initial_state
from evertick.app.schedules.definition import (
    Definition,
    anchored,
    check_spec,
    define,
    is_declared,
    place_of,
    schedule_id_of,
    union,
)
from evertick.app.schedules.options import CronOptions, When, note_of
from evertick.app.schedules.updates import difference
from evertick.app.schedules.views import description, sentence, summary
from evertick.app.scheduling.job_builder import Functions
from evertick.app.transacting import Work
from evertick.base.errors import AlreadyExists, EvertickError, Misuse, RegistrationError, ScheduleNotFound
from evertick.base.ids import ScheduleId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.options import some, stated, takes
from evertick.base.records.jobs import JobState
from evertick.base.records.schedules import ScheduleFilter
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.registration import SHARING
from evertick.engine.schedules import commands as requests
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.writing import canonical
from evertick.rules.schedules.metadata import CODE, RUN_TIME, ScheduleMetadata
from evertick.rules.schedules.policies import CatchUp
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.transaction.transaction import Transaction

P = ParamSpec("P")
Writing = MutationCtx | SyncActionCtx

_logger: Final = logging.getLogger("evertick.schedules")

KIND: Final = "cron"
_RENAMED: Final = "; if it was renamed, the new cron starts without its history and missed times"


@dataclass(frozen=True)
class Cron:
    """A cron as it is declared in code."""

    name: str
    when: Spec
    function: Function[..., Any] | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: CronOptions
    declared_at: str | None = None

    @property
    def sentence(self) -> str:
        """The cron's times in English, for example `every day at 09:00`."""
        return sentence(self.when)

    def call(self, functions: Functions) -> FunctionCall:
        """The call, checked: by now all functions are registered and all annotations can be resolved."""
        function = functions.resolve(self.function)
        return FunctionCall(function, function.encode_args(self.args, self.kwargs))


@dataclass(frozen=True, slots=True, kw_only=True)
class CronChanges:
    """The changes of a synchronization, by name."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    other_apps: tuple[str, ...] = ()
    """Other apps with crons declared in this database."""


class Crons:
    """Declares schedules in code (`app.crons`), and registers crons at run time."""

    def __init__(
        self, app_name: str, aliases: Sequence[str] = (), *, has_worker: Callable[[], bool] = lambda: False
    ) -> None:
        self._app_name = app_name
        self._has_worker = has_worker
        self._apps = frozenset((app_name, *aliases))
        self._declared: dict[str, Cron] = {}
        self._options = CronOptions()

    @takes(CronOptions, "a cron")
    def using(self, options: CronOptions) -> Self:
        """A copy of `app.crons` with options for the crons that are added or registered through it.

            app.crons.using(overlap="buffer_one", retry=Retry(3)).add("report", daily(hour=9), make_report)

        The options are those of `schedules.create` for policies and runs; None restores the default. Raises Misuse for
        an unknown option or an invalid value.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._options = replace(self._options, **stated(options))
        return copy

    # -- in code

    @overload
    def add(self, name: str, when: When, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    def add(self, name: str, when: When, function: str, /, *args: Any, **kwargs: Any) -> None: ...
    def add(self, name: str, when: When, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> None:
        """Declare a cron: a name, its times, and the call of a mutation or an action, given as an object or by name.

        A worker writes it to the database at its start, and `app.sync_crons()` at any time.

        Raises RegistrationError for a name that is taken or has other characters than printable ASCII, InvalidSpec.
        """
        cron = self._cron(name, when, function, args, kwargs)
        if name in self._declared:
            raise RegistrationError(f"Cron identifier registered twice: {name}")
        self._declared[name] = replace(cron, declared_at=place_of(sys._getframe(1)))
        if self._has_worker():
            _logger.warning(
                "cron %s is declared after the worker of this program has started: it runs after app.sync_crons(), or "
                "from the next start of a worker", name, extra={"schedule_id": name},
            )  # fmt: skip

    @property
    def declared(self) -> tuple[Cron, ...]:
        """The crons of this app's code, in the order of their declaration."""
        return tuple(self._declared.values())

    def sync(self, operations: ScheduleOperations) -> Work[CronChanges]:
        """Update the schedules in the database to match the code; only crons of this app are changed.

        Raises RegistrationError if a cron cannot work, or another schedule has its name.
        """
        by_code = replace(operations, actor=f"code of {self._app_name}")
        definitions = {cron.name: self._definition(operations, cron) for cron in self.declared}

        def work(transaction: Transaction) -> CronChanges:
            now = operations.now()
            done: dict[str, list[str]] = {"added": [], "updated": [], "deleted": [], "unchanged": []}
            sync = _Sync(by_code, transaction, self._app_name, self._apps, now)
            for cron in self.declared:
                done[sync.one(cron, definitions[cron.name])].append(cron.name)
            others: set[str] = set()
            for row in _declared_crons(by_code, transaction):
                if row.metadata.app not in self._apps:
                    others.add(row.metadata.app or "")
                elif row.id not in self._declared:
                    if "state" not in row.unreadable:
                        _cancel_pending(by_code, transaction, transaction.with_open_runs([row])[0], now)
                    requests.delete(transaction, row.id, by_code.by(now))
                    done["deleted"].append(row.id)
            changes = {word: tuple(names) for word, names in done.items()}
            return CronChanges(**changes, other_apps=tuple(sorted(others - {""})))

        return work

    def log(self, changes: CronChanges) -> None:
        """Log what a synchronization changed, and which other apps share the database."""
        for other in changes.other_apps:
            _logger.warning(
                "this database has crons of the app %s, and this is the app %s, %s",
                other,
                self._app_name,
                SHARING,
                extra={"app": self._app_name, "other_app": other},
            )
        for word in ("added", "updated", "deleted"):
            for name in getattr(changes, word):
                cron = self._declared.get(name)
                times = f": {cron.sentence}" if cron is not None else ""
                note = _RENAMED if word == "deleted" and changes.added else ""
                _logger.info("cron %s: %s%s%s", word, name, times, note, extra={"schedule_id": name, "change": word})

    # -- at run time

    @overload
    def register(
        self, ctx: Writing, name: str, when: When, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> ScheduleId: ...
    @overload
    def register(
        self, ctx: Writing, name: str, when: When, function: str, /, *args: Any, **kwargs: Any
    ) -> ScheduleId: ...
    def register(
        self, ctx: Writing, name: str, when: When, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> ScheduleId:
        """Register a cron from a function, in its transaction. An interval first runs after it has passed once.

        Raises AlreadyExists if the name is taken, InvalidSpec, LimitExceeded, InvalidArguments.
        """
        schedules = _changing(ctx)
        operations = schedules.operations
        cron = self._cron(name, when, function, args, kwargs)

        def work(transaction: Transaction) -> ScheduleId:
            taken = transaction.get_schedule(ScheduleId(name), tenant=operations.tenant)
            if taken is not None:
                raise AlreadyExists(f"a {taken.kind} with the name {name!r} already exists; choose another name")
            now = operations.now()
            definition = _define(operations, cron)
            check_spec(definition.spec, now, operations.settings)
            metadata = ScheduleMetadata(source=RUN_TIME, app=self._app_name)
            begin = _whole_second(definition.spec, now)
            definition = replace(definition, spec=anchored(definition.spec, begin))
            state = initial_state(definition, cron.options.options(), now)._replace(seen_until=begin)
            row = operations.new_row(ScheduleId(name), definition, metadata, state, kind=KIND)
            requests.create(transaction, row, [], operations.by(now), detail=cron.sentence)
            return row.id

        return schedules.write(work)

    def list(self, ctx: QueryCtx | SyncActionCtx, /) -> "tuple[ScheduleSummary, ...]":
        """The crons that were registered at run time, by name."""
        schedules = _of(ctx)
        where = ScheduleFilter(tenant=schedules.operations.tenant, kind=KIND)
        rows = schedules.read(lambda transaction: tuple(all_schedules(transaction, where)))
        return tuple(summary(row) for row in rows if _is_registered(row))

    def get(self, ctx: QueryCtx | SyncActionCtx, name: str, /) -> ScheduleDescription | None:
        """A cron that was registered at run time, or None."""
        schedules = _of(ctx)

        def question(transaction: Transaction) -> ScheduleDescription | None:
            row = transaction.get_schedule(ScheduleId(name), tenant=schedules.operations.tenant)
            return description(transaction, row, schedules.operations.now()) if row and _is_registered(row) else None

        return schedules.read(question)

    def delete(self, ctx: Writing, name: str, /) -> None:
        """Remove a cron that was registered at run time; its name can be used again. Runs that wait are canceled.

        Raises ScheduleNotFound if there is none, Misuse if it is declared in code.
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
            if "state" not in row.unreadable:
                _cancel_pending(operations, transaction, row, now)
            requests.delete(transaction, row.id, operations.by(now))

        schedules.write(work)

    # -- helpers

    def _cron(
        self, name: str, when: When, function: Function[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Cron:
        if not isinstance(name, str) or not name.strip() or not all(" " <= each <= "~" for each in name):
            raise RegistrationError(f"a cron's name must have only printable ASCII characters, not {name!r}")
        if not isinstance(function, Function | str):
            raise RegistrationError(
                f"cron {name!r}: {function!r} is neither a function of an app nor a name; decorate the function"
            )
        return Cron(schedule_id_of(name), union(when), function, args, kwargs, self._options)

    def _definition(self, operations: ScheduleOperations, cron: Cron) -> Definition:
        """The definition of a declared cron. Raises RegistrationError with the cron's name."""
        try:
            definition = _define(operations, cron)
            check_spec(definition.spec, operations.now(), operations.settings, may_have_ended=True)
        except EvertickError as error:
            raise RegistrationError(f"cron {cron.name!r}: {error}") from error
        return definition


def _declared_crons(operations: ScheduleOperations, transaction: Transaction) -> "list[Schedule]":
    """The crons in the database that any app's code has declared, without those whose owner cannot be read."""
    rows = all_schedules(transaction, ScheduleFilter(tenant=operations.tenant, kind=KIND))
    return [row for row in rows if is_declared(row)]


@dataclass(frozen=True, slots=True)
class _Sync:
    """A synchronization in progress: updates each cron to match the code."""

    operations: ScheduleOperations
    transaction: Transaction
    app_name: str
    apps: Collection[str]
    now: Instant

    def one(self, cron: Cron, definition: Definition) -> str:
        """Update one cron to match the code; returns `added`, `updated` or `unchanged`.

        Raises RegistrationError if another schedule has the name.
        """
        row = self.transaction.lock_schedule(ScheduleId(cron.name), tenant=self.operations.tenant)
        if row is None:
            self._add(cron, definition)
            return "added"
        # A row whose owner cannot be read belongs to this app, because its code declares the name.
        unread = row.unreadable
        metadata = row.metadata if "memo" not in unread else ScheduleMetadata(source=CODE, app=self.app_name)
        if row.kind != KIND or metadata.source != CODE or metadata.app not in self.apps:
            owner = f"a cron of the app {metadata.app!r}" if row.kind == KIND else "a schedule made at run time"
            raise RegistrationError(f"cron {cron.name!r}: {owner} has that name; choose another one")
        is_own = not unread and metadata.app == self.app_name == row.target.app
        if is_own and metadata.definition == definition.digest(note_of(cron.options.options())):
            if metadata.declared_at != cron.declared_at:  # the lines of its file have moved
                moved = row.with_metadata(replace(metadata, declared_at=cron.declared_at))
                self.transaction.save_schedules([moved])
            return "unchanged"
        self._update(row, cron, definition)
        return "updated"

    def _add(self, cron: Cron, definition: Definition) -> None:
        metadata = ScheduleMetadata(
            source=CODE,
            app=self.app_name,
            declared=canonical(definition.spec),
            declared_at=cron.declared_at,
            definition=definition.digest(note_of(cron.options.options())),
        )
        fresh = replace(definition, spec=anchored(definition.spec, self.now))
        state = initial_state(fresh, cron.options.options(), self.now)
        first_at = _first_at(definition.spec, self.now)
        if first_at is not None:
            state = state._replace(seen_until=Instant(first_at - 1))
        row = self.operations.new_row(ScheduleId(cron.name), fresh, metadata, state, kind=KIND)
        requests.create(self.transaction, row, [], self.operations.by(self.now), detail=cron.sentence)

    def _update(self, row: Schedule, cron: Cron, definition: Definition) -> None:
        note, declared = note_of(cron.options.options()), canonical(definition.spec)
        is_timed, row = "spec" not in row.unreadable, row.with_defaults()
        spec_changed = row.metadata.declared != declared or not is_timed
        spec = anchored(definition.spec, self.now) if spec_changed else row.spec.value
        fresh = replace(definition, spec=spec, memo=row.metadata.user)

        def edit(row: Schedule) -> Schedule:
            spec_at = self.now if spec_changed else row.metadata.spec_at
            metadata = replace(row.metadata, declared=declared, definition=definition.digest(note), spec_at=spec_at)
            metadata = replace(metadata, app=self.app_name, declared_at=cron.declared_at)
            row = row._replace(spec=StoredSpec.of(fresh.spec)).with_target(fresh.target)
            return row.with_metadata(metadata).with_state(row.state._replace(note=note))

        change = requests.Update(
            edit=edit,
            policies=fresh.policies,
            run_id_template=fresh.run_id_template,
            detail=difference(row, fresh, {"note": note}),
            first_at=_first_at(definition.spec, self.now) if spec_changed else None,
        )
        requests.update(self.transaction, row.id, change, self.operations.by(self.now))


def _define(operations: ScheduleOperations, cron: Cron) -> Definition:
    options = {"catch_up": CatchUp.LATEST, **some(cron.options.options()), "note": ""}
    return define(operations.functions, ScheduleId(cron.name), cron.when, cron.call(operations.functions), options)


def _whole_second(spec: Spec, now: Instant) -> Instant:
    """The next whole second, so that the first interval passes in full; `now` if the spec has other times."""
    is_interval = spec.intervals and not (spec.crons or spec.calendars or spec.rrules or spec.times)
    return Instant(-(-now // SECOND_MS) * SECOND_MS) if is_interval else now


def _first_at(spec: Spec, now: Instant) -> Instant | None:
    """The first run of an interval cron that is deployed now: now, rounded down to a second. None for other crons."""
    plain = any(one.anchor is None and not one.offset for one in spec.intervals)
    return Instant(now // SECOND_MS * SECOND_MS) if plain else None


def _of(ctx: QueryCtx | SyncActionCtx) -> ScheduleReader:
    """The schedules, as the calling function may read them."""
    schedules: Any = ctx.schedules
    if not isinstance(schedules, ScheduleReader):
        raise Misuse(
            "an `async def` action cannot use crons directly: write a mutation that registers them, and "
            "`await ctx.run_mutation(...)`"
        )
    return schedules


def _changing(ctx: Writing) -> Schedules:
    """The schedules, as the calling function may change them."""
    schedules = _of(ctx)
    if not isinstance(schedules, Schedules):
        raise Misuse("a query cannot change crons; register and delete them in a mutation")
    return schedules


def _is_registered(row: Schedule) -> bool:
    return row.kind == KIND and not is_declared(row)


def _cancel_pending(operations: ScheduleOperations, transaction: Transaction, row: Schedule, now: Instant) -> None:
    """Cancel the runs of a cron that have not begun."""
    for run in row.state.running:
        key = run.occurrence.key
        found = transaction.get_occurrence(row.id, key, tenant=row.tenant)
        job = None if found is None or found.job_id is None else transaction.get_job(found.job_id, tenant=row.tenant)
        if job is not None and job.state is JobState.PENDING:
            cancel(transaction, job.id, tenant=row.tenant, now=now, make_id=operations.make_id)
