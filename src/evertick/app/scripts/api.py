"""`app.scripts`: code of your customers, on schedules of your customers, in a sandbox.

    app.scripts.tables("orders", "outbox", write=["outbox"])

    @app.scripts.host("crm.score")
    def score(ctx: QueryCtx, customer: str) -> int: ...

    scripts = app.tenant("acme").scripts
    scripts.create("cart", source, language="javascript")
    print(scripts.test("cart", {"days": 1}).staged)
    scripts.publish("cart")
    app.tenant("acme").schedules.create("carts", when="every day at 9:00", do=scripts.call("cart", {"days": 1}))

A run is a job of the function `evertick.script`, so schedules, retries, lists and logs are those of jobs. It happens
exactly once, like a mutation: what the script writes is committed together with its end. Scripts are run, tested and
checked only in the sandbox; this process does not parse them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, Final, ParamSpec, Protocol, TypeVar, Unpack, overload

from evertick.api.scripts import (
    IsolationView,
    PublishedScript,
    ScriptActivityView,
    ScriptErrorView,
    ScriptLimits,
    ScriptLogLine,
    ScriptPlanView,
    ScriptRunView,
    ScriptSummary,
    ScriptTestView,
    ScriptVersionSummary,
    ScriptVersionView,
    ScriptView,
)
from evertick.app.environment import Environment
from evertick.app.execution.contexts import SyncActionCtx
from evertick.app.execution.runner import Execution
from evertick.app.functions.function import Action, FunctionCall
from evertick.app.limits.declared import Pool
from evertick.app.operations import InThread
from evertick.app.paging import all_schedules
from evertick.app.registry import Registry
from evertick.app.scheduling.schedulers import Scheduler
from evertick.app.scripts.host_functions import check_tables, developer_function
from evertick.app.scripts.parameters import check_input, schema_text
from evertick.app.scripts.plan import ScriptPlan, changes
from evertick.app.scripts.running import (
    NOTHING_USED,
    VERSION_MAX,
    Loaded,
    Refused,
    ScriptRuns,
    ScriptSettings,
    Try,
    check_quotas,
    context_of,
    rehearsed,
    row_of,
    sandbox,
    turns,
    under_way,
    version_of,
)
from evertick.app.transacting import Audited, Transact, Work, unaudited
from evertick.base.error_text import place_words
from evertick.base.errors import (
    AlreadyExists,
    InvalidArguments,
    InvalidScript,
    LimitExceeded,
    Misuse,
    QuotaExceeded,
    RegistrationError,
    ScriptInUse,
    ScriptNotFound,
    Unavailable,
    VersionConflict,
)
from evertick.base.escaping import read_json
from evertick.base.ids import JOB_PREFIX, JobId, ScheduleId, TenantId, check_addressable, full_pool
from evertick.base.instants import HOUR_MS, NEVER, SECOND_MS, Instant, from_datetime, to_datetime
from evertick.base.options import (
    TEXT,
    UNCHANGED,
    Rule,
    Unchanged,
    check_options,
    is_storable,
    shown,
    shown_options,
    text,
    whole,
)
from evertick.base.records.jobs import SCRIPT_FUNCTION, JobError, JobFilter, JobState
from evertick.base.records.schedules import ScheduleFilter
from evertick.base.records.scripts import ScriptRow, ScriptRunRow, ScriptUsage, ScriptVersionRow
from evertick.base.records.stored import json_of
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.spec import Spec
from evertick.sandbox.protocol import Ended, Language, Level, Outcome, ScriptError
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

H = TypeVar("H", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")

POOL: Final = "scripts"
PER_TENANT: Final = 2
"""Concurrent runs of one tenant, unless `app.scripts.enable` sets another number."""
NAME: Final = text(200, printable=True)
NOTE_CHARS_MAX: Final = 1_000
LIST_MAX: Final = 1_000
SHOWN_IDS: Final = 20
JOBS_AT_A_TIME: Final = 500
UNFINISHED: Final = (JobState.PENDING, JobState.IN_PROGRESS)
TIMES_CHECKED: Final = 100
STORED: Final = Rule("text without NUL or lone surrogates", lambda value: isinstance(value, str) and is_storable(value))
RULES: Final = {"name": NAME, "source": TEXT, "note": STORED}


class Access(Protocol):
    """The attributes of `app.tenant(...)` that this module uses."""

    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def scheduler(self) -> Scheduler: ...
    @property
    def _execution(self) -> Execution: ...
    @property
    def _ways(self) -> tuple[Transact, Transact]: ...


class AppAccess(Access, Protocol):
    """The attributes of an app that this module uses."""

    @property
    def name(self) -> str: ...
    @property
    def functions(self) -> Registry: ...
    def pool(self, name: str, *, per_tenant: int | None = None) -> Pool: ...


class TenantScripts:
    """Writes, tests, publishes and runs the scripts of one tenant."""

    def __init__(self, access: Access, settings: ScriptSettings, audited: Audited = unaudited) -> None:
        self._access = access
        self._settings = settings
        self._audited = audited

    def audited_by(self, audited: Audited) -> "TenantScripts":
        """The same scripts; changes through the result are recorded in the audit log."""
        return TenantScripts(self._access, self._settings, audited)

    @property
    def aio(self) -> "AsyncScripts":
        """The same methods on an event loop: every call is awaited."""
        return AsyncScripts(self)

    # -- writing

    def create(
        self, name: str, source: str, *, language: str, parameters: dict[str, Any] | None = None, note: str = ""
    ) -> ScriptView:
        """Create a script as a draft. It runs only after it is published.

        `language` is "javascript" or "python". `parameters` is a JSON schema that the input of runs must match.

        Raises InvalidScript for a syntax error, with line and column, a source that is too large, or an unknown
        language; AlreadyExists, QuotaExceeded, InvalidArguments for an unsupported schema, Misuse.
        """
        check_options(RULES, {"name": name, "source": source, "note": note})
        check_addressable(name, "a script")
        schema = schema_text(parameters)
        self.check(source, language=language)
        tenant = self._access.tenant_id

        def work(transaction: Transaction) -> ScriptView:
            if transaction.get_script(name, tenant=tenant) is not None:
                raise AlreadyExists(f"a script {name!r} already exists; edit it, or choose another name")
            limit, count = self._settings.plan_in(transaction, tenant).scripts, transaction.count_scripts(tenant)
            if count >= limit:
                raise QuotaExceeded(f"tenant {tenant} has {count} scripts; its limit is {limit}; delete some first")
            last = transaction.list_script_runs(tenant, script=name, limit=1, before=NEVER)
            # A script has the runs since its creation; earlier ones belong to a deleted script with the same name.
            now = Instant(max([self._now(), *(run.ended_at + 1 for run in last)]))
            row = ScriptRow(tenant, name, language, source, schema, note[:NOTE_CHARS_MAX], None, 0, now, now)
            transaction.save_script(row)
            return _view(transaction, row)

        return self._change(work, "create", name)

    def edit(
        self,
        name: str,
        source: str | None = None,
        *,
        language: str | None = None,
        parameters: dict[str, Any] | Unchanged | None = UNCHANGED,
        note: str | None = None,
        if_revision: int | None = None,
    ) -> ScriptView:
        """Change the draft of a script; what is not given stays unchanged. The published version keeps running.

        With `if_revision` the script is changed only if it still has this revision (`ScriptView.revision`). This also
        applies to `publish`, `rollback` and `delete`.

        Raises ScriptNotFound, VersionConflict, and the errors of `create`.
        """
        check_options(RULES, {"source": source or "", "note": note or ""})
        schema = None if isinstance(parameters, Unchanged) else schema_text(parameters)
        if source is not None or language is not None:
            old = self._read(lambda transaction: self._row(transaction, name))
            self.check(old.source if source is None else source, language=language or old.language)

        def work(transaction: Transaction) -> ScriptView:
            row = self._row(transaction, name, if_revision)
            row = row._replace(
                source=row.source if source is None else source,
                language=language or row.language,
                parameters=row.parameters if isinstance(parameters, Unchanged) else schema,
                note=row.note if note is None else note[:NOTE_CHARS_MAX],
                updated_at=self._next_revision(row),
            )
            transaction.save_script(row)
            return _view(transaction, row)

        return self._change(work, "edit", name)

    def check(self, source: str, *, language: str) -> None:
        """Raise InvalidScript, with line and column, if a source has a syntax error or is too large.

        The source is parsed in the sandbox. Raises SandboxUnavailable where scripts cannot run.
        """
        spoken = _language(language)
        check_options({"source": TEXT}, {"source": source})
        plan = self._read(lambda transaction: self._settings.plan_in(transaction, self._access.tenant_id))
        if not is_storable(source):
            raise InvalidScript("the script contains NUL or a lone surrogate (\\ud83d); remove it")
        if (size := len(source.encode())) > plan.source_bytes:
            raise InvalidScript(f"the script has {size:,} bytes; the limit is {plan.source_bytes:,}")
        self._settings.check_isolation(spoken)
        error = sandbox().check(spoken, source, plan.limits)
        if error is not None:
            name = f"{error.name}: " if error.name else ""
            words = f"{name}{error.message}{place_words(error.line, error.column)}"
            raise InvalidScript(words, error.line, error.column)

    def publish(self, name: str, *, note: str | None = None, if_revision: int | None = None) -> PublishedScript:
        """Make the draft the version that runs. Publishing the same draft again changes nothing.

        `misfits` in the result are the schedules whose input does not match the new parameters: their runs would fail.

        Raises ScriptNotFound, VersionConflict.
        """
        check_options(RULES, {"note": note or ""})

        def work(transaction: Transaction) -> PublishedScript:
            row, tenant, now = self._row(transaction, name, if_revision), self._access.tenant_id, self._now()
            current = None if row.published is None else transaction.get_script_version(
                name, row.published, tenant=tenant
            )  # fmt: skip
            if current is not None and not _differs(row, current):
                return _published(transaction, current)
            digest = hashlib.sha256(row.source.encode()).hexdigest()
            words = row.note if note is None else note[:NOTE_CHARS_MAX]
            version = ScriptVersionRow(
                tenant, name, row.versions + 1, row.language, row.source, digest, row.parameters, words, now
            )
            transaction.add_script_version(version)
            number = version.version
            transaction.save_script(
                row._replace(published=number, versions=number, updated_at=self._next_revision(row))
            )
            return _published(transaction, version)

        return self._change(work, "publish", name)

    def rollback(self, name: str, version: int, *, if_revision: int | None = None) -> PublishedScript:
        """Run an earlier version again. The draft is not changed. `misfits` has the same meaning as in `publish`.

        Raises ScriptNotFound, also for a version that the script does not have; VersionConflict.
        """

        def work(transaction: Transaction) -> PublishedScript:
            row, found = self._row(transaction, name, if_revision), self._version(transaction, name, version)
            transaction.save_script(row._replace(published=version, updated_at=self._next_revision(row)))
            return _published(transaction, found)

        return self._change(work, "rollback", name)

    def delete(self, name: str, *, if_revision: int | None = None) -> None:
        """Delete a script with its versions. The records of its runs stay until their retention is over.

        Raises ScriptNotFound, VersionConflict, and ScriptInUse if schedules run it or any of its runs has not ended.
        """

        def work(transaction: Transaction) -> None:
            self._row(transaction, name, if_revision)
            users = [
                row.id for row in _schedules_of(transaction, self._access.tenant_id) if _runs(row.target.args, name)
            ]
            if users:
                raise ScriptInUse(name, users[:SHOWN_IDS])
            if jobs := list(islice(_unfinished_runs(transaction, self._access.tenant_id, name), SHOWN_IDS)):
                raise ScriptInUse(name, [], jobs)
            transaction.delete_script(name, tenant=self._access.tenant_id)

        self._change(work, "delete", name)

    # -- reading

    def get(self, name: str) -> ScriptView:
        """A script with its draft. Raises ScriptNotFound."""
        return self._read(lambda transaction: _view(transaction, self._row(transaction, name)))

    def list(self, *, after: str = "", limit: int = 100) -> Sequence[ScriptSummary]:
        """Scripts by name, after the name `after`, without their sources; at most `limit`, up to 1,000."""
        check_options({"limit": whole(1, LIST_MAX), "after": STORED}, {"limit": limit, "after": after})

        def work(transaction: Transaction) -> Sequence[ScriptSummary]:
            rows = transaction.list_scripts(self._access.tenant_id, limit=limit, after=after)
            unchanged = transaction.unchanged_scripts([row.name for row in rows], tenant=self._access.tenant_id)
            return [ScriptSummary(**_summary(row, is_changed=row.name not in unchanged)) for row in rows]

        return self._read(work)

    def version(self, name: str, version: int) -> ScriptVersionView:
        """One version of a script. Raises ScriptNotFound."""
        return self._read(lambda transaction: _version_view(self._version(transaction, name, version)))

    def versions(self, name: str, *, before: int | None = None, limit: int = 100) -> Sequence[ScriptVersionSummary]:
        """The versions of a script below the number `before`, newest first, without their sources.

        Raises ScriptNotFound.
        """
        check_options({"limit": whole(1, LIST_MAX)}, {"limit": limit})

        def work(transaction: Transaction) -> Sequence[ScriptVersionSummary]:
            self._row(transaction, name)
            tenant = self._access.tenant_id
            rows = transaction.list_script_versions(name, tenant=tenant, limit=limit, before=before)
            return [ScriptVersionSummary(**_version_summary(row)) for row in rows]

        return self._read(work)

    def runs(
        self, name: str | None = None, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[ScriptRunView]:
        """Attempts at runs of a script, or of all scripts, that ended before a time; newest first.

        If a script was deleted and another created with the same name, only runs of the new one are returned. If no
        script has the name, those of the deleted one are returned.
        """
        check_options({"limit": whole(1, LIST_MAX), "name": STORED}, {"limit": limit, "name": name or ""})
        moment = NEVER if before is None else from_datetime(before, "before")
        tenant = self._access.tenant_id

        def work(transaction: Transaction) -> Sequence[ScriptRunView]:
            script = None if name is None else transaction.get_script(name, tenant=tenant)
            since = Instant(0) if script is None else script.created_at
            rows = transaction.list_script_runs(tenant, script=name, limit=limit, before=moment, since=since)
            return [_run_view(row) for row in rows]

        return self._read(work)

    def run(self, job_id: str) -> Sequence[ScriptRunView]:
        """The attempts at one run; empty until the first one has ended."""
        check_options({"job_id": STORED}, {"job_id": job_id})
        tenant = self._access.tenant_id
        return self._read(
            lambda transaction: [_run_view(row) for row in transaction.script_runs_of_job(JobId(job_id), tenant=tenant)]
        )

    def activity(self, names: Sequence[str], *, since: datetime) -> Sequence[ScriptActivityView]:
        """What scripts have done, in the order of `names`; attempts are counted from `since` on."""
        if isinstance(names, str) or not all(isinstance(each, str) for each in names):
            raise Misuse(f"names is a list of names of scripts, not {shown(names)}")
        tenant, moment = self._access.tenant_id, from_datetime(since, "since")

        def work(transaction: Transaction) -> Sequence[ScriptActivityView]:
            users: dict[str, list[ScheduleId]] = {}
            for row in _schedules_of(transaction, tenant):
                users.setdefault(json.loads(row.target.args)["script"], []).append(row.id)
            found = []
            for name in names:
                script = transaction.get_script(name, tenant=tenant)
                created = Instant(0) if script is None else script.created_at
                last = transaction.list_script_runs(tenant, script=name, limit=1, before=NEVER, since=created)
                runs = transaction.count_script_runs(tenant, script=name, since=Instant(max(moment, created)))
                view = _run_view(last[0]) if last else None
                found.append(
                    ScriptActivityView(script=name, last=view, runs=runs, schedules=tuple(users.get(name, ())))
                )
            return found

        return self._read(work)

    # -- running

    def call(self, name: str, input: Any = None, *, version: int | None = None) -> FunctionCall:
        """A call of a script, for schedules and schedulers; of the published version unless `version` is given.

            app.schedules.create("carts", when="every day at 9:00", do=app.scripts.call("cart", {"days": 1}))

        Whether the script exists is checked when a schedule is saved and when the run starts. Raises InvalidArguments
        for an input that is not JSON.
        """
        check_options({"name": NAME}, {"name": name})
        call = self._settings.function.with_args(script=name, input=input, version=version)
        try:
            read_json(call.args)
        except ValueError as error:
            raise InvalidArguments(f"the input of the script {name!r}: {error}") from None
        return call

    def start(self, name: str, input: Any = None, *, version: int | None = None, delay: float = 0) -> JobId:
        """Run a script, `delay` seconds from now; returns the id of its job.

        Raises ScriptNotFound, InvalidArguments if the input does not match its parameters, QuotaExceeded.
        """
        return self._access.scheduler.run_after_many(delay, [self.checked_call(name, input, version=version)])[0]

    def checked_call(self, name: str, input: Any = None, *, version: int | None = None) -> FunctionCall:
        """Like `call`, but checks that the script exists and that the input matches its parameters.

        Raises ScriptNotFound, InvalidArguments.
        """
        call, tenant = self.call(name, input, version=version), self._access.tenant_id
        self._read(lambda transaction: check_target(transaction, tenant, json.loads(call.args)))
        return call

    def test(
        self, name: str, input: Any = None, *, source: str | None = None, version: int | None = None
    ) -> ScriptTestView:
        """Run the draft of a script (or `source`, or a version) now and in this process, without writing anything.

        It reads and stages writes like a run. Whether they could be committed is tested in a transaction that is rolled
        back. The test counts for `runs_per_hour` and `cpu_s_per_hour`. Actions of `@app.scripts.host` are not called
        and return null, unless they are registered with `in_tests=True`.

        Raises ScriptNotFound, WeakIsolation, SandboxUnavailable; errors of the script itself are in the view.
        """
        access, settings, tenant = self._access, self._settings, self._access.tenant_id
        check_options({"name": STORED, "source": TEXT}, {"name": name, "source": source or ""})
        json_of(input, "the input of the script")  # it refuses what a run could not be given
        execution, e = access._execution, access.environment
        now = e.clock.now()

        def load(transaction: Transaction) -> Loaded:
            row = self._row(transaction, name)
            found = row if version is None else self._version(transaction, name, version)
            plan = settings.plan_in(transaction, tenant)
            language = Language(found.language)
            return Loaded(name, version, language, source or found.source, found.parameters, plan, NOTHING_USED, 0, 0)

        def begin(transaction: Transaction) -> None:
            check_quotas(plan, transaction.script_usage(tenant, since=Instant(now - HOUR_MS)))
            transaction.add_script_run(row_of(under_way(plan), job_id, tenant, name, now))

        loaded = self._read(load)
        plan = loaded.plan
        settings.check_isolation(loaded.language)
        job_id = JobId(e.ids.make(JOB_PREFIX, now))
        context = context_of(job_id=job_id, tenant=tenant, value=input, now=now, attempt=1)
        order, cpu_ms = turns(), 0
        order.ask(tenant, settings.per_tenant).result()
        try:
            one = Try(
                settings, execution, e, loaded, run_id=job_id, tenant=tenant, job_id=job_id, context=context,
                is_test=True,
            )  # fmt: skip
            check_input(json.loads(loaded.parameters or "null"), input)
            self._write(begin)
            ended = one.ended()
            cpu_ms = ended.cpu_ms
            ended = rehearsed(execution, one, ended)
            row = row_of(ended, job_id, tenant, name, e.clock.now())
            self._write(lambda transaction: transaction.add_script_run(row))
        except Refused as refused:
            ended = refused.ended
        except Misuse as error:
            ended = Ended(Outcome.ERROR, error=ScriptError(type(error).__name__, str(error)))
        finally:
            order.end(tenant, cpu_ms)
        return _test_view(ended, one)

    # -- limits

    def limits(self) -> ScriptPlanView:
        """The limits of the tenant's scripts, and what they have used."""
        tenant, now = self._access.tenant_id, self._now()
        since = Instant(now - HOUR_MS)

        def work(transaction: Transaction) -> ScriptPlanView:
            own = json.loads(transaction.get_script_plan(tenant) or "{}")
            used: ScriptUsage = transaction.script_usage(tenant, since=since)
            plan, schedules = self._settings.plan_in(transaction, tenant), list(_schedules_of(transaction, tenant))
            return ScriptPlanView(
                limits=asdict(plan),
                own=tuple(sorted(own)),
                scripts=transaction.count_scripts(tenant),
                schedules=len(schedules),
                runs_last_hour=used.runs,
                cpu_ms_last_hour=used.cpu_ms,
                misfits=tuple(
                    row.id
                    for row in schedules
                    if "spec" not in row.unreadable and not _has_interval(row.spec.recurrence, plan.interval_ms, now)
                ),
            )

        return self._read(work)

    @shown_options
    def set_plan(self, /, **limits: Unpack[ScriptLimits]) -> ScriptPlanView:
        """Change some limits of the tenant (see `ScriptPlan`); None resets a limit to the app's plan.

            app.tenant("acme").scripts.set_plan(cpu_ms=5_000, hosts=["api.acme.example"])

        `misfits` of the view are schedules with times closer than `interval_ms`: they continue to run, but can be saved
        again only if their times change.

        Raises Misuse for an unknown limit or a value that is not valid.
        """
        tenant = self._access.tenant_id

        def kept(transaction: Transaction) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(transaction.get_script_plan(tenant) or "{}")
            return found

        def work(transaction: Transaction) -> dict[str, Any]:
            transaction.save_script_plan(tenant, changes(transaction.get_script_plan(tenant), limits))
            return kept(transaction)

        changes(None, limits)
        self._write(self._audited(work, "script.limits", tenant, before=kept))
        return self.limits()

    def isolation(self) -> dict[str, IsolationView]:
        """How well each language is isolated on this machine. Raises SandboxUnavailable."""
        found = {language.value: sandbox().isolation(language) for language in Language}
        return {name: IsolationView(level=each.level.value, reason=each.reason) for name, each in found.items()}

    def levels(self) -> dict[str, str]:
        """The level of `isolation` for each language; "none" if scripts cannot run."""
        try:
            return {language: found.level for language, found in self.isolation().items()}
        except Unavailable:
            return dict.fromkeys(Language, Level.NONE.value)

    # -- helpers

    def _now(self) -> Instant:
        return self._access.environment.clock.now()

    def _read(self, work: Callable[[Transaction], T]) -> T:
        return self._access._ways[0](work)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self._access._ways[1](work)

    def _change(self, work: Work[T], action: str, name: str) -> T:
        def before(transaction: Transaction) -> ScriptView | None:
            row = transaction.get_script(name, tenant=self._access.tenant_id)
            return None if row is None else _view(transaction, row)

        return self._write(self._audited(work, f"script.{action}", name, before=before))

    def _next_revision(self, row: ScriptRow) -> Instant:
        """The revision of a change: its time, but always later than the last, even within a millisecond."""
        return Instant(max(self._now(), row.updated_at + 1))

    def _row(self, transaction: Transaction, name: str, if_revision: int | None = None) -> ScriptRow:
        row = transaction.get_script(name, tenant=self._access.tenant_id) if NAME.fits(name) else None
        if row is None:
            raise ScriptNotFound(f"no script {name!r:.200}")
        if if_revision is not None and if_revision != row.updated_at:
            raise VersionConflict(
                f"the script {name!r} has the revision {row.updated_at}, not {if_revision}; read it again and retry"
            )
        return row

    def _version(self, transaction: Transaction, name: str, version: int) -> ScriptVersionRow:
        fits = type(version) is int and 0 < version <= VERSION_MAX
        found = transaction.get_script_version(name, version, tenant=self._access.tenant_id) if fits else None
        if found is None:
            raise ScriptNotFound(f"the script {name!r} has no version {version!r}")
        return found


