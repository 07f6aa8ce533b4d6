"""Rules for the keys and priorities of jobs and the names of steps, shared by all places that take them."""

from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.base.ids import DOTS, JOB_PREFIX, table_of
from evertick.base.options import shown, text, whole
from evertick.base.records.jobs import PRIORITY_MAX

KEY_CHARS_MAX: Final = 512
NAME_CHARS_MAX: Final = 200
"""Characters of the name of a step, an event or a patch."""
KEY: Final = text(KEY_CHARS_MAX)
"""The key of a call or an event, or a limit key. `check_key` checks the key of a job."""
RESERVED_KEYS: Final = frozenset((*DOTS, "count", "counts", "upcoming", "cancel-all", "retry-all", "run-now-all"))
"""Path segments after `/jobs/` in the HTTP API and the dashboard that are not jobs."""
NAME: Final = text(NAME_CHARS_MAX, printable=True)
PRIORITY: Final = whole(-PRIORITY_MAX, PRIORITY_MAX)


def check_key(key: Any, *, what: str) -> None:
    """Raise Misuse unless `key` is a valid key of a job; `what` begins the message.

    A key is used like a job's id: in calls, commands and URLs. So it cannot have the form of an id, begin like the id
    of a job, or be a path segment with another meaning.
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
    """Raise Misuse unless `name` is a valid name; `what` is "a step", "an event" or "a patch"."""
    if not NAME.fits(name):
        raise Misuse(f"{shown(name)} cannot name {what}: it is {NAME.words}")
