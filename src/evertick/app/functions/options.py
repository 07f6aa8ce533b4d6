"""Options of scheduled calls: how to retry, and what to do when a key is taken."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal

from evertick.base.errors import Misuse, ValueTooLarge
from evertick.base.ids import check_pool, full_pool
from evertick.base.instants import duration_ms
from evertick.base.records.jobs import RetryPolicy
from evertick.base.records.stored import json_of

ERROR_DATA_CHARS_MAX: Final = 65_536
"""Characters of the JSON text of what an ApplicationError carries."""


def check_pools(names: Iterable[str], app: str) -> tuple[str, ...] | None:
    """The full names of the pools that a worker of this app serves; None, which means all pools, if `names` is empty.

    Raises Misuse.
    """
    if isinstance(names, str):
        raise Misuse(f"pools= takes a list of names, such as [{names!r}]")
    pools = tuple(dict.fromkeys(names))
    for name in pools:
        check_pool(name)
    return tuple(full_pool(app, name) for name in pools) or None


class OnConflict(StrEnum):
    """What to do when a job is scheduled with a key that another unfinished job has."""

    KEEP = "keep"
    """Keep the unfinished job and return its id."""
    REPLACE = "replace"
    """Cancel the unfinished job and schedule the new one."""
    ERROR = "error"
    """Raise AlreadyExists."""


class Retry(RetryPolicy):
    """How often to try a job, and how long to wait between attempts: `Retry(5, first=timedelta(milliseconds=250))`.

    `attempts` counts the first try. The wait after failure n is `first * factor ** (n - 1)`, at most `cap`. It is then
    multiplied by a random factor from `1 - jitter` to `1 + jitter`. Durations are seconds or timedeltas.
    """

    __slots__ = ()

    def __init__(
        self,
        attempts: int,
        *,
        first: float | timedelta = 0.25,
        factor: float = 2.0,
        cap: float | timedelta = timedelta(days=1),
        jitter: float = 0.5,
    ) -> None:
        super().__init__(
            attempts=attempts,
            first_ms=duration_ms(first, name="first"),
            factor=factor,
            cap_ms=duration_ms(cap, name="cap"),
            jitter=jitter,
        )


class NonRetryable(Exception):
    """Raise this error (or a subclass) in a function to fail its job at once, without further retries."""


class ApplicationError(Exception):
    """An error with data for the caller, raised by the application: `raise ApplicationError({"code": "sold_out"})`.

    The data is stored with the job, next to the text of the error. A caller of the function finds it in the attribute
    `data`. The job is not tried again unless a retry policy says so.
    """

    def __init__(self, data: Any) -> None:
        """`data` is plain JSON. Raises InvalidArguments for anything else, ValueTooLarge above ERROR_DATA_CHARS_MAX."""
        super().__init__(data)
        text = json_of_data(data)
        if len(text) > ERROR_DATA_CHARS_MAX:
            raise ValueTooLarge(f"data of an error of {len(text)} characters; the limit is {ERROR_DATA_CHARS_MAX}")
        self.data = data

    def __str__(self) -> str:
        return self.data if isinstance(self.data, str) else json_of_data(self.data)


def json_of_data(data: Any) -> str:
    """The JSON text of an error's data. Raises InvalidArguments."""
    return json_of(data, "the data of an error")


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended, as passed to its `on_complete` function: its state, its result or its error.

    `error` is the error's text. `error_data` is the data of an ApplicationError. Both are None if there is none.
    """

    kind: Literal["success", "failed", "canceled"]
    value: Any = None
    error: str | None = None
    error_data: Any = None
