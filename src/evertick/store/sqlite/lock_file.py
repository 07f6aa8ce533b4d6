"""Files beside a database that are open for the sake of their locks of the operating system.

A lock belongs to the open file, which a forked child shares: it would keep the lock when its parent dies. So a child
closes these files at once.
"""

import os
import weakref


class LockFile:
    """A file that can be opened for its locks."""

    def __init__(self) -> None:
        self._handle: int | None = None
        _files.add(self)

    def close(self) -> None:
        """Give the file back, and the locks on it. Not open: nothing happens."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


_files: "weakref.WeakSet[LockFile]" = weakref.WeakSet()


def _close_after_fork() -> None:
    for file in _files:
        file.close()


os.register_at_fork(after_in_child=_close_after_fork)
