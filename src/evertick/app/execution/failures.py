"""Failures: what is stored about an error that a user's function raised.

The class of the error is the user's. Asking it for anything, even for its class or its text, can fail, take long or
raise something that `except Exception` does not catch. None of that may end the worker.
"""

import asyncio
import concurrent.futures
import traceback
from pathlib import Path
from typing import Any, Final

from evertick.app.functions.function import ARGUMENTS_INVALID
from evertick.app.functions.options import ApplicationError, NonRetryable, json_of_data
from evertick.base.error_text import TEXT_CHARS_MAX, TEXT_TIME, errors_in, message_of
from evertick.base.errors import InvalidArguments
from evertick.base.outcomes import TIMED_OUT, Raised
from evertick.base.records.stored import storable
from evertick.base.time_limit import FunctionTimeout, current_guard

_CARRIERS: Final = (
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[2] / "base"),
    str(Path(__file__).parents[2] / "engine"),
    str(Path(__file__).parents[2] / "rules"),
    str(Path(asyncio.__file__).parent),
    str(Path(concurrent.futures.__file__).parent),
)
"""Folders with frames between the worker and the user's function; a traceback shown to users begins after them."""


def raised_by(error: BaseException) -> Raised:
    """The outcome of a function that raised `error`.

    It is not tried again if the error, or one error in an exception group, is NonRetryable or InvalidArguments.
    """
    hopeless = any(issubclass(type(each), NonRetryable | InvalidArguments) for each in errors_in(error))
    name, message = type(error).__name__, message_of(error)
    if message.startswith(f"{ARGUMENTS_INVALID}: ") and issubclass(type(error), InvalidArguments):
        name, message = ARGUMENTS_INVALID, message.removeprefix(f"{ARGUMENTS_INVALID}: ")
    return Raised(
        type=storable(name),
        message=message,
        traceback=_traceback_of(error),
        retryable=not hopeless,
        data=_data_of(error),
    )


def held_the_loop(error: FunctionTimeout, name: str) -> Raised:
    """The outcome of an action that blocked the event loop too long, as `error` describes. The cause of `error` says
    where the action was interrupted.
    """
    cause = error.__cause__
    where = _traceback_of(cause) if type(cause) is FunctionTimeout else ""
    return Raised(TIMED_OUT, f"{name} {message_of(error)}", where)


def _traceback_of(error: BaseException) -> str:
    """The traceback of an error. Its class and those of its causes are the user's, as in `message_of`."""
    try:
        lines = current_guard().call(TEXT_TIME, traceback.format_exception, type(error), error, _users_part(error))
        return "".join(lines)[-TEXT_CHARS_MAX:]
    except BaseException as failure:
        return f"<the traceback cannot be read: {type(failure).__name__}>"


def _data_of(error: BaseException) -> str | None:
    """The data of an application's own error as JSON; None if it has none or it cannot be written as JSON."""
    try:
        return json_of_data(error.data) if isinstance(error, ApplicationError) else None
    except BaseException:
        return None


def _users_part(error: BaseException) -> Any:
    """The traceback from the first frame that belongs neither to Evertick nor to the thread that runs the function."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_CARRIERS):
        frame = frame.tb_next
    return frame or error.__traceback__