class Scripts(TenantScripts):
    """`app.scripts`: the developer's settings of scripts, and the scripts of the default tenant.

    The first use of `app.scripts` makes the app run scripts, so it belongs in the module that defines the app: a worker
    that started before runs none.
    """

    def __init__(self, app: AppAccess) -> None:
        function: Action[..., Any] = Action(
            _script, name=SCRIPT_FUNCTION, internal=False, timeout_ms=None, app_name=app.name
        )
        function.pool = full_pool(app.name, POOL)
        settings = ScriptSettings(function=function, per_tenant=PER_TENANT)
        function.attempt = ScriptRuns(settings=settings).attempt
        function.check_schedule = _Schedules(settings).check
        super().__init__(app, settings)
        self._app = app
        app.functions.add(function)
        self._pool_is_declared = False

    @property
    def settings(self) -> ScriptSettings:
        """The settings that the app's code has made."""
        return self._settings

    def enable(self, *, per_tenant: int = PER_TENANT, allow_weak_isolation: bool = False) -> "Scripts":
        """Declare that the app runs scripts, at most `per_tenant` of one tenant concurrently on all workers.

        `allow_weak_isolation` runs scripts even on a machine that cannot isolate them: use it only for your own code.
        The environment variable EVERTICK_ALLOW_WEAK_ISOLATION=1 does the same.
        """
        if self._pool_is_declared:
            raise RegistrationError("scripts are enabled twice; call app.scripts.enable(...) once, before other uses")
        self._pool_is_declared = True
        self._app.pool(POOL, per_tenant=per_tenant)
        self._settings.per_tenant = per_tenant
        self._settings.allow_weak_isolation = allow_weak_isolation
        return self

    def declare_pool(self) -> None:
        """Declare the pool of scripts if the code has not; a worker does this at its start."""
        if not self._pool_is_declared:
            self.enable()

    def plan(self, plan: ScriptPlan) -> None:
        """Set the limits of the scripts of each tenant that has no limits of its own."""
        if not isinstance(plan, ScriptPlan):
            raise Misuse(f"app.scripts.plan takes a ScriptPlan(...), not {plan!r}")
        self._settings.plan = plan

    def tables(self, *names: str, write: Sequence[str] = ()) -> None:
        """Let scripts read these tables of their tenant through `ctx.db`, and write the ones in `write`.

            app.scripts.tables("orders", "outbox", write=["outbox"])

        Raises RegistrationError for an invalid table name.
        """
        self._settings.tables |= check_tables(names, tuple(write))

    @overload
    def host(self, handler: H, /) -> H: ...
    @overload
    def host(self, name: str | None = None, /, *, in_tests: bool = False) -> Callable[[H], H]: ...
    def host(self, given: Any = None, /, *, in_tests: bool = False) -> Any:
        """Provide a function to scripts, as `ctx.<name>`; the name may have dots.

            @app.scripts.host("crm.score")
            def score(ctx: QueryCtx, customer: str) -> int: ...

        Its first parameter determines when it runs. With a `QueryCtx` it reads immediately. With a `MutationCtx` it is
        staged, runs in the transaction that ends the run, and returns null to the script. With an `ActionCtx` or
        `SyncActionCtx` it runs immediately, is not undone if the run fails, and is repeated if the script runs again.
        Arguments are checked by the types of the signature. `ctx.tenant` is the tenant of the run.

        Raises RegistrationError.
        """

        def register(handler: H) -> H:
            made = developer_function(name, handler, in_tests, self._app.name)
            own = made.function.name.removeprefix("ctx.")
            if own in self._settings.functions:
                raise RegistrationError(f"scripts already have a function {own!r}; choose another name")
            self._settings.functions[own] = made
            return handler

        name = given if isinstance(given, str) else None
        return register(given) if callable(given) else register

    def on_notify(self, function: Action[P, T], /) -> Action[P, T]:
        """Let scripts call `ctx.notify(channel, text)`, which runs an action of yours after the commit.

            @app.scripts.on_notify
            @app.action
            async def notify(ctx: ActionCtx, channel: str, text: str) -> None: ...

        Raises RegistrationError for anything but an action.
        """
        if not isinstance(function, Action):
            raise RegistrationError("@app.scripts.on_notify takes an action: put it above @app.action")
        self._settings.on_notify = function
        return function


