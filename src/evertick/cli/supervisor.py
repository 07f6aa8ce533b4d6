"""`evertick worker --processes N`: N worker processes, and another one for each that dies.

Each worker is a process of its own with the same command line. A socket to it says when it runs, and its end tells the
worker that the supervisor is gone: then it drains, as at SIGTERM. The first worker starts alone, so that what is wrong
for all of them is said once.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from evertick.cli.core.exits import Exit, ending

_logger: Final = logging.getLogger("evertick.cli")

STEADY_S: Final = 10.0
"""A worker that lived so long is replaced at once."""
PAUSE_FIRST_S: Final = 2.0
PAUSE_MAX_S: Final = 30.0


class Supervisor:
    """Keeps `count` workers running until it is asked to stop; `options` are the command line of each."""

    def __init__(self, count: int, options: Sequence[str], *, health: tuple[str, int] | None = None) -> None:
        self._count = count
        self._options = options
        self._health = health
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._requests = 0
        self._asked = asyncio.Event()
        self._one_ran = asyncio.Event()

    async def run(self) -> int:
        """Run until a stop request, and then until all workers have ended; return the exit code."""
        from evertick.engine.runtime.stop_requests import on_stop_signals

        on_stop_signals(self._stop)
        first = asyncio.create_task(self._keep(1))
        one_ran = asyncio.create_task(self._one_ran.wait())
        await asyncio.wait((first, one_ran), return_when=asyncio.FIRST_COMPLETED)
        if not self._one_ran.is_set():
            one_ran.cancel()
            return Exit.OK if self._asked.is_set() else first.result()
        _logger.info("%d workers", self._count)
        await asyncio.gather(first, *(self._keep(number) for number in range(2, self._count + 1)))
        return Exit.INTERRUPTED if self._requests > 1 else Exit.OK

    def _stop(self) -> None:
        self._requests += 1
        self._asked.set()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)

    async def _keep(self, number: int) -> int:
        """Restart one worker whenever it ends. If it ends before any worker has run, return its exit code."""
        pause = 0.0
        while not self._asked.is_set():
            began = time.monotonic()
            code = await self._run_one(number)
            if not self._one_ran.is_set():
                return code if code > 0 else Exit.FAILED
            if self._asked.is_set():
                break
            steady = time.monotonic() - began >= STEADY_S
            pause = 0.0 if steady else min(max(PAUSE_FIRST_S, pause * 2), PAUSE_MAX_S)
            _logger.warning(
                "worker %d %s; another one starts%s", number, ending(code), f" in {pause:g} s" if pause else ""
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._asked.wait()
        return Exit.OK

    async def _run_one(self, number: int) -> int:
        """Run one worker to its end; returns its exit code."""
        ours, theirs = socket.socketpair()
        words = [*self._options, "--supervised", str(theirs.fileno())]
        if self._health is not None:
            words += ["--health-port", f"{self._health[0]}:{self._health[1] + number - 1}"]
        with ours, theirs:
            # A session of its own: Ctrl-C at the terminal comes here, and from here as SIGTERM.
            process = self._processes[number] = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "evertick.cli.main", "worker", *words,
                pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip
            theirs.close()
            ours.setblocking(False)
            if self._asked.is_set():  # asked while it was being started
                process.send_signal(signal.SIGTERM)
            if await asyncio.get_running_loop().sock_recv(ours, 1):
                self._one_ran.set()
            code = await process.wait()
            del self._processes[number]
        return code


class Supervised:
    """The worker's end of the socket to its supervisor."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def runs(self, ask_to_stop: Callable[[], object]) -> None:
        """Report that the worker runs. If the supervisor ends, `ask_to_stop` is called in a thread."""
        self._socket.sendall(b"r")

        def watch() -> None:
            with contextlib.suppress(OSError):
                self._socket.recv(1)
            ask_to_stop()

        threading.Thread(target=watch, name="evertick-supervised", daemon=True).start()
