"""Files of code: when they were changed, and their compiled forms."""

import contextlib
from collections.abc import Iterable
from importlib.util import cache_from_source
from pathlib import Path


def forget_bytecode(files: Iterable[str]) -> None:
    """Remove compiled forms. Python tells versions apart by seconds and size, which is too coarse for an editor."""
    for file in files:
        with contextlib.suppress(OSError, NotImplementedError):
            Path(cache_from_source(file)).unlink()


def stamps_of(files: Iterable[str]) -> dict[str, int]:
    """When each of the files that exist was changed last (ns)."""
    stamps = {}
    for file in files:
        with contextlib.suppress(OSError):
            stamps[file] = Path(file).stat().st_mtime_ns
    return stamps
