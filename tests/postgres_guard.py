"""The guard of a test server: removes it when its owner is gone, however the owner went.

`tests.postgres` starts this file as a process of its own, beside each PostgreSQL that it starts:

    python -I -S postgres_guard.py OWNER_LOCK DIRECTORY

The owner holds a lock (flock) on OWNER_LOCK for as long as it lives. The kernel gives the lock to the guard
when the owner lets go or dies, SIGKILL included. The guard then ends the server whose data is in
DIRECTORY/data, removes its shared memory segment and removes DIRECTORY. There is one way to clean up, so it
is exercised by every run.

Only the standard library is used, without site-packages, so that starting a guard costs some 20 ms.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path

STOP_SECONDS = 20.0
IPC_RMID = 0


def wait_for_owner(lock: Path) -> None:
    """Return when nobody else holds the lock; at once if the file is already gone."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
    except FileNotFoundError:
        return


def end_server(data: Path) -> None:
    """Stop the server in `data` at once, by force if need be, and free its shared memory."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return  # never started, or stopped in order: then nothing is left in shared memory either
    for stop_signal in (signal.SIGQUIT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, stop_signal)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and is_alive(pid, data):
            time.sleep(0.01)
    with contextlib.suppress(IndexError, ValueError, OSError, AttributeError):
        # The seventh line is "key id" of the segment; a server that ended in order has removed it, and this
        # fails.
        ctypes.CDLL(None).shmctl(int(lines[6].split()[1]), IPC_RMID, None)


def is_alive(pid: int, data: Path) -> bool:
    """Does the server still run? One that removed its pid file has ended, even while nobody has reaped it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (data / "postmaster.pid").exists()


def main() -> None:
    """Wait for the owner's end, then leave nothing behind."""
    owner, directory = Path(sys.argv[1]), Path(sys.argv[2])
    wait_for_owner(owner)
    end_server(directory / "data")
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # its end is the owner's end, and nothing else
    main()
