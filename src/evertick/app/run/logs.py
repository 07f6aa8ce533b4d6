"""Logs: the lines a function writes while it runs, kept with its job and passed on to `logging`."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from evertick.base.clock import Clock
from evertick.base.instants import Instant
from evertick.base.records.stored import storable
from evertick.rules.workflows.run import Run

_logger: Final = logging.getLogger("evertick.functions")


class RunLog:
    """`ctx.log`: debug, info, warning and error, with %-style arguments as in `logging`."""

    __slots__ = ("_clock", "_keep", "where")

    def __init__(self, where: Mapping[str, object], clock: Clock, keep: Callable[[Instant, str, str], object]) -> None:
        """`keep` is called with the time, the level and the text of each line."""
        self.where = where
        """The attributes of `logging` records: `function`, `tenant`, and `job_id` and `attempt` if a job runs."""
        self._clock = clock
        self._keep = keep

    def debug(self, message: str, *args: object) -> None:
        """Write a line of the level `debug`."""
        self._write(logging.DEBUG, message, args)

    def info(self, message: str, *args: object) -> None:
        """Write a line of the level `info`."""
        self._write(logging.INFO, message, args)

    def warning(self, message: str, *args: object) -> None:
        """Write a line of the level `warning`."""
        self._write(logging.WARNING, message, args)

    def error(self, message: str, *args: object) -> None:
        """Write a line of the level `error`."""
        self._write(logging.ERROR, message, args)

    def _write(self, level: int, message: str, args: tuple[object, ...]) -> None:
        text = _line(message, args)
        _logger.log(level, "%s", text, extra=self.where)
        self._keep(self._clock.now(), logging.getLevelName(level).lower(), storable(text))


class CodeLog(RunLog):
    """`step.log`: the log of a workflow's code. Replayed code does not write its lines again."""

    __slots__ = ("_run",)

    def __init__(self, where: Mapping[str, object], clock: Clock, run: Run) -> None:
        super().__init__(where, clock, run.write_line)
        self._run = run

    def _write(self, level: int, message: str, args: tuple[object, ...]) -> None:
        self._run.check_inside("step.log")
        if not self._run.repeats:
            super()._write(level, message, args)


def _line(message: object, args: tuple[object, ...]) -> str:
    """The text of a line. As in `logging`, a line that cannot be formatted must not stop the function."""
    try:
        text = str(message)
        if not args:
            return text
        return text % (args[0] if len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args)
    except Exception as error:
        shown = repr(message) if isinstance(message, str) else f"a {type(message).__name__}"
        return f"{shown} cannot be written with {len(args)} argument(s): {type(error).__name__}"
