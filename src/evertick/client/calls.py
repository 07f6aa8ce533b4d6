"""Calls: one request of the HTTP API each, how its reply is read, and how a problem becomes an error."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, get_args
from urllib.parse import quote

from pydantic import TypeAdapter

from evertick.app.functions.function import Function, FunctionCall
from evertick.app.operations import Operation, OperationGroup, shown, shown_kind
from evertick.app.scheduling.job_builder import KeyOptions, Options
from evertick.app.transacting import Page
from evertick.base import errors
from evertick.base.ids import JobId
from evertick.base.instants import from_datetime, to_iso
from evertick.base.options import UNCHANGED, stated
from evertick.base.records.jobs import RetryPolicy
from evertick.base.records.stored import json_of_typed
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.writing import spec_to_wire

O = TypeVar("O")
P = ParamSpec("P")
T = TypeVar("T")


ROOT: Final = "/api/v1"
PIECE_S: Final = 1.0
"""How long the server changes many before it replies how many, and the client goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request to the HTTP API. `read` converts the JSON of the reply, None if it has no body, to the result.

    With a `key` the server carries out the request once, however often it is sent.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    key: str | None = None
    if_version: int | str | None = None
    wait_s: float = 0.0
    """How long the server may wait before it replies."""
    read: Callable[[Any], T]

    @property
    def is_safe(self) -> bool:
        """Whether it may be sent twice: it only reads, or it has a key."""
        return self.method == "GET" or self.key is not None

    @property
    def headers(self) -> dict[str, str]:
        """The headers for `key` and `if_version`."""
        found = {} if self.key is None else {"Idempotency-Key": self.key}
        return found | ({} if self.if_version is None else {"If-Match": f'"{self.if_version}"'})


class _Sent(Operation[P, T]):
    """An operation that makes a `Call`, which a client sends; in pieces, each a call that goes on after the last."""

    def __init__(self, function: Callable[..., Any], runs_as: str = "write") -> None:
        self.function = function
        self.runs_as = runs_as
        self._endpoint = None
        self.__doc__ = function.__doc__
        given = signature(function)
        parameters = [each for one in list(given.parameters.values())[self.bound_count :] for each in shown(one)]
        [result] = [int] if runs_as == "write_pages" else get_args(given.return_annotation) or [Any]
        self._signature = given.replace(parameters=parameters, return_annotation=shown_kind(result))


class Requests:
    """Builds requests to a server as `Call` objects. Their paths begin with `home`. A group of a client sends them."""

    def __init__(self, home: str = ROOT) -> None:
        self._home = home

    def _get(self, path: str, kind: type[T], query: Mapping[str, Any] | None = None) -> Call[T]:
        """A question. `kind` is what the reply is read as."""
        return Call(method="GET", path=path, query=query or {}, read=read_as(kind))

    def _post(self, path: str, kind: type[T], body: Mapping[str, Any], key: str | None = None) -> Call[T]:
        """A change, or a question with a body."""
        return Call(method="POST", path=path, body=body, key=key, read=read_as(kind))

    def _piece(self, path: str, body: Mapping[str, Any], after: str) -> Call[Page]:
        """A change of many for about PIECE_S, from `after` on."""
        body = {**body, "seconds": PIECE_S} | ({"cursor": after} if after else {})
        return Call(method="POST", path=path, body=body, read=_page)


class FleetRequests(Requests):
    """Requests about what belongs to no tenant, such as pools."""


