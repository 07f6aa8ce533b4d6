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


def place_words(line: int | None, column: int | None) -> str:
    """The place of an error in a source text, as the end of a sentence; empty if `line` is None."""
    return "" if line is None else f" (line {line}, column {column})"


def message_of(error: BaseException) -> str:
    """The error's text, at most TEXT_CHARS_MAX characters; a remark in angle brackets if reading it fails."""
    try:
        return current_guard().call(TEXT_TIME, str, error)[:TEXT_CHARS_MAX]
    except BaseException as failure:
        return f"<its text cannot be read: {type(failure).__name__}>"


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
