"""Forks: what a process that has the app, and its children, must not have in common."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.programs import run_python

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


FORKS_IN_A_FUNCTION = """
import os
import sys
import time

from evertick import App

app = App("forks", database_url=sys.argv[1])


def fork() -> str:
    child = os.fork()
    if child == 0:
        if sys.argv[3] == "deaf":
            sys.stdout = sys.stderr = None
            return "the child's"
        if sys.argv[3] == "raise":
            raise ValueError("in the child")
        if sys.argv[3] == "exit":
            raise SystemExit(3)
        return "the child's"
    return f"the parent's: {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"


@app.action
async def action(ctx) -> str:
    return fork()


@app.action
def plain(ctx) -> str:
    return fork()


@app.mutation
def mutation(ctx) -> str:
    return fork()


with app.running():
    job_id = app.scheduler.run_after(0, f"forks.{sys.argv[2]}")
    while (job := app.jobs.get(job_id)).completed_at is None:
        time.sleep(0.01)
print(job.result)
"""


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exit", 3), ("raise", 1), ("deaf", 0)])
@pytest.mark.parametrize("kind", ["action", "plain", "mutation"])
def test_a_child_that_a_function_forks_ends_with_the_function(tmp_path: Path, kind: str, how: str, code: int) -> None:
    """Real once: the child waited for threads of its parent that it did not have, and its parent for the child."""
    (tmp_path / "forks.py").write_text(FORKS_IN_A_FUNCTION)

    done = run_python(tmp_path, "forks.py", f"sqlite:///{tmp_path}/forks.db", kind, how)

    assert done.out == f"the parent's: {code}\n", done.err
