"""`evertick dev`: an app on this machine, reloaded when its code changes.

Two processes. This one watches the files and the terminal; its child (`evertick.cli.dev.child`) imports the app and
runs it. When a file changes, a fresh child imports the new code while the old one runs. Only if that works is the
running one drained and replaced; otherwise the error is shown and the last good version goes on. A job is in the
database all the time, so nothing is lost in between. A child that dies by itself is started again.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from evertick.base.durations import wall_clock
from evertick.base.escaping import one_line
from evertick.cli.core.databases import db_option
from evertick.cli.core.exits import Exit, ending
from evertick.cli.core.flags import Number, flag, flags
from evertick.cli.core.loading import FILE_DEFAULT, parse_target, shown_path
from evertick.cli.dev.clock import SPEED_MAX, SPEED_MIN, Asked
from evertick.cli.dev.demo import FILE
from evertick.cli.dev.pages import PORT
from evertick.cli.root import fail

# -- The child process of `evertick dev`, as its parent holds it: the process, and the pipes to it.

LAST_WORDS_S: Final = 0.5


class Child:
    """A child process, and the pipes to it."""

    def __init__(self, process: asyncio.subprocess.Process, orders: int, reports: asyncio.StreamReader) -> None:
        self._process = process
        self._orders = orders
        self._reports = reports
        self.files: dict[str, int] = {}
        self.functions: list[str] = []
        self.database = ""
        self.port: int | None = None
        self.since = wall_clock()
        self.started_at = time.monotonic()

    @classmethod
    async def start(cls, wanted: Mapping[str, Any]) -> "Child":
        """Start a child that imports the app and then waits for `run`; `wanted` is the first message to it."""
        orders_out, orders_in = os.pipe()
        reports_out, reports_in = os.pipe()
        asked = json.dumps({**wanted, "orders": orders_out, "reports": reports_in})
        from evertick.engine.runtime.stop_requests import STOP_SIGNALS  # `evertick dev --help` does without

        # A signal to the process group reaches the child too, and would end it before it can hear of it.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            # -P: a `calendar.py` of the user's must not take the place of Python's before ours is imported.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "evertick.cli.dev.child", asked, pass_fds=(orders_out, reports_in)
            )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            os.close(orders_out)
            os.close(reports_in)
        reports = asyncio.StreamReader(limit=64 * 1024 * 1024)
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(reports_out, "rb")
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reports), pipe)
        return cls(process, orders_in, reports)

    async def last_words(self) -> str:
        """The reason why the child ended, if it reported one. A process that it started may keep the pipe open."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                line = await self._reports.readline()
        except TimeoutError:
            return ""
        return f": {json.loads(line)['failed']['error']}" if line.startswith(b'{"failed"') else ""

    async def report(self) -> dict[str, Any]:
        """Read the next report. A child that ends without one has failed."""
        line = await self._reports.readline()
        if not line:
            code = await self._process.wait()
            return {"failed": {"error": f"its process {ending(code)}", "code": Exit.FAILED, "files": {}}}
        answer: dict[str, Any] = json.loads(line)
        for value in answer.values():
            if isinstance(value, dict):
                self.files = value.get("files", self.files)
                self.functions = value.get("functions", self.functions)
                self.database = value.get("database", self.database)
                self.port = value.get("port", self.port)
        return answer

    def replaced(self, what: str, began: float) -> dict[str, Any]:
        """The first message for the child that replaces this one. It uses it to print what has changed."""
        before = {"functions": self.functions, "database": self.database, "port": self.port}
        return {"first": False, "what": what, "began": began, **before}

    def order(self, what: str, value: Any) -> None:
        """Send the child a message. If it has ended, nothing happens."""
        with contextlib.suppress(OSError):
            os.write(self._orders, (json.dumps({what: value}) + "\n").encode())

    async def ended(self) -> int:
        """Wait for the child's end; return the exit code, negative for a signal."""
        return await self._process.wait()

    def kill(self) -> None:
        """End the child now, unless it has ended, and close the pipe."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        with contextlib.suppress(OSError):
            os.close(self._orders)
        self._orders = -1


DRAIN_DEFAULT_S: Final = 10.0
AFTER_DRAIN_S: Final = 10.0
"""How long a child may outlive its deadline before it is killed."""
QUIET_MS: Final = 50
"""A change is acted on when nothing has changed for this long."""
DEBOUNCE_MS: Final = 400
"""But no later than this after the first of many changes."""
POLL_EVERY_S: Final = 0.5
"""Time between two polls of the files, in addition to the reports of the watch."""
RESTART_FIRST_S: Final = 0.25
RESTART_MAX_S: Final = 10.0
STEADY_S: Final = 10.0
"""A child that lived this long has started well."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DevFlags:
    """The options for running an app on this machine."""

    drain: float = flag(
        "--drain", type=Number(0), default=DRAIN_DEFAULT_S, show_default=True, metavar="SECONDS",
        help="Time for running actions to end before a reload and at the end.",
    )  # fmt: skip
    reload: bool = flag("--reload/--no-reload", default=True, show_default=True, help="Whether to watch the code.")
    at: str | None = flag("--at", metavar="TIME", help="Simulate from this moment on, on a database of its own.")
    speed: float | None = flag(
        "--speed", type=Number(SPEED_MIN, SPEED_MAX), metavar="N",
        help="Simulate N times as fast as the real clock; from now on unless --at says when.",
    )  # fmt: skip
    port: int = flag(
        "--port", type=click.IntRange(1, 65_535), default=PORT, show_default=True,
        help="Where the dashboard is; where that is taken, at the next one that is free.",
    )  # fmt: skip
    dashboard: bool = flag(
        "--dashboard/--no-dashboard", default=True, show_default=True, help="Whether to serve the dashboard."
    )
    demo: bool = flag(
        "--demo", default=False, help="Run a small shop with a simulated week behind it, instead of FILE."
    )


