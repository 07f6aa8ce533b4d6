"""Budgets: what one call of a function may read, write and schedule. Every limit has a name and an error."""

from typing import Final

from evertick.base.errors import ArgumentsTooLarge, LimitExceeded, TooManyJobs

JOBS_MAX: Final = 1_000
"""Jobs that one function call may schedule."""
JOB_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of arguments of all jobs that one function call schedules."""
ARGS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of arguments of one job."""
READS_MAX: Final = 32_000
"""Documents that one function call may read, including those a filter drops."""
WRITES_MAX: Final = 16_000
"""Documents that one function call may write."""
WARN_FROM: Final = 0.8
"""Above this part of a limit a call is warned in its log."""


class Budget:
    """What one call has used so far.

    An inner call that failed gives its writes back, because they are undone. It gives back no reads and no scheduled
    jobs: that work was done, and a loop of failing inner calls must end.
    """

    __slots__ = ("_bytes", "_jobs", "_largest", "_reads", "_writes")

    def __init__(self) -> None:
        self._jobs = 0
        self._bytes = 0
        self._largest = 0
        self._reads = 0
        self._writes = 0

    def schedule(self, size: int) -> None:
        """Count one job with `size` bytes of arguments. Raises TooManyJobs or ArgumentsTooLarge."""
        check_args_size(size)
        self._jobs += 1
        self._bytes += size
        self._largest = max(self._largest, size)
        if self._jobs > JOBS_MAX:
            raise TooManyJobs(f"too many functions scheduled by this call (limit: {JOBS_MAX})")
        if self._bytes > JOB_BYTES_MAX:
            raise ArgumentsTooLarge(
                f"too large total size of the arguments of functions scheduled by this call "
                f"({self._bytes} bytes, limit: {JOB_BYTES_MAX} bytes)"
            )

    def read(self) -> None:
        """Count one document that was read. Raises LimitExceeded."""
        self._reads += 1
        if self._reads > READS_MAX:
            raise LimitExceeded(f"too many documents read in one call (limit: {READS_MAX}); use an index or paginate")

    def write(self) -> None:
        """Count one document that was written. Raises LimitExceeded."""
        self._writes += 1
        if self._writes > WRITES_MAX:
            raise LimitExceeded(f"too many documents written in one call (limit: {WRITES_MAX}); split the work")

    @property
    def writes(self) -> int:
        """Documents written so far, for `undo_writes`."""
        return self._writes

    def undo_writes(self, writes: int) -> None:
        """Forget what was written since there were `writes`."""
        self._writes = writes

    def warnings(self) -> list[str]:
        """A line for every limit of which more than WARN_FROM is used up."""
        figures = (
            ("functions scheduled by this call", self._jobs, JOBS_MAX),
            ("bytes of arguments of functions scheduled by this call", self._bytes, JOB_BYTES_MAX),
            ("bytes of arguments of one scheduled function", self._largest, ARGS_BYTES_MAX),
            ("documents read by this call", self._reads, READS_MAX),
            ("documents written by this call", self._writes, WRITES_MAX),
        )
        return [
            f"many {what} (actual: {actual}, limit: {limit})"
            for what, actual, limit in figures
            if actual > WARN_FROM * limit
        ]


def check_args_size(size: int) -> None:
    """Raise ArgumentsTooLarge if one job's arguments are too large."""
    if size > ARGS_BYTES_MAX:
        raise ArgumentsTooLarge(f"arguments of {size} bytes; the limit for one job is {ARGS_BYTES_MAX} bytes")
