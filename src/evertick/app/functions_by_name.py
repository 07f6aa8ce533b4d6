"""Functions known only by name: for work on a database without the app's code, such as on the command line.

The kind of a function (mutation or action) is taken from the database: from a job that called it, a worker that has it,
or a schedule that calls it. An unknown function counts as a mutation; the worker that has its code corrects that at the
first run. Arguments are a JSON object by parameter name, and are checked when the function runs.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from evertick.app.functions.function import Function
from evertick.app.registry import nearest_names
from evertick.app.scheduling.job_builder import Target
from evertick.base.errors import FunctionNotFound, InvalidArguments, Misuse
from evertick.base.ids import DEFAULT_POOL, TenantId, app_of
from evertick.base.records.jobs import OWN_FUNCTIONS, SCRIPT_FUNCTION, FunctionKind, JobFilter
from evertick.base.records.schedules import ScheduleFilter
from evertick.base.records.stored import json_of_typed, readable
from evertick.rules.jobs.coverage import served, served_under
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction

NAME_CHARS_MAX = 512
JOBS_SCANNED_MAX = 1_000
NAMES_SHOWN = 5


class NamedFunction(Function[..., Any]):
    """A function of which only the name and the presumed kind are known. It cannot be called in this process."""

    def __init__(
        self, name: str, kind: FunctionKind, *, seen: bool, meant: Sequence[str] = (), signatures: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.pool = DEFAULT_POOL
        self.app_name = None
        self.kind = kind
        self.seen = seen
        """Whether the database contains it."""
        self.meant = meant
        """Similar names in the database, if it does not contain this one."""
        self.signatures = signatures
        """Its parameters as live workers registered them, `(user: str)`; workers of several releases may differ."""

    def misfit(self, args: Mapping[str, Any]) -> str | None:
        """The reason why no registered signature accepts these arguments; None if one does, or none is known."""
        problems = [problem_of(signature, args) for signature in self.signatures]
        return problems[0] if problems and all(problems) else None

    def encode_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The arguments as JSON. Raises InvalidArguments for values that are not JSON, and for positional arguments."""
        if args:
            raise InvalidArguments(f"{self.name}: give arguments by name; their order is not known without the code")
        text = json_of_typed(dict(kwargs), f"{self.name}: its arguments")
        if readable(text) != text:
            raise InvalidArguments(f"{self.name}: its arguments contain a lone surrogate: {text[:100]}")
        return text


class NamedFunctions:
    """Resolves every name to a function; see `evertick.app.scheduling.job_builder.Functions`."""

    def __init__(self, store: Store, tenant: TenantId) -> None:
        self._store = store
        self._tenant = tenant

    def resolve(self, target: Target, /) -> Function[..., Any]:
        """The function with this name. Raises Misuse if it is not a valid name."""
        if isinstance(target, Function):
            return target
        if not isinstance(target, str) or not target.strip() or not target.isprintable():
            raise Misuse(f"a function's name must be printable text, not {target!r}")
        if len(target) > NAME_CHARS_MAX:
            raise Misuse(f"a function's name must have at most {NAME_CHARS_MAX} characters, not {len(target)}")
        return self._store.read(lambda transaction: self._named(transaction, target))

    def __iter__(self) -> Iterator[Function[..., Any]]:
        return iter(())  # none is known

    def _named(self, transaction: Transaction, name: str) -> NamedFunction:
        kind = _kind_seen(transaction, name, self._tenant)
        if kind is not None:
            serves = served(transaction.list_workers())
            signatures = {each.signature for one in serves for each in one.functions if each.name == name}
            return NamedFunction(name, kind, seen=True, signatures=sorted(signatures))
        meant = nearest_names(name, names_seen(transaction, self._tenant))
        return NamedFunction(name, FunctionKind.MUTATION, seen=False, meant=meant)


_PLAIN_TYPES: Final[Mapping[str, type]] = {each.__name__: each for each in (str, int, float, bool, list, dict)}


