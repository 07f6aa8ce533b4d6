"""Functions: which there are, and calls of them."""

import asyncio
import json
import traceback
from typing import Any

from pydantic import ConfigDict
from starlette.responses import Response

from evertick.api.functions import FunctionView
from evertick.app.bodies import Arguments, Body
from evertick.app.functions.function import Action, Function, Mutation, Query, Workflow
from evertick.base.errors import EvertickError, Misuse
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.server.bodies import Named
from evertick.server.callers import Called, Caller, Key, reply, tenant_routes
from evertick.server.limits import take_longer
from evertick.server.problems import Problem, function_failed

routes = tenant_routes("functions")


class Call(Body):
    """A call of a function."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"args": {"item": "bread"}}]})

    args: Arguments


@routes.at("GET", "/functions", Scope.READ, returns=list[FunctionView])
async def list_functions(caller: Called) -> Response:
    """The app's functions with their parameters. Internal ones are shown to tokens with the scope admin alone."""
    shown = [each for each in caller.app.functions if not each.internal or caller.may(Scope.ADMIN)]
    return reply([FunctionView.of(each) for each in sorted(shown, key=lambda each: each.name)])


@routes.at("POST", "/functions/{name}/call", Scope.READ, returns=Any)
async def call_function(
    caller: Called,
    name: Named,
    call: Call,
    idempotency_key: Key = None,
) -> Response:
    """Call a query, a mutation or an action, and return what it returns.

    Queries need the scope read, all others edit. With `Idempotency-Key`, a mutation is called once: another call with
    the key returns what the first one returned.
    """
    function = caller.function(name)
    if not isinstance(function, Query) and not caller.may(Scope.EDIT):
        raise Problem(403, "not_allowed", f"calling {name} needs a token with the scope edit")
    if isinstance(function, Workflow):
        raise Misuse(f"{name} is a workflow; start it with POST .../workflows")
    positional, named = function.decode_args(function.encode_args((), call.args))
    take_longer(_limit_s(caller, function))
    try:
        if idempotency_key is None:
            result = await caller.access.call(function, *positional, **named)
        elif isinstance(function, Mutation):
            result = await caller.access.call_once(idempotency_key, function, *positional, **named)
        else:
            raise Misuse(f"{name} is not a mutation; only mutations take an Idempotency-Key")
    except (EvertickError, TimeoutError) as error:
        if isinstance(function, Action) and _comes_from(error, function):
            raise function_failed(error) from error  # it has begun, so the reply must not say that nothing was done
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise function_failed(error) from error
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        raise function_failed(error) from error
    text = function.encode_result(result)
    if "NaN" in text or "Infinity" in text:  # JSON has neither: they are null, as in the other replies
        text = json_text(json.loads(text))
    return Response(text, media_type="application/json")


def _limit_s(caller: Caller, function: Function[..., Any]) -> float | None:
    """How long a function that is called may run; an action without `timeout=` as long as it likes."""
    if function.timeout_ms is None and isinstance(function, Action):
        return None
    return caller.app.environment.limit_of(function).wall_s


def _comes_from(error: BaseException, function: Action[..., Any]) -> bool:
    """Whether a function's own code has raised an error, or let it pass."""
    handler = function.handler
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return code is None or any(frame.f_code is code for frame in frames)
