"""Where the files of a run with workers lie: in memory if there is room, until it ends, or until another begins."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.postgres_programs import folder_for_files, hold_lock

PREFIX: Final = "evertick-files-"
LOCK: Final = "owner.lock"
ROOM_BYTES: Final = 6 << 30
"""The files of all tests take one of them."""


@contextlib.contextmanager
def folder(memory: str | None = None) -> Iterator[str | None]:
    """A folder in memory until the block ends; None if there is no room. What killed runs have left is removed."""
    memory = memory or folder_for_files(in_memory=True, room=ROOM_BYTES)
    if memory is None:
        yield None
        return
    for left in Path(memory).glob(f"{PREFIX}*"):
        remove_if_left(left)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=memory))
    with hold_lock(made / LOCK):
        yield str(made)
        shutil.rmtree(made, ignore_errors=True)


def remove_if_left(made: Path) -> None:
    """Remove the folder of a run that has ended."""
    with contextlib.suppress(OSError), (made / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a run that goes on holds it
        shutil.rmtree(made, ignore_errors=True)
