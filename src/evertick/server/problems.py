"""Problems: every error as `application/problem+json` (RFC 9457), with the code of `evertick.errors`.

    {"type": "about:blank", "title": "Not Found", "status": 404, "code": "job_not_found", "detail": "no job ...",
     "request": "req_5f0c..."}

`code` never changes: clients match on it. What went wrong inside the server is in its log, under the request's id.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from evertick.base import errors
from evertick.base.error_text import message_of
from evertick.base.suggested_commands import did_you_mean

_logger: Final = logging.getLogger("evertick.server")

MEDIA_TYPE: Final = "application/problem+json"
STATUS: Final[tuple[tuple[type[errors.EvertickError], int], ...]] = (
    (errors.QuotaExceeded, 429),
    (errors.ArgumentsTooLarge, 413),
    (errors.VersionConflict, 412),
    (errors.TransactionEnded, 409),
    (errors.TransactionRefused, 409),
    (errors.Misuse, 422),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.UnknownSecret, 401),
    (errors.AccessDenied, 403),
    (errors.Unavailable, 503),
    (errors.EvertickError, 422),
)
"""The status of an error: that of its first class here."""
OWN_WORDS: Final = (errors.OutcomeUnknown, errors.SandboxUnavailable, errors.GatewayUnreachable)
"""Errors of the status 503 whose words are for the caller; those of others may name the database's address."""
DESCRIBED: Final = "GET /openapi.json lists what there is, but not for a token of one tenant"
"""Who asks is not known where no route is: the words are true for all."""
OTHERS: Final = {
    404: ("not_found", "there is nothing at this address; "),
    405: ("method_not_allowed", "this address takes another method; "),
}
"""Code and words for what the framework finds by itself."""
RETRY_AFTER_S: Final = 1


def has_own_words(error: Exception) -> bool:
    """Whether the words of an Unavailable are for the caller: it is no outage of the database."""
    return isinstance(error, OWN_WORDS) or bool(getattr(error, "of_one_row", False))


class Problem(HTTPException):
    """Ends a request with a status, a code and words; `more` are further members of the body."""

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(status, detail)
        self.code = code
        self.more = more


def problem_bytes(status: int, code: str, detail: str, request_id: str, **more: Any) -> bytes:
    """The body of a problem."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "request": request_id,
    }
    return json.dumps(body | more, ensure_ascii=True).encode()


def function_failed(error: BaseException) -> Problem:
    """What a function that was called has raised. Its traceback stays here."""
    data = getattr(error, "data", None) if type(error).__name__ == "ApplicationError" else None
    shown = {"type": type(error).__name__, "message": message_of(error), "data": data}
    return Problem(422, "function_failed", f"{shown['type']}: {shown['message']}"[:2_000], error=shown)


def add_handlers(app: FastAPI) -> None:
    """Let every error of a server's routes become a problem."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(errors.EvertickError, _of_error)
    app.add_exception_handler(TimeoutError, _of_timeout)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, of_http)


def has_reply(error: Exception) -> bool:
    """Whether an error has a reply of its own."""
    return isinstance(error, (HTTPException, errors.EvertickError, TimeoutError, RequestValidationError))


def of_bug(request: Request, error: Exception) -> Response:
    """The reply after an error of the server's own."""
    _logger.error("%s failed", request.state.request_id, exc_info=error)
    return _reply(request, Problem(500, "internal_error", "something went wrong in the server; its log has more"))


def _reply(request: Request, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    status = problem.status_code
    body = problem_bytes(status, problem.code, problem.detail, request.state.request_id, **problem.more)
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


async def _of_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101  # it is registered for these alone
    # After 408 the rest of the body would be taken for the next request.
    headers = {401: {"WWW-Authenticate": "Bearer"}, 408: {"Connection": "close"}}.get(error.status_code, {})
    return _reply(request, error, headers)


async def _of_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.EvertickError)  # noqa: S101
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    if status != 503:
        place = {"line": error.line, "column": error.column} if isinstance(error, errors.InvalidScript) else {}
        return _reply(request, Problem(status, error.code, str(error), **place))
    _logger.error("%s: %s", request.state.request_id, error)
    words = str(error) if has_own_words(error) else "the database is not available"
    return _reply(request, Problem(status, error.code, words), {"Retry-After": str(RETRY_AFTER_S)})


async def _of_timeout(request: Request, error: Exception) -> Response:
    return _reply(request, Problem(504, "timeout", str(error) or "it took too long"))


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    route = request.scope.get("route")
    found = [{"at": ".".join(map(str, each["loc"])), "message": words_of(each, route)} for each in error.errors()[:20]]
    words = "; ".join(f"{each['at']}: {each['message']}" for each in found[:3])
    return _reply(request, Problem(422, "invalid_request", words, errors=found))


def words_of(error: Mapping[str, Any], route: Any) -> str:
    """What is wrong, of an error of a validation; of an unknown name, which it may be. `route` is FastAPI's."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"])
    place, *inner = error["loc"]
    if place == "query":
        what, known = "parameter; this address takes", getattr(route, "takes", ())
    else:
        what, known = "member; it takes", _members(route.body_field.field_info.annotation, inner[:-1])
    if near := did_you_mean(str(inner[-1])[:60], known):
        return f"there is no such {what.partition(';')[0]}; {near.rstrip()}"
    return f"there is no such {what} {', '.join(known) or 'none'}"


def _members(annotation: Any, place: Sequence[Any]) -> list[str]:
    """The members that a body takes at a place, which may name items and kinds, too."""
    model = _model_in(annotation)
    fields = {} if model is None else {each.alias or name: each for name, each in model.model_fields.items()}
    for at, step in enumerate(place):
        if step in fields and _model_in(fields[step].annotation) is not None:
            return _members(fields[step].annotation, place[at + 1 :])
    return list(fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model in a type such as `list[Body] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


async def of_http(request: Request, error: Exception) -> Response:
    """The reply where the framework itself has found that an address, or its method, is none."""
    assert isinstance(error, HTTPException)  # noqa: S101
    code, words = OTHERS.get(error.status_code, ("bad_request", str(error.detail)))
    if error.status_code in OTHERS:
        words += getattr(request.app.state, "described", DESCRIBED)
    headers = {"Allow": _methods_at(request)} if error.status_code == 405 else error.headers
    return _reply(request, Problem(error.status_code, code, words), headers)


def _methods_at(request: Request) -> str:
    """All methods of an address (RFC 9110, 10.2.1): they are several routes, and the framework names those of one."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(found | {"HEAD"} if "GET" in found else found))
