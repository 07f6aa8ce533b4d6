"""Operations over HTTP: their routes, and how they are done in the name of a caller.

Both derive from the endpoint of each operation (`evertick.app.operations.Endpoint`).
"""

from collections.abc import Awaitable, Callable
from functools import cache, partial
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Self, TypeVar, get_args, get_origin

from fastapi import Body as RequestBody
from fastapi import Query, Request
from pydantic import Field, TypeAdapter, create_model
from starlette.responses import Response

from evertick.app.bodies import Body, json_type
from evertick.app.operations import Argument, Awaited, Operation, http_operations
from evertick.base.options import UNCHANGED
from evertick.server.bodies import Changed, Named, Piece, Scheduled
from evertick.server.callers import Called, Caller, Key, Routes, reply
from evertick.server.problems import Problem

O = TypeVar("O")

_EXPECT: Final = "How many there should be: if there are others now, none is changed."


class CallerOperations(Awaited[O]):
    """Operations in the name of a caller. Changes are checked, recorded in the audit log, and done once under a key.

    The route has checked the scope. The dashboard calls the operations as any Python code does.
    """

    def __init__(self, caller: Caller, request: Request, group: Awaited[Any]) -> None:
        super().__init__(group.operations, group.read, group.write)
        self._caller = caller
        self._request = request
        self._expected: int | None = None

    def expecting(self, count: int) -> Self:
        """The same. Changes of many raise Problem, and change none, if another number of rows is chosen by then."""
        copy = self._copy()
        copy._expected = count
        return copy

    async def piece(self, operation: Operation[Any, Any], asked: Any) -> Changed:
        """A piece of a change of many. Raises Problem if another number is chosen than `asked.expect`."""
        endpoint, where = operation.endpoint, _filters_in(operation, asked)
        if asked.expect is not None and asked.cursor is None and endpoint.default_filters is not None:
            operations: Any = self.operations
            count = (await self.read(operations.count(**endpoint.default_filters(where)))).number
            if count != asked.expect:
                words = f"{count:,} {operations.noun}s are chosen now, not {asked.expect:,}; none was changed"
                raise Problem(409, "count_changed", words)
        page = partial(operation.function, self.operations, **where)
        return await self._caller.change_many(self, page, endpoint.audit_action, asked)

    def _run(self, operation: Operation[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operation.runs_as == "read" or not operation.has_endpoint:
            return super()._run(operation, args, kwargs)
        if operation.runs_as == "write_pages":
            return self._change_all(operation, kwargs)
        return self._change(operation, args, kwargs)

    async def _change(self, operation: Operation[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        caller, operations, endpoint = self._caller, self.operations, operation.endpoint
        given = signature(operation.function).bind(operations, *args, **kwargs)
        given.apply_defaults()
        [_, target, *_] = given.args
        work = operation.function(operations, *args, **kwargs)
        if endpoint.check_arguments is not None:
            work = endpoint.check_arguments(caller, operations, work, given.arguments)
        before = getattr(operations, endpoint.read_before)(target) if endpoint.read_before else None
        if not endpoint.is_idempotent:
            return await caller.change(self, work, endpoint.audit_action, target, before=before)
        audited = caller.audited(work, endpoint.audit_action, target, before=before)
        result = await self.write(await caller.once(self._request, audited))
        return _adapter(operation.result_type).validate_python(result)

    async def _change_all(self, operation: Operation[Any, Any], where: dict[str, Any]) -> int:
        asked = model_of(operation).model_validate({**where, "expect": self._expected})
        return (await self.piece(operation, asked)).count


def add_operations(routes: Routes, operations: type, operations_of: Callable[[Caller, Request], Awaited[Any]]) -> None:
    """Add a route for each operation that the class `operations` itself declares with an endpoint.

    `operations_of` returns the operations of a caller; `CallerOperations` if some of them change something.
    """
    for each in http_operations(operations):
        endpoint = each.endpoint
        returns = Changed if each.runs_as == "write_pages" else Scheduled if endpoint.returns_id else each.result_type
        routes.at(
            endpoint.method, endpoint.path, endpoint.scope, returns=returns, status=endpoint.status,
            name=endpoint.operation_id, description=each.description,
        )(_handler(each, operations_of))  # fmt: skip


def _handler(
    operation: Operation[Any, Any], operations_of: Callable[[Caller, Request], Any]
) -> Callable[..., Awaitable[Response]]:
    """The function that FastAPI calls, with a signature from which it reads the parameters of a request."""
    endpoint, rest = operation.endpoint, _outside_path(operation)
    is_many, names = operation.runs_as == "write_pages", [each.name for each in rest if not each.is_filter]
    optional = {each.name for each in rest if each.default is UNCHANGED}
    decoders = {each.name: each.parameter.decode for each in rest if each.parameter.decode is not None}

    async def handle(request: Request, caller: Caller, **given: Any) -> Response:
        group, asked = operations_of(caller, request), given.pop("asked", None)
        if operation.runs_as != "read" and not isinstance(group, CallerOperations):
            raise TypeError(f"{operation.name} changes something: it needs CallerOperations, which record it")
        given.pop("idempotency_key", None)
        if is_many:
            return reply(await group.piece(operation, asked))
        if asked is not None:
            said = {
                name: getattr(asked, name) for name in names if name not in optional or name in asked.model_fields_set
            }
            given.update(said, **_filters_in(operation, asked))
        given.update({name: decode(given[name]) for name, decode in decoders.items() if given.get(name) is not None})
        found = await group._run(operation, (), given)
        return reply({"id": found} if endpoint.returns_id else found, status=endpoint.status)

    kinds: dict[str, Any] = {"request": Request, "caller": Called}
    defaults: dict[str, Any] = {}
    kinds.update({each.name: Named for each in operation.arguments if each not in rest})
    if rest and not endpoint.has_query:
        is_required = is_many or any(each.default is Parameter.empty for each in rest)
        model = model_of(operation)
        kinds["asked"] = model if is_required else Annotated[model | None, RequestBody(title=model.__name__)]
        if not is_required:
            defaults["asked"] = None
    elif operation.filters or any(_is_list(json_type(each)) for each in rest):
        kinds["asked"] = Annotated[model_of(operation), Query()]
    else:
        for each in rest:
            declared = Query(description=each.parameter.description or None, **each.parameter.limits)
            kinds[each.name], defaults[each.name] = Annotated[json_type(each), declared], each.default
    if endpoint.is_idempotent:
        kinds["idempotency_key"], defaults["idempotency_key"] = Key, None
    shown = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=defaults.get(name, Parameter.empty))
        for name, kind in kinds.items()
    ]
    handle.__signature__ = signature(handle).replace(parameters=shown)  # type: ignore[attr-defined]
    handle.__name__ = endpoint.operation_id
    return handle


@cache
def model_of(operation: Operation[Any, Any]) -> type[Any]:
    """The model as which the query or the body of a request for an operation is read."""
    endpoint, fields = operation.endpoint, dict[str, Any]()
    for each in _outside_path(operation):
        kind, default = json_type(each), endpoint.http_defaults.get(each.name, each.default)
        declared = Field(description=each.parameter.description or None, **each.parameter.limits)
        default = None if default is UNCHANGED else default
        if default is None and _is_list(kind):  # a parameter that may be repeated; it has no null
            fields[each.name] = (Annotated[kind, declared], Field(default_factory=list))
        elif each.is_filter:
            fields[each.name] = (Annotated[kind | None, declared], Field(None))
        else:
            fields[each.name] = (Annotated[kind, declared], Field(... if default is Parameter.empty else default))
    name = endpoint.body_name or endpoint.operation_id.title().replace("_", "")
    if operation.runs_as != "write_pages":
        return create_model(name, __base__=Body, __doc__=operation.summary, **fields)
    fields["expect"] = (int | None, Field(None, description=_EXPECT))
    if name not in _SHARED:
        _SHARED[name] = create_model(name, __base__=Piece, __doc__="Which are to be changed.", **fields)
    return _SHARED[name]


_SHARED: Final[dict[str, type[Any]]] = {}
"""The bodies of changes of many, by name. Operations that take the same filters share one under their `body_name`."""


def _is_list(kind: Any) -> bool:
    """Whether a type is a list, such as `Items[str]`."""
    return get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) is list


def _outside_path(operation: Operation[Any, Any]) -> list[Argument]:
    """The arguments that are not in the path."""
    return [each for each in operation.arguments if f"{{{each.name}}}" not in operation.endpoint.path]


def _filters_in(operation: Operation[Any, Any], asked: Any) -> dict[str, Any]:
    """The filters that were given. A body may give an empty list, which is refused; the query cannot."""
    found = {name: getattr(asked, name) for name in operation.filters if name in asked.model_fields_set}
    is_query = operation.endpoint.has_query
    return {name: value for name, value in found.items() if value is not None and not (is_query and value == [])}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
