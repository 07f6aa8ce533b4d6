"""The text of errors that user code raised.

The class is the user's, so `str(error)` can fail, take long or raise something that `except Exception` does not catch.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from evertick.base.time_limit import Limit, current_guard

TEXT_TIME: Final = Limit(wall_s=10.0, cpu_s=1.0)
"""The time limit of `str(error)`."""
TEXT_CHARS_MAX: Final = 1_000_000

_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"
_TRACEBACK: Final[Any] = vars(BaseException)["__traceback__"]
_CAUSE: Final[Any] = vars(BaseException)["__cause__"]
_CONTEXT: Final[Any] = vars(BaseException)["__context__"]
_EXCEPTIONS: Final[Any] = vars(BaseExceptionGroup)["exceptions"]


def place_words(line: int | None, column: int | None) -> str:
    """A phrase with the place of an error in a source text, for the end of a sentence; empty if `line` is None."""
    return "" if line is None else f" (line {line}, column {column})"


def message_of(error: BaseException) -> str:
    """The error's text, at most TEXT_CHARS_MAX characters; a remark in angle brackets if reading it fails.

    The text of an exception group continues with the errors in it: `... (1 sub-exception): ValueError: no such order`.
    """
    try:
        return current_guard().call(TEXT_TIME, _text_of, error)[:TEXT_CHARS_MAX]
    except BaseException as failure:
        return f"<its text cannot be read: {type(failure).__name__}>"


def _text_of(error: BaseException) -> str:
    inner = "; ".join(f"{type(each).__name__}: {each}" for each in errors_in(error) if each is not error)
    return f"{error}: {inner}" if inner else str(error)


def errors_in(error: BaseException) -> list[BaseException]:
    """The errors in an exception group and in its groups; of another error the error itself.

    The class of the group, which may define `exceptions` as a property, is bypassed.
    """
    found, left = list[BaseException](), [error]
    while left:
        each = left.pop()
        if issubclass(type(each), BaseExceptionGroup):
            left.extend(reversed(_EXCEPTIONS.__get__(each)))
        else:
            found.append(each)
    return found


def place_of(error: BaseException) -> str:
    """The place that raised the error: `app.py:41`, the last line outside of Evertick; empty if there is none."""
    place, frame = "", _traceback_of(error)
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            place = f"{Path(file).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def _traceback_of(error: BaseException) -> TracebackType | None:
    traceback: TracebackType | None = _TRACEBACK.__get__(error)
    return traceback


def context_of(error: BaseException) -> BaseException | None:
    """The error's `__context__`. Its class is bypassed, because it may define `__context__` as a property."""
    context: BaseException | None = _CONTEXT.__get__(error)
    return context


def origin_of(error: BaseException) -> BaseException | None:
    """The error's `__cause__`, or else its `__context__`; both bypass its class."""
    cause: BaseException | None = _CAUSE.__get__(error)
    return context_of(error) if cause is None else cause
