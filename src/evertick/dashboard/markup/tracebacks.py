"""Tracebacks for people: the path through the user's code to the error, without frames of libraries."""

import linecache
import re
from collections.abc import Collection
from pathlib import PurePath
from textwrap import dedent
from typing import Final, NamedTuple

_FRAME: Final = re.compile(r'^  File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>.*)$')
_CARETS: Final = re.compile(r"[ ~^]*\^[ ~^]*")
_HEAD: Final = "Traceback (most recent call last):"
_GROUP_HEAD: Final = f"Exception Group {_HEAD}"
_MARGIN: Final = re.compile(r"^ +[|+] ?")
"""The prefix of each line of an exception group and of its exceptions."""
LIBRARIES: Final = ("site-packages/", "dist-packages/", "lib/python", "/evertick/", "<frozen ")
"""Parts of paths that identify code that is not the user's."""
FRAMES_MAX: Final = 200
FRAMES_SHOWN: Final = 6
"""Frames shown of one exception: the last ones of the user's code, and where it was raised."""
BLOCKS_SHOWN: Final = 3
"""Exceptions shown of a chain: the last one, and those that caused it."""
CONTEXT: Final = 3
"""Lines of code shown above and below the failed line."""
PARTS_SHOWN: Final = 3
"""Parts of a path shown above a frame; the full path is its title."""


class Frame(NamedTuple):
    """A frame: a line of a file, and its known source lines, each with whether it marks the failed part."""

    file: str
    line: str
    function: str
    source: tuple[tuple[str, bool], ...]
    around: tuple[tuple[int, str], ...] = ()
    """The numbered lines of the file around the failed line, if the file exists and still has that line."""

    @property
    def is_own(self) -> bool:
        """Whether the frame belongs to the user's code."""
        return not any(part in self.file for part in LIBRARIES)

    @property
    def place(self) -> str:
        """The end of the file's path, with the line number."""
        parts = PurePath(self.file).parts
        return f"{'…/' * (len(parts) > PARTS_SHOWN)}{'/'.join(parts[-PARTS_SHOWN:])}:{self.line}"


class Block(NamedTuple):
    """One exception: the shown frames, the number of hidden ones, its last line, and how it led to the next one."""

    frames: tuple[Frame, ...]
    others: int
    error: str
    then: str


class Trace(NamedTuple):
    """A traceback: the exceptions of its chain, the number of hidden frames, and the whole text."""

    blocks: tuple[Block, ...]
    others: int
    text: str


def trace_of(text: str, files: Collection[str] = ()) -> Trace:
    """A traceback as Python prints it; any other text has no blocks. If it was raised in one of `files`, which this
    process has loaded, the lines around that place are shown.
    """
    lines = text.splitlines()
    if _GROUP_HEAD in text:
        lines = [_MARGIN.sub("", line) for line in lines]
    heads = [at for at, line in enumerate(lines) if line in (_HEAD, _GROUP_HEAD)]
    blocks = [_block(lines[at + 1 : end], files) for at, end in zip(heads, [*heads, len(lines)][1:], strict=False)]
    shown = [each for each in blocks if each.frames][-BLOCKS_SHOWN:]
    total = sum(len(each.frames) + each.others for each in blocks)
    return Trace(tuple(shown), total - sum(len(each.frames) for each in shown), text)


def _block(lines: list[str], files: Collection[str]) -> Block:
    starts = [at for at, line in enumerate(lines) if _FRAME.match(line)][-FRAMES_MAX:]
    frames = [_frame(lines, at) for at in starts]
    shown = [each for each in frames[:-1] if each.is_own][-FRAMES_SHOWN + 1 :] + frames[-1:]
    own = [at for at, each in enumerate(shown) if each.file in files][-1:]
    for at in own:
        shown[at] = _with_context(shown[at])
    said = [line for line in lines[starts[-1] + 1 :] if line and line[0] != " "] if starts else []
    return Block(tuple(shown), len(frames) - len(shown), *_ending(said))


def _ending(said: list[str]) -> tuple[str, str]:
    """The last line of an exception, and the sentence that introduces the next one, empty if there is none."""
    if len(said) > 1 and said[-1].endswith("exception:"):
        return said[0], said[-1].rstrip(":")
    return (said[0] if said else ""), ""


def _frame(lines: list[str], at: int) -> Frame:
    found = _FRAME.match(lines[at])
    assert found is not None  # noqa: S101
    source = []
    for line in lines[at + 1 :]:
        if not line.startswith("    "):
            break
        source.append((line[4:], _CARETS.fullmatch(line[4:]) is not None))
    return Frame(found["file"], found["line"], found["function"], tuple(source))


def _with_context(frame: Frame) -> Frame:
    """The frame with the lines around it, if the file still has the failed line: it may have changed."""
    lines, number = linecache.getlines(frame.file), int(frame.line)
    code = frame.source[0][0].strip() if frame.source else ""
    if not code or number > len(lines) or lines[number - 1].strip() != code:
        return frame
    first = max(number - CONTEXT, 1)
    found = dedent("".join(lines[first - 1 : number + CONTEXT])).splitlines()
    return frame._replace(around=tuple(enumerate(found, first)))
