"""Processes under fire: workers that are killed, stopped for a while, and started again."""

import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Final

LEASE_MS: Final = 1_000
"""The lease of the workers."""


@dataclass(slots=True)
class Struck:
    """What was done to the processes."""

    kills: int = 0
    zombies: int = 0
    crashes: int = 0
    """Processes that ended by an error of their own."""


class Fire:
    """Workers of one database, each in a process, and what kills them.

    `work` is what a process does with `args`. With `freezes` some are stopped for longer than their lease, and go on.
    """

    def __init__(
        self, struck: Struck, work: Callable[..., None], *args: object, workers: int, freezes: bool = True
    ) -> None:
        self._struck = struck
        self._work = work
        self._args = args
        self._workers = workers
        self._freezes = freezes
        # A server process that has imported everything forks children in some milliseconds.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([work.__module__, "evertick.store.postgres.store"])
        self._processes: list[BaseProcess] = []
        self._stopped: dict[int, float] = {}
        self._chance = random.Random()

    def start(self) -> None:
        """Start all of them."""
        self._processes = [self._new() for _ in range(self._workers)]

    def strike(self) -> None:
        """Kill one of them, or stop it for a while."""
        process = self._chance.choice(self._processes)
        if process.pid is None or not process.is_alive() or process.pid in self._stopped:
            return
        if self._freezes and self._chance.random() < 0.1:
            os.kill(process.pid, signal.SIGSTOP)
            self._stopped[process.pid] = time.monotonic() + self._chance.uniform(1.2, 3.0) * LEASE_MS / 1000
            self._struck.zombies += 1
            return
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        self._struck.kills += 1

    def tend(self, *, all_awake: bool = False) -> None:
        """Wake whom it is time to wake, and start what is dead again."""
        for pid, until in list(self._stopped.items()):
            if all_awake or time.monotonic() >= until:
                del self._stopped[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        for place, process in enumerate(self._processes):
            if not process.is_alive():
                self._struck.crashes += process.exitcode not in (0, -signal.SIGKILL)
                self._processes[place] = self._new()

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                process.join()

    def _new(self) -> BaseProcess:
        process = self._context.Process(target=self._work, args=self._args, daemon=True)
        process.start()
        return process
