"""Pages of the documentation, and how their examples are run.

* ```python: run, in the order of the page, in one namespace that is the module `app`; a block that begins with a
  comment such as `# app.py` is also written to that file, for the commands of the page; `# app.py (continued)` is added
  to its end.
* ```text right after it: what that block printed.
* ```console: commands, run in a folder of the page's own, with what they print. A command that ends with `&` goes on
  beside the others; what it prints is indented by two spaces, as `evertick dev` does.
* ```js and ```py: scripts of customers; the next Python block has the text as `script`.
* `<!-- python ... -->`: run as well, but not shown: preparations, and checks that the example did what the page says.

Times, durations and ids are different each time; before comparing they are replaced by what they are. The times that
`evertick schedule preview --after` prints are always the same, so they are compared as they stand.
Other blocks (```sh, ```toml) are for the reader alone.
"""

import contextlib
import io
import json
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evertick import App
from tests.cli.programs import DEADLINE_S, Program, evertick

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"^```(?P<language>\w+)\n(?P<shown>.*?)^```$|^<!-- python\n(?P<hidden>.*?)^-->$", re.MULTILINE | re.DOTALL
)
_DISTANCE = (re.compile(r"\t(in \d+(\.\d+)? (d|h|min|s)|\d+(\.\d+)? (d|h|min|s) ago)$", re.MULTILINE), r"\tN")
_CHANGING = (
    (re.compile(r"\bat \d{4}-\d\d-\d\d (?=\d\d:\d\d:\d\d\b)"), "at "),  # as it is shown late in the evening
    (re.compile(r"\b\d\d:\d\d:\d\d\b(?!Z|\.)"), "HH:MM:SS"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\((in [\d.]+ (ms|s|min|h|d)|now)\)"), "(in N)"),
    (re.compile(r"\bhttp://localhost:\d{4,5}\b"), "http://localhost:PORT"),  # the next one that is free
    (re.compile(r"_[0-9a-f]{28}\b"), "_ID"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min) ago\b"), "N ago"),
    (re.compile(r"\bin [\d.]+ (ms|s)\b"), "in N s"),
    (re.compile(r"\bin (59|60) min\b"), "in 60 min"),  # the example takes a moment itself
    (re.compile(r"\b\d+(\.\d+)? ms\b"), "N ms"),
    (re.compile(r"late \d+(\.\d+)? s\b"), "late N ms"),
    (re.compile(r"(_creation_time\"?'?: )[\d.]+"), r"\1N"),
    (re.compile(r"\b\d+ steps? taken\b"), "N steps taken"),  # one more with each change of the schema
    (re.compile(r" {2,}"), "  "),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match["hidden"] is not None:
            found.append(Block("python", match["hidden"], line))
        else:
            found.append(Block(match["language"], match["shown"], line))
    return found


def normal(text: str, *, exact: bool = False) -> list[str]:
    """The lines of an output, with what changes each time replaced; `exact`: how far away a time is, and no more."""
    for pattern, word in [_DISTANCE] if exact else _CHANGING:
        text = pattern.sub(word, text)
    return text.splitlines()


def run_page(page: Path, folder: Path, start: Callable[..., Program]) -> int:
    """Run the examples of a page in `folder`; returns how many there were. Raises AssertionError if one lies."""
    namespace: dict[str, Any] = {"__name__": "app"}
    sessions = Sessions(folder, start)
    printed = None
    count = 0
    try:
        for block in blocks_of(page):
            if block.language == "python":
                printed = _run_python(page, block, folder, namespace)
            elif block.language == "text":
                assert printed is not None, f"{page.name}:{block.line}: nothing before it could print this"
                assert normal(printed) == normal(block.text), f"{page.name}:{block.line}"
            elif block.language in ("js", "py"):
                namespace["script"] = block.text
                continue
            elif block.language == "console":
                sessions.run(f"{page.name}:{block.line}", block.text)
            else:
                continue
            count += 1
    finally:
        for value in namespace.values():
            if isinstance(value, App):
                value.close()
    return count


def _run_python(page: Path, block: Block, folder: Path, namespace: dict[str, Any]) -> str:
    file = re.match(r"# (\w+\.py)( \(continued\))?\n", block.text)
    if file is not None:
        before = (folder / file[1]).read_text() if file[2] else ""
        (folder / file[1]).write_text(before + block.text)
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, namespace)
    return output.getvalue()


class Sessions:
    """The terminal of a page: its commands one after the other, and the one that goes on beside them."""

    def __init__(self, folder: Path, start: Callable[..., Program]) -> None:
        self._folder = folder
        self._start = start
        self._program: Program | None = None
        self._seen = 0

    def run(self, where: str, session: str) -> None:
        """Run the commands of one block and compare everything they print."""
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            background = [line for line in expected.splitlines() if line.startswith("  ")]
            foreground = [line for line in expected.splitlines() if not line.startswith("  ") and line != ""]
            words = shlex.split(command, comments=True)
            assert words[0] == "evertick", f"{where}: only commands of evertick are run in a console block: {command}"
            if words[-1] == "&":
                assert self._program is None, f"{where}: one program at a time goes on"
                self._program = self._start(*words[1:-1])
                foreground, background = [], [*foreground, *background]
            elif self._program is None:
                foreground, background = expected.splitlines(), []
            if words[-1] != "&":
                done = evertick(self._folder, *words[1:])
                exact = words[1:3] == ["schedule", "preview"] and "--after" in words
                own = normal(done.out)  # a command may indent lines, too
                if self._program is not None:
                    lines = [line for line in expected.splitlines() if line != ""]
                    theirs = [line.startswith("  ") and normal(line)[0] not in own for line in lines]
                    foreground = [line for line, is_other in zip(lines, theirs, strict=True) if not is_other]
                    background = [line for line, is_other in zip(lines, theirs, strict=True) if is_other]
                assert normal(done.out + done.err, exact=exact) == normal("\n".join(foreground), exact=exact), (
                    f"{where}: $ {command}\n{done.out}{done.err}"
                )
            for line in background:
                self._expect(where, line)
            if words[-1] == "&":
                self._wait_for_worker()

    def _wait_for_worker(self) -> None:
        """A reader's next command comes when the worker has long begun; the test's would come before."""
        deadline = time.monotonic() + DEADLINE_S
        while json.loads(evertick(self._folder, "worker", "list", "-o", "json").out or "[]") == []:
            assert time.monotonic() < deadline, "no worker has begun"

    def _expect(self, where: str, line: str) -> None:
        """The next line of the program that goes on."""
        assert self._program is not None, where
        self._program.wait_for("", after=self._seen)
        assert normal(self._program.lines[self._seen]) == normal(line), f"{where}: {self._program.text}"
        self._seen += 1