@click.command()
@click.argument("file", default=FILE_DEFAULT)
@db_option
@flags(DevFlags, "flags")
def dev(file: str, db: str | None, flags: DevFlags) -> int:
    """Run the app in FILE (app.py unless given) on this machine, and show what happens.

    The database is --db, else EVERTICK_DATABASE_URL, else .evertick/<app>.db in this folder; it is created and
    migrated as needed. The dashboard is at http://localhost:4400, for this machine alone. Ctrl-C ends it when running
    actions have ended; a second Ctrl-C ends it at once.

    With --at 2026-03-29T00:55Z --speed 60 everything runs as if it were that moment, a minute a second: timers, crons
    and what functions see as now. Functions take the time they take.

    With --demo it needs no app: a small shop runs, with a week behind it that has everything the dashboard shows.
    """
    if flags.demo:
        if db is not None or flags.at is not None:
            raise click.UsageError("--demo has a database and a week of its own; leave out --db and --at")
        file = FILE
    parse_target(file)
    asked: dict[str, Any] = {"file": file, "db": db, "drain": flags.drain, "demo": flags.demo}
    simulated = Asked.of(flags.at, flags.speed)
    if simulated is not None:
        asked["simulated"] = simulated.to_json()
    port = flags.port if flags.dashboard else None
    return asyncio.run(Supervisor(asked, watch=flags.reload, port=port).run())