def problem_of(signature: str, given: Mapping[str, Any]) -> str | None:
    """The problem of arguments for a signature as text, judged by names and plain types; None if they match."""
    try:
        [definition] = ast.parse(f"def f{signature}: ...").body
    except SyntaxError:
        return None  # it was truncated, or its defaults cannot be written as code
    assert isinstance(definition, ast.FunctionDef)  # noqa: S101
    arguments = definition.args
    optional = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    parameters = dict(zip(arguments.args, optional, strict=True)) | dict(
        zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    )
    names = {each.arg for each in (*arguments.posonlyargs, *parameters)}
    unknown = [] if arguments.kwarg else sorted(given.keys() - names)
    if unknown:
        return f"no parameter {unknown[0]!r}"
    for parameter, default in parameters.items():
        name, annotation = parameter.arg, parameter.annotation
        if name not in given:
            if default is None:
                return f"{name!r} is missing"
        elif isinstance(annotation, ast.Name) and annotation.id in _PLAIN_TYPES:
            try:
                TypeAdapter(_PLAIN_TYPES[annotation.id]).validate_python(given[name])
            except ValidationError:
                return f"{name!r} must be {annotation.id}, not {json.dumps(given[name])[:60]}"
    return None


def check_event(transaction: Transaction, workflow: str, event: str, value: Any) -> None:
    """Raise InvalidArguments if no live worker's code of a workflow accepts the event, judged by plain types.

    If no worker has the workflow, or one of them declares no events, every event is accepted.
    """
    found = [
        each.events for one in served(transaction.list_workers()) for each in one.functions if each.name == workflow
    ]
    problems = [_problem_of_event(events, event, value) for events in found]
    if problems and all(problems):
        raise InvalidArguments(f"no live worker's {workflow} accepts the event {event!r}: {problems[0]}")


def _problem_of_event(events: Mapping[str, str] | None, event: str, value: Any) -> str | None:
    if events is None:
        return None
    if event not in events:
        return f"it declares the events {', '.join(events)}"
    return problem_of(f"(value: {events[event]})", {"value": value})


def names_seen(transaction: Transaction, tenant: TenantId) -> set[str]:
    """The names of functions of all workers and of a tenant's recent jobs."""
    serves = served(transaction.list_workers())
    jobs = transaction.list_jobs(JobFilter(tenant=tenant), limit=JOBS_SCANNED_MAX, newest_first=True)
    return {function.name for each in serves for function in each.functions} | {job.name for job in jobs}


def require_seen(transaction: Transaction, name: str, tenant: TenantId) -> None:
    """Raise FunctionNotFound if no worker, job or schedule has the function `name`, although others exist."""
    names = names_seen(transaction, tenant)
    if names and name not in names and _kind_seen(transaction, name, tenant) is None:
        raise unknown_function(name, names)


def unknown_function(name: str, names: set[str]) -> FunctionNotFound:
    """The error for an unknown function, with similar or known names."""
    near = nearest_names(name, names)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(names)[:NAMES_SHOWN])}"
    return FunctionNotFound(f"no worker, job or schedule has a function {name!r}; {hint}")


def app_of_scripts(transaction: Transaction, tenant: TenantId) -> str | None:
    """The app that runs scripts, from the last run of a tenant or from a worker; None if there is neither."""
    jobs = transaction.list_jobs(JobFilter(tenant=tenant, name=SCRIPT_FUNCTION), limit=1, newest_first=True)
    if jobs and (app := app_of(jobs[0].pool)) is not None:
        return app
    workers = transaction.list_workers()
    return next((each.app for each in reversed(workers) if served_under(SCRIPT_FUNCTION, each.app, [each])), None)


def _kind_seen(transaction: Transaction, name: str, tenant: TenantId) -> FunctionKind | None:
    if name in OWN_FUNCTIONS:
        return FunctionKind.ACTION  # every app that has them
    # The worker that claimed a job has the function, so the job's kind is the most reliable one.
    jobs = transaction.list_jobs(JobFilter(tenant=tenant, name=name), limit=1, newest_first=True)
    if jobs:
        return jobs[0].kind
    serves = served(transaction.list_workers())
    kinds = [function.kind for each in serves for function in each.functions if function.name == name]
    if kinds:
        return kinds[0]
    rows = transaction.list_schedules(ScheduleFilter(tenant=tenant, function=name), limit=1)
    return rows[0].with_defaults().target.kind if rows else None
