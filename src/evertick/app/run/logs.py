"""Logs: the lines a function writes while it runs, kept with its job and passed on to `logging`."""

import json
import logging
from collections.abc import Mapping
from typing import Final

from evertick.base.clock import Clock

LINES_MAX: Final = 256
LINE_CHARS_MAX: Final = 4_096

_logger: Final = logging.getLogger("evertick.functions")


class RunLog:
    """`ctx.log`: debug, info, warning and error, with %-style arguments as in `logging`."""

    __slots__ = ("_clock", "_function", "_lines", "_truncated")

    def __init__(self, function: str, clock: Clock) -> None:
        self._function = function
        self._clock = clock
        self._lines: list[tuple[int, str, str]] = []
        self._truncated = False

    def debug(self, message: str, *args: object) -> None:
        """Write a line that only helps to find a fault."""
        self._write(logging.DEBUG, message, args)

    def info(self, message: str, *args: object) -> None:
        """Write a line about the normal course."""
        self._write(logging.INFO, message, args)

    def warning(self, message: str, *args: object) -> None:
        """Write a line about something odd."""
        self._write(logging.WARNING, message, args)

    def error(self, message: str, *args: object) -> None:
        """Write a line about something that went wrong."""
        self._write(logging.ERROR, message, args)

    def to_json(self) -> str | None:
        """The lines as they are kept with the job: `{"lines": [[ms, level, text], ...], "is_truncated": bool}`."""
        if not self._lines:
            return None
        return json.dumps({"lines": self._lines, "is_truncated": self._truncated})

    def _write(self, level: int, message: str, args: tuple[object, ...]) -> None:
        text = _line(message, args)
        _logger.log(level, "%s", text, extra={"function": self._function})
        if len(text) > LINE_CHARS_MAX:
            text, self._truncated = text[:LINE_CHARS_MAX], True
        if len(self._lines) < LINES_MAX:
            self._lines.append((self._clock.now(), logging.getLevelName(level).lower(), text))
        else:
            self._truncated = True


def _line(message: object, args: tuple[object, ...]) -> str:
    """The text of a line. As in `logging`, a line that cannot be put together must not end what it tells about."""
    try:
        text = str(message)
        if not args:
            return text
        return text % (args[0] if len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args)
    except Exception as error:
        shown = repr(message) if isinstance(message, str) else f"a {type(message).__name__}"
        return f"{shown} cannot be written with {len(args)} argument(s): {type(error).__name__}"