class _Schedules:
    """Checks schedules that run scripts, in the transaction that writes them."""

    def __init__(self, settings: ScriptSettings) -> None:
        self._settings = settings

    def check(
        self,
        transaction: Transaction,
        tenant: TenantId,
        schedule_id: ScheduleId,
        arguments: str,
        spec: Spec,
        now: Instant,
    ) -> None:
        """Check a schedule that runs a script; see `Function.check_schedule`."""
        check_target(transaction, tenant, json.loads(arguments))
        plan = self._settings.plan_in(transaction, tenant)
        others = sum(1 for row in _schedules_of(transaction, tenant) if row.id != schedule_id)
        if others >= plan.schedules:
            raise QuotaExceeded(
                f"tenant {tenant} has {others} schedules that run scripts; its limit is {plan.schedules}"
            )
        if not _has_interval(compile_spec(spec), plan.interval_ms, now):
            raise LimitExceeded(
                f"the times of a schedule that runs scripts must be at least {plan.interval_ms / 1_000:g} s apart "
                f"(interval_ms in the plan of tenant {tenant})"
            )


def _has_interval(recurrence: Recurrence, interval_ms: int, now: Instant) -> bool:
    """Whether the next TIMES_CHECKED times of a schedule are at least an interval apart."""
    times = recurrence.preview(TIMES_CHECKED, now // SECOND_MS) if recurrence.spec.has_sources else []
    return all((later - earlier) * SECOND_MS >= interval_ms for earlier, later in pairwise(times))


def check_target(transaction: Transaction, tenant: TenantId, given: Mapping[str, Any]) -> None:
    """Check the arguments of a run. Raises ScriptNotFound, also for a version; InvalidArguments for the input."""
    name = given.get("script")
    script = transaction.get_script(name, tenant=tenant) if isinstance(name, str) and NAME.fits(name) else None
    if script is None:
        raise ScriptNotFound(f"no script {name!r}")
    version = version_of(transaction, script, given.get("version"))
    check_input(json.loads(version.parameters or "null"), given.get("input"))


def _script(ctx: SyncActionCtx, script: str, input: Any = None, version: int | None = None) -> Any:
    """Runs a script of the tenant; `app.scripts.call` and `app.scripts.start` create its calls."""
    raise Misuse("a script runs only as a job; use app.scripts.start(...), a schedule, or app.scripts.test(...)")


def _schedules_of(transaction: Transaction, tenant: TenantId) -> Iterator[Schedule]:
    """The tenant's schedules that run scripts."""
    return all_schedules(transaction, ScheduleFilter(tenant=tenant, function=SCRIPT_FUNCTION))


def _runs(arguments: str, name: str) -> bool:
    return bool(json.loads(arguments).get("script") == name)


def _unfinished_runs(transaction: Transaction, tenant: TenantId, name: str) -> Iterator[JobId]:
    """The runs of a script that wait or run."""
    where, after = JobFilter(tenant=tenant, states=UNFINISHED, name=SCRIPT_FUNCTION), None
    while ids := [each.id for each in transaction.list_jobs(where, limit=JOBS_AT_A_TIME, after=after)]:
        yield from (job.id for job in transaction.get_jobs(ids, tenant=tenant) if _runs(job.args, name))
        after = ids[-1]


def _language(language: str) -> Language:
    try:
        return Language(language)
    except ValueError:
        raise InvalidScript(f"the language of a script must be {' or '.join(Language)}, not {language!r}") from None


def _differs(row: ScriptRow, version: ScriptVersionRow) -> bool:
    return (row.language, row.source, row.parameters) != (version.language, version.source, version.parameters)


def _summary(row: ScriptRow, *, is_changed: bool) -> dict[str, Any]:
    return {
        "name": row.name, "language": row.language, "note": row.note, "published": row.published,
        "versions": row.versions, "is_changed": is_changed,
        "revision": row.updated_at, "created": to_datetime(row.created_at), "updated": to_datetime(row.updated_at),
    }  # fmt: skip


def _view(transaction: Transaction, row: ScriptRow) -> ScriptView:
    parameters = json.loads(row.parameters or "null")
    is_changed = row.name not in transaction.unchanged_scripts([row.name], tenant=row.tenant)
    return ScriptView(**_summary(row, is_changed=is_changed), source=row.source, parameters=parameters)


def _version_summary(row: ScriptVersionRow) -> dict[str, Any]:
    return {
        "script": row.script, "version": row.version, "language": row.language, "sha256": row.digest,
        "note": row.note, "created": to_datetime(row.created_at),
    }  # fmt: skip


def _version_view(row: ScriptVersionRow) -> ScriptVersionView:
    parameters = json.loads(row.parameters or "null")
    return ScriptVersionView(**_version_summary(row), source=row.source, parameters=parameters)


def _published(transaction: Transaction, row: ScriptVersionRow) -> PublishedScript:
    """The version that is now published, with the schedules whose input it does not accept."""
    view, misfits = _version_view(row), list[ScheduleId]()
    for schedule in _schedules_of(transaction, row.tenant):
        given = json.loads(schedule.target.args)
        if given.get("script") == row.script and given.get("version") is None:
            try:
                check_input(view.parameters, given.get("input"))
            except InvalidArguments:
                misfits.append(schedule.id)
    return PublishedScript(**dict(view), misfits=tuple(misfits))


def _run_view(row: ScriptRunRow) -> ScriptRunView:
    shared = {
        name: getattr(row, name)
        for name in ScriptRunView.model_fields
        if name in ScriptRunRow._fields and name not in ("error", "host_calls")
    }
    error = None
    if row.error is not None:
        kept = JobError.from_text(row.error)
        place = json.loads(kept.data or "{}")
        error = ScriptErrorView(name=kept.type, message=kept.message, stack=kept.traceback, **place)
    calls = json.loads(row.host_calls)
    return ScriptRunView(**shared, ended=to_datetime(row.ended_at), error=error, host_calls=calls)


def _test_view(ended: Ended, one: Try) -> ScriptTestView:
    error = ended.error
    return ScriptTestView(
        outcome=ended.outcome.value, exceeded=ended.limit, result=json.loads(ended.result or "null"),
        error=None if error is None else ScriptErrorView(**error._asdict()),
        logs=tuple(ScriptLogLine(**line._asdict()) for line in ended.logs), logs_cut=ended.logs_cut,
        staged=tuple(one.staging.described()), host_calls=dict(ended.host_calls), cpu_ms=ended.cpu_ms,
        wall_ms=ended.wall_ms, rss_kb=ended.max_rss_kb, isolation=ended.isolation.value, engine=ended.engine,
    )  # fmt: skip


class AsyncScripts:
    """`app.aio.scripts`: like `TenantScripts`, but every call is awaited."""

    def __init__(self, blocking: TenantScripts) -> None:
        self.blocking = blocking
        self.executors = blocking._access.environment.executors

    def call(self, name: str, input: Any = None, *, version: int | None = None) -> FunctionCall:
        """A call of a script, for schedules and schedulers; see `TenantScripts.call`. It is not awaited."""
        return self.blocking.call(name, input, version=version)

    create = InThread(TenantScripts.create)
    edit = InThread(TenantScripts.edit)
    check = InThread(TenantScripts.check)
    publish = InThread(TenantScripts.publish)
    rollback = InThread(TenantScripts.rollback)
    delete = InThread(TenantScripts.delete)
    get = InThread(TenantScripts.get)
    list = InThread(TenantScripts.list)
    version = InThread(TenantScripts.version)
    versions = InThread(TenantScripts.versions)
    runs = InThread(TenantScripts.runs)
    run = InThread(TenantScripts.run)
    activity = InThread(TenantScripts.activity)
    start = InThread(TenantScripts.start)
    checked_call = InThread(TenantScripts.checked_call)
    test = InThread(TenantScripts.test)
    limits = InThread(TenantScripts.limits)
    set_plan = InThread(TenantScripts.set_plan)
    isolation = InThread(TenantScripts.isolation)
    levels = InThread(TenantScripts.levels)
