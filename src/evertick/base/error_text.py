"""The text of errors that user code raised.

Their class is the user's, so asking one for its text can fail, take long or raise what no `except Exception` catches.
"""

from typing import Final

from evertick.base.time_limit import current_guard

TEXT_TIME_S: Final = 1.0
"""How long an error may take to say what it is."""
TEXT_CHARS_MAX: Final = 1_000_000


def message_of(error: BaseException) -> str:
    """What the error says, at most TEXT_CHARS_MAX characters; a remark where it cannot be had."""
    try:
        return current_guard().call(TEXT_TIME_S, str, error)[:TEXT_CHARS_MAX]
    except BaseException as failure:
        return f"<its text cannot be read: {type(failure).__name__}>"
