"""Lines that a function logs, and the list that collects them while it runs."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from evertick.base.instants import Instant

LEVELS: Final = ("debug", "info", "warning", "error")
"""The levels of lines, the lowest first."""
LINES_MAX: Final = 256
LINE_CHARS_MAX: Final = 4_096


class LogLine(NamedTuple):
    """A line of an attempt. Numbers count from 0. The line of number LINES_MAX has no text: it says that more followed.

    `is_cut`: the text, or what would have followed it, is not kept.
    """

    number: int
    at: Instant
    level: str
    text: str
    is_cut: bool = False


def line_of(number: int, at: Instant, level: str, text: str) -> LogLine:
    """A line, of a long text its beginning."""
    return LogLine(number, at, level, text[:LINE_CHARS_MAX], len(text) > LINE_CHARS_MAX)


class AttemptLog:
    """The lines of one attempt. One thread writes, another may take what is not stored yet."""

    __slots__ = ("_lines", "_stored", "on_line")

    def __init__(self) -> None:
        self.on_line: Callable[[], object] | None = None
        """Called in the writer's thread when a line was kept."""
        self._lines: list[LogLine] = []
        self._stored = 0

    def write(self, at: Instant, level: str, text: str) -> None:
        """Keep a line: the beginning of a long one, and at most LINES_MAX."""
        number = len(self._lines)
        if number < LINES_MAX:
            self._lines.append(line_of(number, at, level, text))
        elif number == LINES_MAX:
            self._lines.append(LogLine(number, at, level, "", is_cut=True))
        else:
            return
        if self.on_line is not None:
            self.on_line()

    def unstored(self) -> list[LogLine]:
        """The lines that `stored` was not called for."""
        return self._lines[self._stored :]

    def stored(self, count: int) -> None:
        """The first `count` of the lines that are not stored yet are stored now."""
        self._stored += count


def append(lines: list[LogLine], more: Sequence[LogLine]) -> None:
    """Add lines of another function of the same attempt; of all together at most LINES_MAX are kept."""
    for line in more:
        number = len(lines)
        if number > LINES_MAX:
            return
        is_last = number == LINES_MAX
        lines.append(line._replace(number=number, text="" if is_last else line.text, is_cut=is_last or line.is_cut))
