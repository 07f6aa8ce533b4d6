"""Names that were read from a server, kept for some seconds in the user's folder of caches, readable by him alone.

Each press of Tab is a process of its own, and a server may be far away. A file holds one list and the time until which
it is good; it is named by a digest of what was asked and by whom, so a file tells neither a token nor an address. What
cannot be written or read is left out: then each press asks the server.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

GOOD_S: Final = 30.0
"""How long names are kept."""
NONE_GOOD_S: Final = 5.0
"""How long it is kept that a server gave none, because it did not reply or refused."""


def cache_folder() -> Path:
    """The cache folder of Evertick: below XDG_CACHE_HOME, or LOCALAPPDATA on Windows."""
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "evertick" / "completion"


def file_for(asked: Sequence[str]) -> Path:
    """The cache file for the query `asked`."""
    return cache_folder() / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()}.json"


def kept(asked: Sequence[str]) -> list[str] | None:
    """The cached names for the query `asked`; None if there are none or they have expired."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        held = json.loads(file_for(asked).read_bytes())
        if 0 <= held["until"] - time.time() <= GOOD_S:
            return [str(name) for name in held["names"]]
    return None


def keep(asked: Sequence[str], names: Sequence[str] | None) -> None:
    """Cache the names for the query `asked`, and delete expired files. None means that the server returned no names."""
    until = time.time() + (NONE_GOOD_S if names is None else GOOD_S)
    file = file_for(asked)
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.parent.chmod(0o700)
        for each in file.parent.iterdir():
            if time.time() - each.stat().st_mtime > GOOD_S:
                each.unlink(missing_ok=True)
        descriptor, made = tempfile.mkstemp(dir=file.parent)  # readable by the user alone
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            json.dump({"until": until, "names": names or []}, opened)
        Path(made).replace(file)
