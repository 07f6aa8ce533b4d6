"""Forks: what a process that has the app, and its children, must not have in common."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

FORKS = """
import os
from evertick.base.ids import IdMaker, system_entropy
from evertick.base.instants import Instant

ids = IdMaker(system_entropy())
for _ in range(3):
    if os.fork() == 0:
        print(ids.make("job", Instant(1_700_000_000_000)), flush=True)
        os._exit(0)
    os.wait()
print(ids.make("job", Instant(1_700_000_000_000)), flush=True)
"""


def test_forked_processes_make_ids_of_their_own_in_the_same_millisecond() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], check=True, capture_output=True, text=True, timeout=60)

    made = done.stdout.split()
    assert len(made) == 4
    assert len(set(made)) == 4