class Supervisor:
    """Starts, replaces and ends child processes."""

    def __init__(self, asked: Mapping[str, Any], *, watch: bool, port: int | None) -> None:
        self._asked = asked
        self._drain: float = asked["drain"]
        self._watching = watch
        self._port = port
        self._stops = 0
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._changes: set[str] = set()
        self._changed = asyncio.Event()
        self._watched: frozenset[Path] = frozenset()
        self._stamps: dict[str, int] = {}  # the files that matter, as the newest import saw them
        self._watchers: list[asyncio.Task[None]] = []
        self._good = True
        self._restart_s = RESTART_FIRST_S

    async def run(self) -> int:
        """Run until stopped; return the exit code."""
        from evertick.engine.runtime.stop_requests import on_stop_signals

        on_stop_signals(self._asked_to_stop)
        child, failure = await self._start({"first": True, "port": self._port})
        if child is None:
            return Exit.OK if self._stop.is_set() else fail(failure["error"], failure["code"])
        try:
            while not self._stop.is_set():
                self._watch(child.files)
                await first(child.ended(), self._stop.wait(), self._changed.wait())
                if self._stop.is_set():
                    break
                if self._changed.is_set():
                    replaced = await self._reload(child)
                else:
                    replaced = await self._revive(child)
                if isinstance(replaced, int):
                    return replaced
                child = replaced
            return await self._end(child)
        finally:
            child.kill()
            for task in self._watchers:
                task.cancel()

    # -- helpers

    def _asked_to_stop(self) -> None:
        self._stops += 1
        self._stop.set()
        if self._stops > 1:
            self._stop_now.set()

    async def _start(self, reason: dict[str, Any]) -> tuple[Child | None, dict[str, Any]]:
        """Start a child. Return it with its report; None, with a report of the failure, if it does not run."""
        fresh = await Child.start(self._asked)
        answer = await self._unless_stopped(fresh.report())
        if answer is not None and "loaded" in answer:
            fresh.order("run", reason)
            answer = await self._unless_stopped(fresh.report())
        if answer is not None and "running" in answer:
            return fresh, {}
        fresh.kill()
        await fresh.ended()
        return None, answer["failed"] if answer else {"error": "interrupted", "code": Exit.INTERRUPTED}

    async def _reload(self, running: Child) -> Child | int:
        """Import the new code in a new child, which takes over if that succeeds. Return the running child, or an exit
        code.
        """
        from evertick.cli.dev.lines import say

        began = time.time()
        changed, self._changes = self._changes, set()
        self._changed.clear()
        forget_bytecode(changed)
        stamps = self._stamps = stamps_of({*running.files, *changed})
        fresh = await Child.start(self._asked)
        importing = asyncio.ensure_future(fresh.report())
        await first(importing, self._stop.wait(), self._changed.wait())
        if not importing.done():  # stopped, or changed once more: then that is what counts
            importing.cancel()
            fresh.kill()
            await fresh.ended()
            self._changes |= changed if self._changed.is_set() else set()
            return running
        answer = importing.result()
        self._good = "loaded" in answer
        if not self._good:
            say("!", f"{answer['failed']['error']}; still running the version of {running.since}")
            await fresh.ended()
            fresh.kill()
            running.files = stamps | fresh.files
            return running
        what = f"reloaded {', '.join(sorted(map(shown_path, changed))[:3])}"
        code = await self._end(running)
        if self._stop.is_set():
            fresh.kill()
            await fresh.ended()
            return code
        fresh.order("run", running.replaced(what, began))
        answer = await fresh.report()
        if "running" in answer:
            return fresh
        await fresh.ended()
        return fail(answer["failed"]["error"], answer["failed"]["code"])

    async def _revive(self, dead: Child) -> Child | int:
        """Restart a child that ended by itself, unless it was stopped. Return the running child, or an exit code."""
        from evertick.cli.dev.lines import say

        code = await dead.ended()
        why = await dead.last_words()
        dead.kill()
        if code in (Exit.OK, Exit.INTERRUPTED):
            return code
        say("!", f"the process that runs the app {ending(code)}{why}; starting it again")
        if time.monotonic() - dead.started_at > STEADY_S:
            self._restart_s = RESTART_FIRST_S
        began = time.time()
        while not self._stop.is_set():
            await first(self._stop.wait(), self._changed.wait(), asyncio.sleep(self._restart_s))
            self._restart_s = min(self._restart_s * 2, RESTART_MAX_S)
            self._changes.clear()
            self._changed.clear()
            child, failure = await self._start(dead.replaced("started again", began))
            if child is not None:
                return child
            if not self._stop.is_set():
                say("!", failure["error"])
        return Exit.OK

    async def _end(self, child: Child) -> int:
        """Drain a child and wait for its end; a second request to stop, or a missed deadline, ends it at once."""
        child.order("stop", True)
        ended = asyncio.ensure_future(child.ended())
        await first(ended, self._stop_now.wait(), asyncio.sleep(self._drain + AFTER_DRAIN_S))
        if not ended.done():
            child.order("stop", True)
            await first(ended, asyncio.sleep(AFTER_DRAIN_S))
        if not ended.done():
            child.kill()
        code = await ended
        child.kill()
        if self._stop_now.is_set():
            return Exit.INTERRUPTED
        return Exit.OK if code == Exit.OK else Exit.FAILED

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        task = asyncio.ensure_future(work)
        await first(task, self._stop.wait())
        if task.done():
            return task.result()
        task.cancel()
        return None

    # -- files

    def _watch(self, files: dict[str, int]) -> None:
        """Watch `files`, whose values are their modification times at the import. Changes since then count."""
        if not self._watching:
            return
        self._stamps = dict(files)
        self._compare()
        folders = frozenset(Path(file).parent for file in files)
        if not folders <= self._watched:
            self._watched |= folders
            for task in self._watchers:
                task.cancel()
            self._watchers = [
                asyncio.create_task(self._poll(), name="poll"),
                asyncio.create_task(self._follow(sorted(self._watched)), name="watch"),
            ]

    async def _poll(self) -> None:
        """Compare the files periodically. The file watcher makes a reload prompt, but can miss a change."""
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            self._compare()

    async def _follow(self, folders: list[Path]) -> None:
        from watchfiles import PythonFilter, awatch

        from evertick.cli.dev.lines import say

        existing = [folder for folder in folders if folder.is_dir()]  # real paths, as the files in them then are
        options: dict[str, Any] = {"recursive": False, "debounce": DEBOUNCE_MS, "step": QUIET_MS}
        try:
            async for changes in awatch(*existing, watch_filter=PythonFilter(), raise_interrupt=False, **options):
                self._note(path for _, path in changes)
        except Exception as error:
            say("!", f"changes of the code are noticed less quickly: {one_line(str(error))}")

    def _compare(self) -> None:
        """Note the files that have changed since the newest import."""
        now = stamps_of(self._stamps)
        self._note(file for file, changed_at in self._stamps.items() if now.get(file, changed_at) != changed_at)

    def _note(self, paths: Iterable[str]) -> None:
        """Note changed files that matter: imported ones, and after a failed import all, since one may have been
        missing.
        """
        matter = {path for path in paths if path in self._stamps or not self._good}
        if matter:
            self._changes |= matter
            self._changed.set()


async def first(*waits: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Wait until one of the coroutines is done, and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait, task in zip(waits, tasks, strict=True):
            if task is not wait:
                task.cancel()


def forget_bytecode(files: Iterable[str]) -> None:
    """Delete the compiled forms. Python identifies versions by seconds and size, which is too coarse for an editor."""
    for file in files:
        with contextlib.suppress(OSError, NotImplementedError):
            Path(cache_from_source(file)).unlink()


def stamps_of(files: Iterable[str]) -> dict[str, int]:
    """The modification times, in nanoseconds, of those files that exist."""
    stamps = {}
    for file in files:
        with contextlib.suppress(OSError):
            stamps[file] = Path(file).stat().st_mtime_ns
    return stamps
