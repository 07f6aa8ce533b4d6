"""Tracebacks as people read them: where the user's own code failed first, the frames of libraries folded away."""

import re
from pathlib import PurePath
from typing import Final, NamedTuple

_FRAME: Final = re.compile(r'^  File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>.*)$')
_CARETS: Final = re.compile(r"[ ~^]*\^[ ~^]*")
LIBRARIES: Final = ("site-packages/", "dist-packages/", "lib/python", "/evertick/", "<frozen ")
"""Parts of the paths of code that is not the user's."""
FRAMES_MAX: Final = 200
PARTS_SHOWN: Final = 3
"""Parts of a path above a frame; the whole path is its title."""


class Frame(NamedTuple):
    """A frame: a line of a file, its source as far as it was known, and marks below the part that failed."""

    file: str
    line: str
    function: str
    source: str
    carets: str

    @property
    def is_own(self) -> bool:
        """Whether it is of the user's code."""
        return not any(part in self.file for part in LIBRARIES)

    @property
    def place(self) -> str:
        """The end of the file's path, with the line: what comes before is of the machine."""
        parts = PurePath(self.file).parts
        return f"{'…/' * (len(parts) > PARTS_SHOWN)}{'/'.join(parts[-PARTS_SHOWN:])}:{self.line}"


class Trace(NamedTuple):
    """A traceback: the last frame of the user's code, and all of it as text where there is more."""

    frame: Frame | None
    others: int
    text: str


def trace_of(text: str) -> Trace:
    """A traceback as Python prints it; any other text has no frame."""
    lines = text.splitlines()
    frames = [_frame(lines, at) for at, line in enumerate(lines) if _FRAME.match(line)][-FRAMES_MAX:]
    own = [each for each in frames if each.is_own] or frames[-1:]
    return Trace(own[-1] if own else None, len(frames) - 1 if own else 0, text)


def _frame(lines: list[str], at: int) -> Frame:
    found = _FRAME.match(lines[at])
    assert found is not None  # noqa: S101
    source, carets = "", ""
    if at + 1 < len(lines) and lines[at + 1].startswith("    "):
        source = lines[at + 1][4:]
        if at + 2 < len(lines) and _CARETS.fullmatch(lines[at + 2]):
            carets = lines[at + 2][4:]
    return Frame(found["file"], found["line"], found["function"], source, carets)
