"""Converts a problem reply of a server (RFC 9457) to the error class with its code."""

from collections.abc import Mapping
from typing import Any, Final

from evertick.base import errors

_BY_CODE: Final[dict[str, type[errors.EvertickError]]] = {}


def _collect(kind: type[errors.EvertickError]) -> None:
    _BY_CODE.setdefault(kind.code, kind)
    for each in kind.__subclasses__():
        _collect(each)


_collect(errors.EvertickError)
_OTHERS: Final = {
    401: errors.AccessDenied,
    403: errors.AccessDenied,
    404: errors.NotFound,
    413: errors.LimitExceeded,
    429: errors.Unavailable,
}
"""The class for a problem with an unknown code, by its status."""


def error_of(status: int, problem: Mapping[str, Any]) -> Exception:
    """The error for a problem, of the class with its code."""
    code, detail = str(problem.get("code", "")), str(problem.get("detail", "")) or f"status {status}"
    if code == "timeout":
        return TimeoutError(detail)
    if code == "function_failed":
        error = problem.get("error") or {}
        return errors.FunctionFailed(str(error.get("type")), str(error.get("message")), error.get("data"))
    fallback = errors.Misuse if status < 500 else errors.Unavailable
    kind = _BY_CODE.get(code, _OTHERS.get(status, fallback))
    found = kind.__new__(kind)  # some constructors take other arguments than the text
    Exception.__init__(found, detail)
    if isinstance(found, errors.InvalidScript):
        found.line, found.column = problem.get("line"), problem.get("column")
    return found
