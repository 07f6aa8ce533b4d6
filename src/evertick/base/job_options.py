"""What may be a key or a priority of a job, and the name of a step, wherever they are given."""

from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.base.ids import DOTS, JOB_PREFIX, table_of
from evertick.base.options import shown, text, whole
from evertick.base.records.jobs import PRIORITY_MAX

KEY_CHARS_MAX: Final = 512
NAME_CHARS_MAX: Final = 200
"""Characters of the name of a step, an event or a patch."""
KEY: Final = text(KEY_CHARS_MAX)
"""The key of a call, of an event, or a limit key; that of a job is a name, too: see `check_key`."""
RESERVED_KEYS: Final = frozenset((*DOTS, "count", "counts", "upcoming", "cancel-all", "retry-all", "run-now-all"))
"""What follows `/jobs/` in addresses of the HTTP API and of the dashboard, and is no job."""
NAME: Final = text(NAME_CHARS_MAX, printable=True)
PRIORITY: Final = whole(-PRIORITY_MAX, PRIORITY_MAX)


def check_key(key: Any, *, what: str) -> None:
    """Raise Misuse unless `key` names a job everywhere; `what` begins the message.

    A key is used as a job's id is: in calls, in commands, in addresses. So it cannot have the form of an id, begin as
    the id of a job does, or be a part of an address that has another meaning.
    """
    if not KEY.fits(key):
        raise Misuse(f"{what} is {KEY.words}, not {shown(key)}")
    if key in RESERVED_KEYS:
        raise Misuse(f"{what} cannot be {key!r}, which has another meaning in addresses; put a word before it")
    if key.startswith(f"{JOB_PREFIX}_") or table_of(key) is not None:
        raise Misuse(
            f"{what} cannot be {shown(key)}, which reads as an id; put a word before it, such as {shown('key:' + key)}"
        )


def check_name(name: str, what: str) -> None:
    """Raise Misuse unless `name` can be that of a step, an event or a patch; `what` says which it is to be."""
    if not NAME.fits(name):
        raise Misuse(f"{shown(name)} cannot name {what}: it is {NAME.words}")
