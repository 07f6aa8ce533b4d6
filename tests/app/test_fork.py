"""Forks: what a process that has the app, and its children, must not have in common."""

import subprocess
import sys
from pathlib import Path

import pytest

from evertick import App
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


CHILDREN = """
import multiprocessing
import os
import sys
import threading

from evertick import App

app = App("forks", database_url=sys.argv[1])


@app.mutation
def add(ctx, who: str) -> None:
    ctx.db.insert("rows", {"who": who})


@app.query
def count(ctx, who: str) -> int:
    return sum(row["who"] == who for row in ctx.db.query("rows").collect())


def child(number: int) -> None:
    if number % 2 or sys.argv[1].startswith("sqlite"):
        app.close()  # what its parent has opened
    for _ in range(5):
        app.call(add, "child")
    app.close()


def others() -> None:
    while not over.is_set():
        app.call(add, "thread")


app.call(add, "nobody")  # what a thread imports just then, no child can import
app.call(count, "nobody")
over = threading.Event()
thread = threading.Thread(target=others)
if not sys.argv[1].startswith("sqlite"):  # which cannot be forked while a thread is inside of it
    thread.start()
children = []
for number in range(4):
    children.append(multiprocessing.get_context("fork").Process(target=child, args=(number,)))
    children[-1].start()
    for _ in range(20):
        app.call(add, "parent")
for each in children:
    each.join(60)
over.set()
if thread.is_alive():
    thread.join()
print([each.exitcode for each in children], app.call(count, "child"), app.call(count, "parent"))
"""


def test_forked_children_have_connections_of_their_own_and_close_none_of_the_parents(
    tmp_path: Path, database_url: str
) -> None:
    """On PostgreSQL a child that closed its app ended the connections of its parent, in the midst of a COMMIT."""
    app = App("forks", database_url=database_url)
    app.migrate()
    app.close()
    (tmp_path / "forks.py").write_text(CHILDREN)

    done = run_python(tmp_path, "forks.py", database_url)

    assert (done.out, done.err) == ("[0, 0, 0, 0] 20 80\n", "")


WORKERS = """
import os
import sys
import time

from evertick import App

app = App("forks", database_url=sys.argv[1])
running = app.running()


@app.action
async def where(ctx) -> int:
    return os.getpid()


def run() -> int:
    job_id = app.scheduler.run_after(0, where)
    while (job := app.jobs.get(job_id)).completed_at is None:
        time.sleep(0.01)
    return job.result


running.start()
assert run() == os.getpid()
running.stop() if sys.argv[1].startswith("sqlite") else None  # a file has one worker
child = os.fork()
if child == 0:
    app.close() if sys.argv[1].startswith("sqlite") else None
    running.start()
    while run() != os.getpid():
        pass
    running.stop()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_may_start_the_worker_that_its_parent_has_started(tmp_path: Path, database_url: str) -> None:
    """As a server does that loads the program before it forks."""
    app = App("forks", database_url=database_url)
    app.migrate()
    app.close()
    (tmp_path / "forks.py").write_text(WORKERS)

    assert run_python(tmp_path, "forks.py", database_url).out == "0\n"


def test_what_was_taken_before_a_fork_says_whose_it_is(tmp_path: Path, database_url: str) -> None:
    app = App("forks", database_url=database_url)
    app.migrate()
    app.close()
    (tmp_path / "forks.py").write_text(
        "import os, sys\nfrom evertick import App\nfrom evertick.errors import Misuse\n"
        "app = App('forks', database_url=sys.argv[1])\njobs = app.jobs\njobs.counts()\n"
        "if os.fork() == 0:\n    try:\n        jobs.counts()\n    except Misuse as error:\n"
        "        print(error, flush=True)\n        if 'SQLite' in str(error):\n            app.close()\n"
        "    print(app.jobs.counts(), flush=True)\n    os._exit(0)\nos.wait()\n"
    )

    done = run_python(tmp_path, "forks.py", database_url)

    first, second = done.out.splitlines()
    if database_url.startswith("sqlite"):
        assert "was opened before this process was forked, and SQLite cannot share that" in first
    else:
        assert "these PostgreSQL connections are those of the process that this one was forked from" in first
    assert second.startswith("{'pending': 0, ")
