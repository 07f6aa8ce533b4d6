"""Operations: each is declared once, and the Python API, the HTTP API, the clients and the tools derive from it.

    class JobOperations:
        noun = "job"

        @writes(Endpoint("POST", "/jobs/{job_id}/cancel", Scope.OPERATE))
        def cancel(self, job_id: JobIdOrKey) -> Work[JobView]:
            ...

An operation is a function `(operations, ...) -> Work`: given what it needs, it returns work for a transaction. It has
an endpoint if it can be called over HTTP. `Parameter` in the annotation of a parameter describes its form in JSON.

An operation is a descriptor. Read from the operations it is the plain function. Read from an operation group such as
`app.jobs` it is a function that runs the work: blocking in a `Blocking` group, a coroutine in an `Awaited` one. Type
checkers see the operation's own parameters everywhere. Groups override `_run` to do something else with a call: a
client sends a request, a server checks and audits it.
"""

import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce, wraps
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from evertick.app.transacting import Page, Transact, TransactAsync, Work, in_pages, in_pages_async
from evertick.base import errors
from evertick.base.escaping import Verbatim
from evertick.base.options import Unchanged, spread
from evertick.base.paging import PAGE_MAX
from evertick.base.records.access import Scope

O = TypeVar("O")
O_co = TypeVar("O_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


# -- Declarations


class Parameter:
    """The type of a parameter in JSON: `Annotated[datetime | float, Parameter("Time")]`.

    - `json_type`: the type in JSON, if it differs from the Python type: a type, or the name of one in `app.bodies`.
      That module is imported only when it is needed, because it loads Pydantic.
    - `encode`: converts a Python value to that type. By default the client converts the usual types.
    - `decode`: converts back, if the Python API does not accept the JSON type.
    - `limits`: limits of a Pydantic field, such as `ge=1` or `max_length=100`.
    """

    def __init__(
        self,
        json_type: Any = None,
        /,
        *,
        description: str = "",
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        **limits: Any,
    ) -> None:
        self.json_type = json_type
        self.description = description
        self.encode = encode
        self.decode = decode
        self.limits = limits


PageLimit: TypeAlias = Annotated[int, Parameter(ge=1, le=PAGE_MAX)]
"""How many rows a page has at most."""
PageCursor: TypeAlias = Annotated[str | None, Parameter(max_length=1_000)]
"""Where a page continues: the cursor of the page before it; None for the first page."""


class RequestSender(Protocol):
    """The sender of an HTTP request, as passed to `Endpoint.check_arguments`."""

    def with_args(self, work: Work[T], function_of: Work[str]) -> Work[T]:
        """Check that the sender may call the function that `function_of` returns with other arguments; returns the
        work.

        Raises an error if the sender may not do that.
        """
        ...


ArgumentCheck = Callable[[RequestSender, Any, Work[Any], Mapping[str, Any]], Work[Any]]
"""Takes the sender, the operations, the work and its arguments by name; returns the work, or raises if the sender may
not do it with these arguments."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How an operation is called over HTTP: its method, path and required scope, and what a call returns and records.

    A parameter whose name is in the path is read from there. The others are read from the query of a GET or DELETE
    request, or from the body of other requests. A parameter with the default UNCHANGED is optional, and null is a
    value.
    """

    method: str
    path: str
    scope: Scope
    operation_id: str = field(default="", kw_only=True)
    """Its id in OpenAPI, from which generated clients name their functions. Default: `cancel_job`."""
    description: str = field(default="", kw_only=True)
    """Its description in OpenAPI. Default: the first paragraph of the operation's docstring."""
    status: int = field(default=200, kw_only=True)
    """The HTTP status of a successful reply."""
    returns_id: bool = field(default=False, kw_only=True)
    """Whether the result is an id, which the reply has as `{"id": ...}`."""
    http_defaults: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Defaults of parameters that differ over HTTP from those in Python."""
    body_name: str = field(default="", kw_only=True)
    """The name of the schema of the body, or of the query. Default: derived from the operation id."""
    audit_action: str = field(default="", kw_only=True)
    """The action in the audit log, whose target is the first argument. Default: `job.cancel`; none for GET."""
    read_before: str = field(default="", kw_only=True)
    """The operation that reads the state before the change, for the audit log. Default: `get` if the path has a
    parameter."""
    is_idempotent: bool = field(default=False, kw_only=True)
    """Whether it takes the header `Idempotency-Key`."""
    check_arguments: ArgumentCheck | None = field(default=None, kw_only=True)
    """Refuses arguments that need more than the scope."""
    default_filters: Callable[[dict[str, Any]], dict[str, Any]] | None = field(default=None, kw_only=True)
    """For a change of many: the given filters with those that it adds itself. `count` with the result is compared with
    the `expect` of a request."""

    @property
    def has_query(self) -> bool:
        """Whether parameters are in the query, not in a body."""
        return self.method in ("GET", "DELETE")

    def named(self, noun: str, operation: str) -> "Endpoint":
        """The endpoint with its defaults filled in, for an operation with this name on `noun`, such as "job"."""
        changes = self.method != "GET"
        return replace(
            self,
            operation_id=self.operation_id or f"{operation}_{noun}",
            audit_action=self.audit_action or (f"{noun}.{operation}" if changes else ""),
            read_before=self.read_before or ("get" if changes and "{" in self.path else ""),
        )


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of an operation, with its declaration. Each filter in `**where` is also an argument."""

    name: str
    default: Any
    """`inspect.Parameter.empty` if the argument is required."""
    is_filter: bool
    python_type: Any
    parameter: Parameter


class Operation(Generic[P, T]):
    """An operation that was declared with `reads`, `writes` or `writes_pages`.

    `runs_as` is the method of a group that runs it: `read`, `write` or `write_pages`.
    """

    def __init__(self, function: Callable[..., Any], runs_as: str, endpoint: Endpoint | None = None) -> None:
        self.function = function
        self.runs_as = runs_as
        self._endpoint = endpoint
        self.__doc__ = function.__doc__
        given = inspect.signature(function)
        # Of `Work[T]` the work returns T; a change in pages returns the sum of their counts.
        result = int if runs_as == "write_pages" else get_args(given.return_annotation)[1]
        own = list(given.parameters.values())[self.bound_count :]
        parameters = [each for one in own for each in shown(one)]
        self._signature = given.replace(parameters=parameters, return_annotation=shown_kind(result))

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        if self._endpoint is not None:
            noun: str = owner.noun  # type: ignore[attr-defined]
            self._endpoint = self._endpoint.named(noun, name)

    @property
    def bound_count(self) -> int:
        """How many leading parameters a group passes itself: the operations object, and for `write_pages` the id after
        which a page begins.
        """
        return 2 if self.runs_as == "write_pages" else 1

    @property
    def has_endpoint(self) -> bool:
        """Whether it can be called over HTTP."""
        return self._endpoint is not None

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint. Raises Misuse if the operation cannot be called over HTTP."""
        if self._endpoint is None:
            raise errors.Misuse(f"{self.name}() has no endpoint: it needs the database itself")
        return self._endpoint

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The parameters that a caller passes. The filters come first, each as its own argument."""
        hints = get_type_hints(self.function, include_extras=True)
        if record := getattr(self.function, "record", None):
            hints |= get_type_hints(record, include_extras=True)
        filters, others = list[Argument](), list[Argument]()
        for each in list(inspect.signature(self.function).parameters.values())[self.bound_count :]:
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                [table] = get_args(hints[each.name])
                found = get_type_hints(table, include_extras=True)
                filters += [Argument(name, None, True, *_declared(hint)) for name, hint in found.items()]
            else:
                others.append(Argument(each.name, each.default, False, *_declared(hints[each.name])))
        return (*filters, *others)

    @cached_property
    def filters(self) -> tuple[str, ...]:
        """The names of the filters."""
        return tuple(each.name for each in self.arguments if each.is_filter)

    @cached_property
    def result_type(self) -> Any:
        """The result type of its work."""
        return get_args(get_type_hints(self.function)["return"])[1]

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, without the sentence about errors."""
        return " ".join((self.__doc__ or "").partition("\n\n")[0].split()).partition(" Raises ")[0]

    @property
    def description(self) -> str:
        """The description for callers over HTTP: the endpoint's description or the summary, and the codes of the
        errors.
        """
        named = re.findall(r"\b[A-Z]\w+", (self.__doc__ or "").partition("Raises ")[2])
        kinds = [getattr(errors, each, None) for each in dict.fromkeys(named)]
        codes = [
            f"`{kind.code}`" for kind in kinds if isinstance(kind, type) and issubclass(kind, errors.EvertickError)
        ]
        return (self.endpoint.description or self.summary) + (f"\n\nProblems: {', '.join(codes)}." if codes else "")

    @overload
    def __get__(self, group: "Blocking[Any]", owner: type, /) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: "Awaited[Any]", owner: type, /) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, group: None, owner: type, /) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, group: object, owner: type, /) -> Callable[P, Work[T]]: ...

    def __get__(self, group: object, owner: type, /) -> Any:
        if group is not None and not isinstance(group, OperationGroup):
            return partial(self.function, group)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(*args, **kwargs) if group is None else self._call(group, *args, **kwargs)

        wraps(self.function)(call).__signature__ = self._signature  # type: ignore[attr-defined]
        call.__name__ = call.__qualname__ = self.name
        return call

    def _call(self, group: "OperationGroup[Any]", /, *args: Any, **kwargs: Any) -> Any:
        # It loads asyncio, which `from evertick import App` does without.
        from evertick.rules.workflows.event_loop import DeterministicLoop, running_loop

        if isinstance(running_loop(), DeterministicLoop):
            raise errors.NotDeterministic(
                f"{self.name}() reads the database, which may differ in every replay: put the call into a "
                "query, a mutation or an action, and call step.run(...)"
            )
        return group._run(self, args, kwargs)


@overload
def reads(endpoint: Endpoint, /) -> Callable[[Callable[Concatenate[O, P], Work[T]]], Operation[P, T]]: ...
@overload
def reads(operation: Callable[Concatenate[O, P], Work[T]], /) -> Operation[P, T]: ...
def reads(declared: Any, /) -> Any:
    """Declare an operation that only reads. Pass an endpoint if it can be called over HTTP."""
    return _operation(declared, "read")


@overload
def writes(endpoint: Endpoint, /) -> Callable[[Callable[Concatenate[O, P], Work[T]]], Operation[P, T]]: ...
@overload
def writes(operation: Callable[Concatenate[O, P], Work[T]], /) -> Operation[P, T]: ...
def writes(declared: Any, /) -> Any:
    """Declare an operation that changes the database in one transaction. Pass an endpoint if it can be called over
    HTTP.
    """
    return _operation(declared, "write")


@overload
def writes_pages(
    endpoint: Endpoint, /
) -> Callable[[Callable[Concatenate[O, str, P], Work[Page]]], Operation[P, int]]: ...
@overload
def writes_pages(operation: Callable[Concatenate[O, str, P], Work[Page]], /) -> Operation[P, int]: ...
def writes_pages(declared: Any, /) -> Any:
    """Declare an operation that changes many rows in pages, each in its own transaction. It returns the total count.

    The function takes the id after which a page begins. Pass an endpoint if it can be called over HTTP.
    """
    return _operation(declared, "write_pages")


def _operation(declared: Any, runs_as: str) -> Any:
    if isinstance(declared, Endpoint):
        return partial(Operation, runs_as=runs_as, endpoint=declared)
    return Operation(declared, runs_as)


def http_operations(kind: type) -> list[Operation[Any, Any]]:
    """The operations that a class itself declares with endpoints, in the order in which routes must be added.

    Paths without parameters come first: `/jobs/count` would otherwise match `/jobs/{job_id}`.
    """
    found = [each for each in vars(kind).values() if isinstance(each, Operation) and each.has_endpoint]
    return sorted(found, key=lambda each: "{" in each.endpoint.path)


def _declared(hint: Any) -> tuple[Any, Parameter]:
    """A type, and what its annotation declares."""
    if get_origin(hint) is UnionType and Unchanged in get_args(hint):
        hint = reduce(or_, (each for each in get_args(hint) if each is not Unchanged))
    if get_origin(hint) is not Annotated:
        return hint, Parameter()
    kind, *extras = get_args(hint)
    return kind, next((each for each in extras if isinstance(each, Parameter)), Parameter())


def shown(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """A parameter as `help()` shows it; `**where` as the names of the filters."""
    return [each.replace(annotation=shown_kind(each.annotation)) for each in spread(parameter)]


def shown_kind(annotation: Any) -> Verbatim:
    """A type as `help()` shows it, without its modules and without what is declared for JSON: `datetime | None`."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return Verbatim(re.sub(r"\b[a-z_]+\.", "", inspect.formatannotation(annotation)))


# -- Groups of operations, such as `app.jobs`


class OperationGroup(Generic[O_co]):
    """A subject's operations together with the way to run them, such as `app.jobs`."""

    read: Any
    write: Any
    _progress: Callable[[int], object] | None = None

    def __init__(self, operations: O_co) -> None:
        self.operations = operations
        """The operations as plain functions that return work for a transaction."""

    def with_operations(self, operations: Any) -> Self:
        """A copy of this group that runs other operations."""
        copy = self._copy()
        copy.operations = operations
        return copy

    def with_progress(self, progress: Callable[[int], object]) -> Self:
        """A copy of this group that calls `progress` after each page of an operation on many rows, with the total so
        far.

            app.jobs.with_progress(print).cancel_all(function=send)

        An exception that `progress` raises ends the operation; the pages before it stay changed.
        """
        copy = self._copy()
        copy._progress = progress
        return copy

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def _run(self, operation: Operation[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation with these arguments; returns its result, or a coroutine in an `Awaited` group."""
        run, function, operations = getattr(self, operation.runs_as), operation.function, self.operations
        if operation.runs_as == "write_pages":
            return run(lambda after: function(operations, after, *args, **kwargs))
        return run(function(operations, *args, **kwargs))


class Blocking(OperationGroup[O_co]):
    """A group whose calls block until they are done. `read` runs operations that read, `write` those that change."""

    def __init__(self, operations: O_co, read: Transact, write: Transact) -> None:
        super().__init__(operations)
        self.read: Transact = read
        self.write: Transact = write

    def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the sum of the counts."""
        return in_pages(self.write, page, self._progress)


class Awaited(OperationGroup[O_co]):
    """A group whose calls are awaited. `read` runs operations that read, `write` those that change."""

    def __init__(self, operations: O_co, read: TransactAsync, write: TransactAsync) -> None:
        super().__init__(operations)
        self.read: TransactAsync = read
        self.write: TransactAsync = write

    async def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the sum of the counts."""
        return await in_pages_async(self.write, page, self._progress)


class InThread(Generic[P, T]):
    """An awaitable method that calls `method` of a blocking object in a thread. Its class has the blocking object as
    `blocking`, and the threads as `executors`.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, twin: Any, owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(self._method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            found: T = await twin.executors.call(lambda: self._method(twin.blocking, *args, **kwargs))
            return found

        return call
