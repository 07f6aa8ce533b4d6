"""Functions by their names alone: for work on a database without the app's code, such as the command line.

What a function is (a mutation or an action) is learned from what the database has seen of it: a job that called it, a
worker that has it, or a schedule that calls it. One that was never seen counts as a mutation; the worker that has its
code corrects that at the first run. Arguments are an object of JSON by parameter name, and are checked when they run.
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
JOBS_LOOKED_AT = 1_000
NAMES_SHOWN = 5


class NamedFunction(Function[..., Any]):
    """A function of which only the name is known, and what it seems to be. It cannot be called here."""

    def __init__(
        self, name: str, kind: FunctionKind, *, seen: bool, meant: Sequence[str] = (), signatures: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.pool = DEFAULT_POOL
        self.app_name = None
        self.kind = kind
        self.seen = seen
        """Whether the database has seen it before."""
        self.meant = meant
        """Names that the database has seen and that may have been meant, if it has not seen this one."""
        self.signatures = signatures
        """Its parameters as live workers have registered them, `(user: str)`; releases side by side may differ."""

    def misfit(self, args: Mapping[str, Any]) -> str | None:
        """Why no registered signature accepts these arguments; None if one does, or none is known."""
        problems = [problem_of(signature, args) for signature in self.signatures]
        return problems[0] if problems and all(problems) else None

    def encode_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The arguments as JSON. Raises InvalidArguments for what is none, or has no names."""
        if args:
            raise InvalidArguments(f"{self.name}: give arguments by their names; the code that orders them is not here")
        text = json_of_typed(dict(kwargs), f"{self.name}: what it is called with")
        if readable(text) != text:
            raise InvalidArguments(f"{self.name}: what it is called with has a lone surrogate: {text[:100]}")
        return text


class NamedFunctions:
    """Every name is a function; see `evertick.app.scheduling.job_builder.Functions`."""

    def __init__(self, store: Store, tenant: TenantId) -> None:
        self._store = store
        self._tenant = tenant

    def resolve(self, target: Target, /) -> Function[..., Any]:
        """The function of that name. Raises Misuse for what is not a name."""
        if isinstance(target, Function):
            return target
        if not isinstance(target, str) or not target.strip() or not target.isprintable():
            raise Misuse(f"a function's name is printable text, not {target!r}")
        if len(target) > NAME_CHARS_MAX:
            raise Misuse(f"a function's name has at most {NAME_CHARS_MAX} characters, not {len(target)}")
        return self._store.read(lambda transaction: self._named(transaction, target))

    def __iter__(self) -> Iterator[Function[..., Any]]:
        return iter(())  # none is at hand

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
    """What is wrong with arguments for a signature as text, as far as names and plain types tell; None if they fit."""
    try:
        [definition] = ast.parse(f"def f{signature}: ...").body
    except SyntaxError:
        return None  # it was cut, or its defaults have no form as code
    assert isinstance(definition, ast.FunctionDef)  # noqa: S101
    arguments = definition.args
    optional = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    parameters = dict(zip(arguments.args, optional, strict=True)) | dict(
        zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    )
    names = {each.arg for each in (*arguments.posonlyargs, *parameters)}
    unknown = [] if arguments.kwarg else sorted(given.keys() - names)
    if unknown:
        return f"there is no parameter {unknown[0]!r}"
    for parameter, default in parameters.items():
        name, annotation = parameter.arg, parameter.annotation
        if name not in given:
            if default is None:
                return f"{name!r} is missing"
        elif isinstance(annotation, ast.Name) and annotation.id in _PLAIN_TYPES:
            try:
                TypeAdapter(_PLAIN_TYPES[annotation.id]).validate_python(given[name])
            except ValidationError:
                return f"{name!r} is {annotation.id}, not {json.dumps(given[name])[:60]}"
    return None


def check_event(transaction: Transaction, workflow: str, event: str, value: Any) -> None:
    """Raise InvalidArguments for an event that no live worker's code of a workflow takes, as far as plain types tell.

    Where no worker has the workflow, or one declares no events, every event is taken.
    """
    found = [
        each.events for one in served(transaction.list_workers()) for each in one.functions if each.name == workflow
    ]
    problems = [_problem_of_event(events, event, value) for events in found]
    if problems and all(problems):
        raise InvalidArguments(f"no live worker's {workflow} takes the event {event!r}: {problems[0]}")


def _problem_of_event(events: Mapping[str, str] | None, event: str, value: Any) -> str | None:
    if events is None:
        return None
    if event not in events:
        return f"the events that it declares are {', '.join(events)}"
    return problem_of(f"(value: {events[event]})", {"value": value})


def names_seen(transaction: Transaction, tenant: TenantId) -> set[str]:
    """The names of functions that workers have, and of those of a tenant's recent jobs."""
    serves = served(transaction.list_workers())
    jobs = transaction.list_jobs(JobFilter(tenant=tenant), limit=JOBS_LOOKED_AT, newest_first=True)
    return {function.name for each in serves for function in each.functions} | {job.name for job in jobs}


def require_seen(transaction: Transaction, name: str, tenant: TenantId) -> None:
    """Raise FunctionNotFound if no worker, job or schedule has the function `name`, although some have others."""
    names = names_seen(transaction, tenant)
    if names and name not in names and _kind_seen(transaction, name, tenant) is None:
        raise unknown_function(name, names)


def unknown_function(name: str, names: set[str]) -> FunctionNotFound:
    """The error for a function that nothing has, with the names that there are."""
    near = nearest_names(name, names)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(names)[:NAMES_SHOWN])}"
    return FunctionNotFound(f"no worker, job or schedule has a function {name!r}; {hint}")


def app_of_scripts(transaction: Transaction, tenant: TenantId) -> str | None:
    """The app that runs scripts: that of the last run of a tenant, or of a worker; None if there was neither."""
    jobs = transaction.list_jobs(JobFilter(tenant=tenant, name=SCRIPT_FUNCTION), limit=1, newest_first=True)
    if jobs and (app := app_of(jobs[0].pool)) is not None:
        return app
    workers = transaction.list_workers()
    return next((each.app for each in reversed(workers) if served_under(SCRIPT_FUNCTION, each.app, [each])), None)


def _kind_seen(transaction: Transaction, name: str, tenant: TenantId) -> FunctionKind | None:
    if name in OWN_FUNCTIONS:
        return FunctionKind.ACTION  # of every app that has them
    # A job was claimed by a worker that has the function, so its kind is the more certain one.
    jobs = transaction.list_jobs(JobFilter(tenant=tenant, name=name), limit=1, newest_first=True)
    if jobs:
        return jobs[0].kind
    serves = served(transaction.list_workers())
    kinds = [function.kind for each in serves for function in each.functions if function.name == name]
    if kinds:
        return kinds[0]
    rows = transaction.list_schedules(ScheduleFilter(tenant=tenant, function=name), limit=1)
    return rows[0].with_defaults().target.kind if rows else None
