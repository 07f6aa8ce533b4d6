"""What may be a key or a priority of a job, and the name of a step, wherever they are given."""

from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.base.records.jobs import PRIORITY_MAX

KEY_CHARS_MAX: Final = 512
NAME_CHARS_MAX: Final = 200
"""Characters of the name of a step, an event or a patch."""
SHOWN_MAX: Final = 60
"""Characters of a wrong name that a message shows."""


def check_key(key: str, *, what: str) -> None:
    """Raise Misuse unless `key` is text that every database can keep; `what` begins the message."""
    if not isinstance(key, str):
        raise Misuse(f"{what} is text, not {type(key).__name__}")
    if not 1 <= len(key) <= KEY_CHARS_MAX:
        raise Misuse(f"{what} has 1 to {KEY_CHARS_MAX} characters, not {len(key)}")
    if any(each == "\0" or "\ud800" <= each <= "\udfff" for each in key):
        raise Misuse(f"{what} must not hold NUL or half of a character: {key!r}")


def check_priority(priority: Any) -> None:
    """Raise Misuse unless `priority` is a whole number from minus PRIORITY_MAX to PRIORITY_MAX."""
    if type(priority) is not int or abs(priority) > PRIORITY_MAX:
        raise Misuse(f"priority= is a whole number from {-PRIORITY_MAX} to {PRIORITY_MAX}, not {priority!r}")


def check_name(name: str, what: str) -> None:
    """Raise Misuse unless `name` can be that of a step, an event or a patch; `what` says which it is to be."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise Misuse(
            f"{repr(name)[:SHOWN_MAX]} cannot name {what}: it is printable text of 1 to {NAME_CHARS_MAX} characters"
        )
