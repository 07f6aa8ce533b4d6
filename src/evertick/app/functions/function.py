"""Functions: what the decorators make of a user's function, and how its arguments travel.

A function is known by its name, `module.function`, so that a job finds the code that is deployed when it runs. Its
arguments are kept as a JSON object by parameter name, checked against the signature with pydantic when the call is
scheduled and again when it runs (old rows may meet new code). Types such as datetime, Decimal, UUID, bytes and enums
come back as what the annotations say.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NotRequired, ParamSpec, TypeVar, cast, get_type_hints

from evertick.app.functions.events import EventTypes
from evertick.app.functions.explaining import problems_of
from evertick.base.errors import ArgumentsTooLarge, InvalidArguments, RegistrationError, ValueTooLarge
from evertick.base.escaping import Verbatim
from evertick.base.ids import DEFAULT_POOL
from evertick.base.records.jobs import FunctionKind, RetryPolicy, ServedFunction
from evertick.base.records.stored import size_of, storable
from evertick.base.records.workflows import CallKind

if TYPE_CHECKING:
    from evertick.app.functions.codec import Codec, ListCodec

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

ARGS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of arguments of one job."""
RESULT_BYTES_MAX: Final = 1024 * 1024
SIGNATURE_CHARS_MAX: Final = 1_000
"""A longer signature is cut where a worker tells it."""
EXPLAINED_MAX: Final = 1_000
"""With more errors in arguments, only their number is reported: pydantic takes seconds to write out 100,000."""
_NULL: Final = "null"
ARGUMENTS_INVALID: Final = "ArgumentValidationError"
OPTION_NAMES: Final = frozenset(
    ("context", "key", "limit_key", "on_complete", "on_complete_for", "on_conflict", "pool", "priority", "retry")
)
"""Options of jobs, which are not arguments of their functions."""
"""The name, Convex's too, of an error that says which arguments do not fit."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with checked and encoded arguments, made by `fn.with_args(...)`: what to schedule or to call."""

    function: "Function[..., Any]"
    args: str


