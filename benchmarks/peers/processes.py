"""Processes of a measurement: a peer's worker, what its jobs record, and the CPU time of the server."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from benchmarks.peers.common import ROW, Mode


class StartLog:
    """The file into which a worker's jobs record their starts."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "starts"
        self.path.write_bytes(b"")

    def count(self) -> int:
        """How many jobs have started."""
        return self.path.stat().st_size // ROW.size

    def rows(self) -> list[tuple[float, float]]:
        """Due time and start of each job."""
        return [(due, start) for due, start in ROW.iter_unpack(self.path.read_bytes())]


class Worker:
    """One worker process, and whatever it starts."""

    def __init__(self, module: str, mode: Mode, log: StartLog, directory: Path) -> None:
        self._output = (directory / "worker.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.measure", module, "--worker", mode],
            stdout=self._output,
            stderr=self._output,
            stdin=subprocess.PIPE,  # whose end tells the worker that we are gone
            env={**os.environ, "EVERTICK_BENCH_LOG": str(log.path)},
            start_new_session=True,
        )

    def processes(self) -> list[psutil.Process]:
        """The worker and its children, as far as they live."""
        try:
            first = psutil.Process(self._process.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cpu_seconds(self) -> float:
        """CPU time used so far."""
        return float(sum(sum(process.cpu_times()[:2]) for process in self.processes()))

    def memory_mb(self) -> float:
        """Resident memory of all its processes."""
        return float(sum(process.memory_info().rss for process in self.processes()) / 2**20)

    def stop(self) -> None:
        """Ask it to end, then make it end."""
        for number, seconds in ((signal.SIGTERM, 8), (signal.SIGINT, 2), (signal.SIGKILL, 5)):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(seconds)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
            break
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # children that outlived their parent
        except ProcessLookupError:
            pass
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._output.close()


def leave_with_parent() -> None:
    """End this process when the one that started it is gone, so that no worker is left behind to load the
    machine.

    Standard input is a pipe that the parent holds open and never writes to.
    """

    def wait() -> None:
        os.read(0, 1)
        if os.getpgrp() == os.getpid():  # started in a group of its own: nobody else is hit
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, name="leave with parent", daemon=True).start()


def server_cpu_seconds() -> float:
    """CPU time that the run's PostgreSQL has used so far, whatever clients came and went."""
    try:
        server = psutil.Process(int(os.environ["EVERTICK_BENCH_POSTGRES_PID"]))
        return float(sum(server.cpu_times()[:4]) + sum(sum(child.cpu_times()[:2]) for child in server.children()))
    except psutil.NoSuchProcess:
        return 0.0
