"""Whether the file of an open database is still the one at its path.

A connection goes on with a file that was deleted, or replaced by a restored copy, and everything that it writes is lost
without an error when the process ends. So it is with its write-ahead log: what other processes write meanwhile goes
into a new one, which is lost then.
"""

import os
from pathlib import Path

from evertick.base.errors import DatabaseUnavailable


class SameFile:
    """Remembers the file at a path, which is resolved, from the first look on."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._first: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise DatabaseUnavailable if another file is at the path, or none. A look takes a microsecond."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  # a third of the time
        except FileNotFoundError:
            now = None
        except OSError:  # where this user may not look, using the file will say so
            return
        else:
            now = found.st_dev, found.st_ino
        if self._first is None:
            self._first = now
        elif now != self._first:
            became = "replaced by another one" if now else "deleted"
            raise DatabaseUnavailable(
                f"the file {self._path} was {became} while it was in use, so what is written now would be lost: "
                "restart this process"
            )