class RemoteOperations(OperationGroup[Requests]):
    """Operations that a server performs: the request of each call is derived from the operation's endpoint."""

    if TYPE_CHECKING:
        write_pages: Callable[..., Any]

    def _run(self, operation: Operation[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        requests = self.operations
        if operation.runs_as == "write_pages":
            body = _encoded(operation, kwargs)
            return self.write_pages(
                lambda after: requests._piece(requests._home + operation.endpoint.path, body, after)
            )
        return self.write(_call_of(operation, requests._home, args, kwargs))


def _call_of(operation: Operation[Any, Any], home: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
    """The request for an operation below `home`. Raises TypeError for arguments that it does not take.

    The server refuses filters that it does not know, as it may be newer.
    """
    endpoint, own = operation.endpoint, _own_signature(operation)
    has_filters = bool(operation.filters)
    filters = {name: value for name, value in kwargs.items() if has_filters and name not in own.parameters}
    bound = own.bind(*args, **{name: value for name, value in kwargs.items() if name not in filters})
    bound.apply_defaults()
    path = endpoint.path
    for name in [name for name in bound.arguments if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", part(bound.arguments.pop(name)))
    given = _encoded(operation, {**filters, **bound.arguments})
    query, body = (given, None) if endpoint.has_query else ({}, given)
    return Call(
        method=endpoint.method, path=home + path, query=query, body=body,
        read=new_id if endpoint.returns_id else read_as(operation.result_type),
    )  # fmt: skip


@cache
def _own_signature(operation: Operation[Any, Any]) -> Signature:
    """The parameters that a caller fills in, without the filters."""
    shown = list(signature(operation.function).parameters.values())[operation.bound_count :]
    return Signature([each for each in shown if each.kind is not Parameter.VAR_KEYWORD])


def _encoded(operation: Operation[Any, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are given, as JSON or the query takes them. None is given if the default is UNCHANGED."""
    encoders = {each.name: each.parameter.encode for each in operation.arguments}
    left_out = {each.name: each.default if each.default is UNCHANGED else None for each in operation.arguments}
    return {
        name: (encoders.get(name) or wire)(value) for name, value in values.items() if value is not left_out.get(name)
    }


class RequestsWithOptions(Requests):
    """Requests with options, which are set by `using`."""

    def __init__(self, home: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(home)
        self._options = options or {}

    def using(self, options: KeyOptions) -> Self:
        """A copy with these options, in addition to those set before; None restores an option's default."""
        Options().merged(options)  # it refuses invalid values here, before a request has them
        found = stated(options)
        kept = {name: value for name, value in self._options.items() if name not in found}
        return type(self)(self._home, {**kept, **given(found)})


def sent(operation: Callable[Concatenate[O, P], Call[T]]) -> Operation[P, T]:
    """Declare an operation of a client: the function builds a `Call`, and the client sends it."""
    return _Sent(operation)


def sent_in_pieces(operation: Callable[Concatenate[O, str, P], Call[Page]]) -> Operation[P, int]:
    """Declare an operation of a client that takes several requests, each of which continues where the previous one
    stopped. The client returns the sum of their counts.
    """
    return _Sent(operation, "write_pages")


def _page(found: Any) -> Page:
    return int(found["count"]), found["cursor"]


def new_key() -> str:
    """A new random idempotency key for one request."""
    return f"client-{secrets.token_hex(16)}"


def read_as(kind: Any) -> Callable[[Any], Any]:
    """A function that converts the JSON of a reply to `kind`: a view, or a list or tuple of views."""
    return _adapter(kind).validate_python


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def new_id(found: Any) -> JobId:
    """The id of the created job, from the JSON of a reply."""
    return JobId(found["id"])


def nothing(found: Any) -> None:
    """Return None, for a reply without a body."""


def part(text: object) -> str:
    """An id or a name, quoted as a segment of a path. Raises Misuse if it is not text."""
    if not isinstance(text, str):
        raise errors.Misuse(f"a name or an id is a text, not {text!r}")
    return quote(text, safe="")


def key_of(name: str) -> str:
    """The JSON name of a Python parameter: `exclude` becomes `except`, others stay the same."""
    return "except" if name == "exclude" else name


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None, converted for a JSON body or a query."""
    return {key_of(name): wire(value) for name, value in values.items() if value is not None}


def wire(value: Any) -> Any:
    """A value of the Python API as JSON types: for example, a timedelta becomes seconds."""
    if isinstance(value, datetime):
        return to_iso(from_datetime(value))
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Spec):
        return spec_to_wire(value)
    if isinstance(value, RetryPolicy):
        return {
            "attempts": value.attempts,
            "first": value.first_ms / 1000,
            "factor": value.factor,
            "cap": value.cap_ms / 1000,
            "jitter": value.jitter,
        }
    if isinstance(value, Function):
        return value.name
    if isinstance(value, Mapping):
        return {name: wire(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [wire(each) for each in value]
    return value


def function_call(function: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A call as JSON: `{"function": name, "args": {...}}`.

    `function` is the function itself, `fn.with_args(...)`, or a name. With a name, arguments must be given by name.

    Raises InvalidArguments if the arguments do not fit the signature, or are positional although only a name is known;
    Misuse if `function` is anything else.
    """
    kwargs = kwargs or {}
    if isinstance(function, FunctionCall):
        return {"function": function.function.name, "args": json.loads(function.args)}
    if isinstance(function, Function):
        return {"function": function.name, "args": json.loads(function.encode_args(args, kwargs))}
    if not isinstance(function, str):
        raise errors.Misuse(f"{function!r} is not a function of an app, nor the name of one")
    if args:
        raise errors.InvalidArguments(
            f"{function}: give arguments by their names; the code that orders them is not here"
        )
    return {"function": function, "args": json_value(dict(kwargs), f"{function}: what it is called with")}


def json_value(value: Any, what: str) -> Any:
    """A value from the user, as JSON; `what` describes it in the error. Raises InvalidArguments if JSON cannot express
    it.
    """
    return json.loads(json_of_typed(value, what))