class Function(Generic[P, R_co]):
    """A registered function. Calling it calls the decorated function directly, with the context that the caller
    passes.
    """

    kind: FunctionKind
    events: EventTypes | None = None
    """The events that a workflow declares; None if it takes any."""
    attempt: Callable[..., Awaitable[Any]] | None = None
    """What runs its jobs instead of a call of the handler: (execution, claim, running action, occurrence) -> `Ran`."""
    check_schedule: Callable[..., None] | None = None
    """Refuses schedules of it, in their transaction: (transaction, tenant, schedule id, arguments, spec, now)."""

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        name: str | None,
        internal: bool,
        timeout_ms: int | None,
        cpu_limit_ms: int | None = None,
        app_name: str | None,
    ) -> None:
        update_wrapper(cast("Callable[..., Any]", self), handler)
        self.handler = handler
        self.name = name or default_name(handler)
        self.internal = internal
        self.timeout_ms = timeout_ms
        self.cpu_limit_ms = cpu_limit_ms
        self.app_name = app_name
        """The app that it is registered with; None where only its name is known."""
        self.pool = DEFAULT_POOL
        """The full name of the pool of its jobs."""
        self.retry: RetryPolicy | None = None
        """How its jobs are tried again where their caller does not say: as its pool's, if it is an action."""
        self.aliases: tuple[str, ...] = ()
        """Names that it had: jobs and schedules that were written under one of them run this function."""
        self.is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
        self._parameters = _parameters_of(handler, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function: `fn(ctx, ...)`, inside whatever transaction `ctx` belongs to."""
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.name}>"

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> FunctionCall:
        """Check the arguments and return a call of this function, for a schedule (`do=`) or for `run_after_many`.

        Raises InvalidArguments if they do not fit the signature.
        """
        return FunctionCall(self, self.encode_args(args, kwargs))

    @property
    def call_kind(self) -> CallKind:
        """The kind of call that a workflow makes with this function. Subclasses narrow the type for type checkers."""
        return CallKind(self.kind.value)

    # -- arguments

    @cached_property
    def _codec(self) -> "Codec":
        """The signature as a pydantic validator; built on first use, because forward references resolve late."""
        from evertick.app.functions.codec import codec_of_signature

        try:
            hints = get_type_hints(self.handler, include_extras=True)
        except Exception as error:
            raise RegistrationError(f"{self.name}: its annotations cannot be resolved: {error}") from error
        fields: dict[str, Any] = {}
        hint: Any
        for parameter in self._parameters:
            hint = hints.get(parameter.name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                fields[parameter.name] = NotRequired[list.__class_getitem__(hint)]
            elif parameter.kind is parameter.VAR_KEYWORD:
                fields[parameter.name] = NotRequired[dict.__class_getitem__((str, hint))]
            else:
                fields[parameter.name] = hint if parameter.default is parameter.empty else NotRequired[hint]
        try:
            return codec_of_signature(fields)
        except Exception as error:
            raise _unfit(self.name, "its arguments", error) from error

    @cached_property
    def _result_codec(self) -> "ListCodec":
        from evertick.app.functions.codec import codec_of_type

        hint = get_type_hints(self.handler, include_extras=True).get("return", Any)
        try:
            return codec_of_type(hint)
        except Exception as error:
            raise _unfit(self.name, "what it returns", error) from error

    def check(self) -> None:
        """Resolve the annotations and build the codecs now, so that errors appear when the program starts.

        Raises RegistrationError.
        """
        _ = self._codec, self._result_codec

    def encode_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The JSON text of one call's arguments.

        Raises InvalidArguments if they do not fit the signature.
        """
        bound = self._bind(args, kwargs)
        try:
            return self._codec.write(self._codec.check(bound))
        except ValueError as error:  # all of pydantic's errors are, and UnicodeEncodeError
            raise InvalidArguments(self._explain(error)) from error

    def decode_args(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of a stored call.

        Raises InvalidArguments if they do not fit the signature, which may have changed since.
        """
        try:
            values: dict[str, Any] = self._codec.read(text)
        except ValueError as error:
            raise InvalidArguments(self._explain(error)) from error
        if self._plain:
            return (), values
        positional: list[Any] = []
        for parameter in self._parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.extend(values.pop(parameter.name, ()))
            elif parameter.kind is parameter.VAR_KEYWORD:
                values |= values.pop(parameter.name, {})
            elif parameter.name in values and (
                parameter.kind is parameter.POSITIONAL_ONLY
                or (self._has_var_positional and parameter.kind is parameter.POSITIONAL_OR_KEYWORD)
            ):
                positional.append(values.pop(parameter.name))
        return tuple(positional), values

    def checked_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments after encoding and decoding: checked, and sharing no object with the caller's.

        Raises InvalidArguments if they do not fit the signature.
        """
        return self.decode_args(self.encode_args(args, kwargs))

    def encode_result(self, value: Any) -> str:
        """The JSON text of the function's result.

        Raises InvalidArguments if it cannot be written as JSON and read back, ValueTooLarge above RESULT_BYTES_MAX.
        """
        if value is None:
            return _NULL
        try:
            text = self._result_codec.write_one(value)
        except ValueError as error:
            raise InvalidArguments(f"{self.name}: what it returned cannot be stored as JSON: {error}") from error
        size = size_of(text)
        if size > RESULT_BYTES_MAX:
            raise ValueTooLarge(f"{self.name}: it returned {size} bytes; the limit is {RESULT_BYTES_MAX}")
        return text

    def decode_result(self, text: str) -> R_co:
        """The function's result, decoded from its JSON text."""
        if text == _NULL:
            return cast("R_co", None)
        return cast("R_co", self._result_codec.read_one(text))

    @property
    def parameter_names(self) -> list[str]:
        """The names of the parameters, without the context."""
        return [parameter.name for parameter in self._parameters]

    @cached_property
    def served(self) -> ServedFunction:
        """The description of this function that a worker stores in the database: its name, kind, pool and signature."""
        # Under `from __future__ import annotations` they are text, which would stand in quotes.
        shown = [
            each.replace(annotation=Verbatim(each.annotation)) if isinstance(each.annotation, str) else each
            for each in self._parameters
        ]
        signature = storable(str(inspect.Signature(shown)))
        return ServedFunction(self.name, self.kind, self.pool, signature[:SIGNATURE_CHARS_MAX], self.retry, self.name)

    @cached_property
    def argument_schema(self) -> dict[str, Any]:
        """The JSON schema of a call's arguments; see `schema_of`."""
        from evertick.app.functions.schema import schema_of

        return schema_of(self._codec.adapter, self._parameters)

    @cached_property
    def _plain(self) -> bool:
        ordinary = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return all(parameter.kind in ordinary for parameter in self._parameters)

    @cached_property
    def _has_var_positional(self) -> bool:
        return any(parameter.kind is parameter.VAR_POSITIONAL for parameter in self._parameters)

    @cached_property
    def _positional_names(self) -> tuple[str, ...]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return tuple(parameter.name for parameter in self._parameters if parameter.kind in kinds)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if not args and self._plain:
            return dict(kwargs)
        names = self._positional_names
        bound = dict(zip(names, args, strict=False))
        if self._plain and not kwargs and len(args) <= len(names):
            return bound
        twice = bound.keys() & kwargs.keys()
        if twice:
            raise InvalidArguments(f"{self.name}: {', '.join(sorted(twice))} given twice")
        extra = args[len(names) :]
        for parameter in self._parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                bound[parameter.name] = list(extra)
                extra = ()
            elif parameter.kind is parameter.VAR_KEYWORD:
                known = {p.name for p in self._parameters}
                bound[parameter.name] = {key: value for key, value in kwargs.items() if key not in known}
                kwargs = {key: value for key, value in kwargs.items() if key in known}
        if extra:
            raise InvalidArguments(
                f"{self.name} takes {len(names)} positional argument(s) after the context, got {len(args)}"
            )
        return bound | dict(kwargs)

    def _explain(self, error: ValueError) -> str:
        from pydantic_core import ValidationError

        if not isinstance(error, ValidationError):
            return f"{self.name}: its arguments cannot be stored as JSON: {error}"
        call = f"{ARGUMENTS_INVALID}: {self.name}({', '.join(self.parameter_names)})"
        if (count := error.error_count()) > EXPLAINED_MAX:
            return f"{call}: {count:,} values do not fit its signature"
        return f"{call}: {problems_of(error, 'arguments', unknown=_unknown_parameter)}"


def _unknown_parameter(place: tuple[str | int, ...]) -> str | None:
    """What is wrong with a name that no parameter has; None inside of an argument."""
    if len(place) != 1:
        return None
    cure = f" (options of jobs are given with using({place[0]}=...))" if place[0] in OPTION_NAMES else ""
    return f"the function has no such parameter{cure}"


class Query(Function[P, R_co]):
    """A registered function that reads the database and changes nothing (`@app.query`)."""

    kind = FunctionKind.QUERY

    @property
    def call_kind(self) -> Literal[CallKind.QUERY]:
        return CallKind.QUERY


class Mutation(Function[P, R_co]):
    """A registered function that runs in one transaction: all of its writes and scheduled jobs are kept, or none
    (`@app.mutation`).
    """

    kind = FunctionKind.MUTATION

    @property
    def call_kind(self) -> Literal[CallKind.MUTATION]:
        return CallKind.MUTATION


class Action(Function[P, R_co]):
    """A registered function with side effects (`@app.action`). A job starts it at most once, unless it has a retry
    policy.
    """

    kind = FunctionKind.ACTION

    @property
    def call_kind(self) -> Literal[CallKind.ACTION]:
        return CallKind.ACTION


class Workflow(Function[P, R_co]):
    """A registered function that runs step by step, across restarts and weeks of waiting (`@app.workflow`)."""

    kind = FunctionKind.WORKFLOW

    def check(self) -> None:
        super().check()
        if self.events is not None:
            self.events.check()

    @cached_property
    def served(self) -> ServedFunction:
        """Like `Function.served`, with the events that the workflow declares."""
        events = self.events
        types = None if events is None else {name: storable(events.words(name)) for name in events.names}
        return super().served._replace(events=types)

    @property
    def call_kind(self) -> Literal[CallKind.WORKFLOW]:
        return CallKind.WORKFLOW


def served_by(functions: "Iterable[Function[..., Any]]") -> list[ServedFunction]:
    """The functions that a worker with this code can run as jobs, under their names and aliases. Queries are not
    jobs.
    """
    called = [each for each in functions if each.kind is not FunctionKind.QUERY]
    return [each.served._replace(name=name) for each in called for name in (each.name, *each.aliases)]


def default_name(handler: Callable[..., Any]) -> str:
    """`module.function`; for a program that is run directly, the file's name stands for the module."""
    module = handler.__module__
    if module == "__main__":
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        module = Path(file).stem if file else "main"
    if not hasattr(handler, "__name__"):
        raise RegistrationError(f"{handler!r} has no name of its own; give it one with name=...")
    return f"{module}.{handler.__name__}"


def check_args_size(size: int) -> None:
    """Raise ArgumentsTooLarge if one job's arguments are too large."""
    if size > ARGS_BYTES_MAX:
        raise ArgumentsTooLarge(f"arguments of {size} bytes; the limit for one job is {ARGS_BYTES_MAX} bytes")


def _parameters_of(handler: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(handler).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in positional:
        short = name.rpartition(".")[2]
        raise RegistrationError(f"{name} needs a first parameter for its context: def {short}(ctx, ...)")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise RegistrationError(f"{name} has a `yield`, so calling it runs nothing of it; return a list instead")
    if parameters[0].name in ("self", "cls"):
        raise RegistrationError(f"{name} is a method; register plain functions, whose first parameter is the context")
    return parameters[1:]


def _unfit(name: str, what: str, error: Exception) -> RegistrationError:
    """The error for annotations that pydantic makes nothing of; without its advice, which cannot be followed here."""
    reason = str(error).partition(". Set `arbitrary_types_allowed")[0]
    return RegistrationError(
        f"{name}: pydantic cannot check {what}: {reason}; use plain types, dataclasses or pydantic models, or an id"
    )
