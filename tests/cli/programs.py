"""Programs: real processes of the command line, their output line by line, and nothing left behind.

Nothing here sleeps for a fixed time: a test waits for a line, or for the end, until a deadline that only a defect
reaches.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 60.0
COMMAND = (sys.executable, "-P", "-m", "evertick.cli.main")


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, without what would tell a command which database or colors to use."""
    dropped = ("EVERTICK_DATABASE_URL", "FORCE_COLOR", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "NO_COLOR": "1"} | changes


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str


def evertick(folder: Path, *words: str, stdin: str = "", **changes: str) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [*COMMAND, *words], cwd=folder, env=environment(**changes), input=stdin, capture_output=True, text=True,
        encoding="utf-8", timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


class Program:
    """A command that goes on. Both of its outputs are read as they come."""

    def __init__(self, folder: Path, *words: str, command: Sequence[str] = COMMAND, **changes: str) -> None:
        self.process = subprocess.Popen(
            [*command, *words], cwd=folder, env=environment(**changes), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, *, after: int = 0) -> str:
        """The first line, from number `after` on, in which `pattern` is found."""
        deadline = time.monotonic() + DEADLINE_S
        looked = after
        with self._news:
            while True:
                for line in self.lines[looked:]:
                    if re.search(pattern, line):
                        return line
                looked = len(self.lines)
                left = deadline - time.monotonic()
                if self._is_over or left <= 0:
                    raise AssertionError(f"no line matches {pattern!r} in:\n" + "\n".join(self.lines))
                self._news.wait(left)

    @property
    def mark(self) -> int:
        """The number of lines so far, for `wait_for(after=...)`."""
        return len(self.lines)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program itself."""
        self.process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """What a terminal does: SIGINT to every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill_everything(self) -> None:
        """SIGKILL to every process of the group, as when the machine stops."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def close(self) -> None:
        """Leave nothing behind."""
        self.kill_everything()
        self._reader.join(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def text(self) -> str:
        """Everything it wrote so far."""
        return "\n".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()


Start = Callable[..., Program]


@contextlib.contextmanager
def programs_in(folder: Path) -> Iterator[Start]:
    """Starts programs in a folder; whatever still runs at the end is killed."""
    programs: list[Program] = []

    def begin(*words: str, **changes: str) -> Program:
        programs.append(Program(folder, *words, **changes))
        return programs[-1]

    try:
        yield begin
    finally:
        for program in programs:
            program.close()


def children_of(pid: int) -> list[int]:
    """The processes that a process started and that live."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]
