"""Programs: real processes of the command line, their output line by line, and nothing left behind.

Nothing here sleeps for a fixed time: a test waits for a line, or for the end, until a deadline that only a defect
reaches.
"""

import atexit
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from evertick.engine.runtime.stop_requests import TOGETHER_S

DEADLINE_S = 120.0
COMMAND = (sys.executable, "-P", "-m", "evertick.cli.main")
PYTEST = (
    *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
    *(word for name in ("schemathesis", "hypothesispytest", "faker", "xdist") for word in ("-p", f"no:{name}")),
)
"""The tests of a project of its own. Plugins that it does not use cost two seconds."""

DJANGO = (
    "django.core.management.commands.makemigrations", "django.core.management.commands.migrate", "django.db.models",
    "django.db.backends.sqlite3.base", "django.db.backends.postgresql.base", "django.test",
)  # fmt: skip
ALEMBIC = (
    "alembic.command", "alembic.config",
    "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite", "sqlalchemy.orm",
)  # fmt: skip
"""What their commands import, for `run_python`."""


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment, without what would tell a command which database or colors to use.

    A change to None removes a variable.
    """
    dropped = ("EVERTICK_DATABASE_URL", "FORCE_COLOR", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    changed = kept | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "NO_COLOR": "1"} | changes
    return {name: value for name, value in changed.items() if value is not None}


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str


def evertick(folder: Path, *words: str, stdin: str = "", modules: tuple[str, ...] = (), **changes: str | None) -> Done:
    """Run a command to its end, in a process of its own (see `tests.cli.prefork`) that begins with `modules`."""
    request = {"folder": str(folder), "is_python": False, "words": words, "environment": environment(**changes)}
    return _run(_prefork(modules), request, stdin)


def admin_token(folder: Path, name: str = "test") -> str:
    """The secret of a new token that may do everything, on the database in a folder."""
    made = evertick(folder, "token", "create", name, "--scope", "admin", "-o", "json")
    return str(json.loads(made.out)["secret"])


def run_python(folder: Path, *words: str, modules: tuple[str, ...] = (), **changes: str) -> Done:
    """Run `python WORDS` to its end, which uses Evertick; `modules` are imported beforehand."""
    request = {"folder": str(folder), "is_python": True, "words": words, "environment": environment(**changes)}
    return _run(_prefork(modules), request, "")


def _run(prefork: "_Prefork", request: dict[str, object], stdin: str) -> Done:
    with ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode())
        given.seek(0)
        code = prefork.run(request, [given.fileno(), out.fileno(), err.fileno()])
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
    return Done(code, *printed)


class _Prefork:
    """The process of which commands are forks."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._requests, theirs = socket.socketpair()
        self._requests.settimeout(DEADLINE_S)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("prefork.py")), str(theirs.fileno()), *modules],
                env=environment(), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

        atexit.register(self._end)

    def _end(self) -> None:
        self._requests.close()
        self._process.wait(DEADLINE_S)

    def run(self, request: dict[str, object], files: list[int]) -> int:
        """The exit code of a command."""
        with self._lock:
            socket.send_fds(self._requests, [json.dumps(request).encode()], files)
            try:
                return int(json.loads(self._requests.recv(100)))
            except TimeoutError as late:
                os.killpg(self._process.pid, signal.SIGKILL)  # with what it started
                _prefork.cache_clear()
                raise AssertionError(f"it has not ended within {DEADLINE_S:.0f} s: {request['words']}") from late


@cache
def _prefork(modules: tuple[str, ...]) -> _Prefork:
    return _Prefork(modules)


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

    def send_again(self, number: signal.Signals) -> None:
        """A second request to stop: signals that come together are one, so it waits that long for the end first."""
        with pytest.raises(subprocess.TimeoutExpired):
            self.process.wait(2 * TOGETHER_S)
        self.send(number)

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
