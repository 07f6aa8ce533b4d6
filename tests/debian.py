"""Programs of Debian's packages that tests need and pip does not have: a browser, Prometheus' promtool."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest


def installed(programs: Sequence[str], *, packages: Sequence[Sequence[str]]) -> str:
    """Where the first of some programs is that this machine has; without any, the test fails and says what is missing.

    As root it is installed first if need be, by one process of the tests: the first packages that can be installed.
    """
    with (Path(tempfile.gettempdir()) / f"evertick-{programs[0]}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        found = next(filter(None, map(shutil.which, programs)), None)
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            for command in (["update"], *(["install", "-y", "--no-install-recommends", *each] for each in packages)):
                subprocess.run(["apt-get", "-qq", *command], check=False, capture_output=True, stdin=subprocess.DEVNULL)
                if found := next(filter(None, map(shutil.which, programs)), None):
                    break
    if found is None:
        words = " ".join(packages[0])
        pytest.fail(f"this test needs {programs[0]}: apt-get install {words} (as root it installs it itself)")
    return found
