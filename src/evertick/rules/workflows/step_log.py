"""What the code of a workflow logs with, where it runs and where it is only replayed."""

from typing import Final, Protocol


class StepLog(Protocol):
    """`step.log`: as `ctx.log` of functions, with %-style arguments as in `logging`.

    A line is written once: not again when the code is replayed. It is kept with what the code does up to where it waits
    next, and as long as the run.
    """

    def debug(self, message: str, *args: object) -> None:
        """Write a line that only helps to find a fault."""
        ...

    def info(self, message: str, *args: object) -> None:
        """Write a line about the normal course."""
        ...

    def warning(self, message: str, *args: object) -> None:
        """Write a line about something odd."""
        ...

    def error(self, message: str, *args: object) -> None:
        """Write a line about something that went wrong."""
        ...


class _Silent:
    """The log of code that is run over a saved history: all of its lines were written before."""

    def debug(self, message: str, *args: object) -> None:
        pass

    info = warning = error = debug


SILENT: Final[StepLog] = _Silent()
