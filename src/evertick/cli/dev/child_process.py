"""The child process of `evertick dev`, as its parent holds it: the process, and the pipes to it."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from evertick.base.durations import wall_clock
from evertick.cli.core.exits import Exit, ending

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
        """Start a child that imports the app and then waits for `run`; `wanted` is what it is told at once."""
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
        """Why it ended, if it could say so. A process that it left behind may keep the pipe open."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                line = await self._reports.readline()
        except TimeoutError:
            return ""
        return f": {json.loads(line)['failed']['error']}" if line.startswith(b'{"failed"') else ""

    async def report(self) -> dict[str, Any]:
        """The next report. A child that ends without one is a failure."""
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
        """Why the child that takes this one's place is to run: it tells what is different now."""
        before = {"functions": self.functions, "database": self.database, "port": self.port}
        return {"first": False, "what": what, "began": began, **before}

    def order(self, what: str, value: Any) -> None:
        """Tell the child something. One that is gone cannot be told."""
        with contextlib.suppress(OSError):
            os.write(self._orders, (json.dumps({what: value}) + "\n").encode())

    async def ended(self) -> int:
        """Wait for its end; returns the exit code, negative for a signal."""
        return await self._process.wait()

    def kill(self) -> None:
        """End it now, if it has not ended, and close the pipe."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        with contextlib.suppress(OSError):
            os.close(self._orders)
        self._orders = -1
