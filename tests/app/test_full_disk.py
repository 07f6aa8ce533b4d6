"""A worker beside a disk that takes no more: it loses nothing, says so, and goes on by itself when there is room."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import logging, os, resource, sys, threading
from evertick import App, MutationCtx, SyncActionCtx
from evertick.base.errors import StorageFailed
from tests.app.engine import PATIENCE_S, Engine

file = sys.argv[1]
app = App("full", database_url=f"sqlite:///{file}")
begun, go, told = threading.Event(), threading.Event(), threading.Event()
runs = []


@app.action(name="act")
def act(ctx: SyncActionCtx) -> None:
    runs.append("act")
    begun.set()
    go.wait(PATIENCE_S)


@app.mutation(name="note")
def note(ctx: MutationCtx) -> None:
    ctx.db.insert("notes", {"size": 1})


class Told(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith(f"action ends: {file} cannot be written"):
            told.set()


logging.getLogger("evertick.engine").addHandler(Told())
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
with Engine(app) as engine:
    job_id = app.scheduler.run_after(0, "act")
    assert begun.wait(PATIENCE_S)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{file}-wal"), hard))
    try:
        app.scheduler.run_after(0, "note")
    except StorageFailed as error:
        print(error)
    go.set()
    assert told.wait(PATIENCE_S)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    acted, noted = engine.wait(job_id), engine.wait(app.scheduler.run_after(0, "note"))
    print(acted.state.value, acted.crashes, len(runs), noted.state.value)
print(app.call(app.query(lambda ctx: len(ctx.db.query("notes").collect()))))
app.close()
"""


@pytest.mark.long
@pytest.mark.processes
def test_a_worker_goes_on_by_itself_when_the_disk_has_room_again(tmp_path: Path) -> None:
    """The action ended while nothing could be written, and is not run again."""
    file = tmp_path / "full.db"

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 0, done.stderr
    refused, acted, noted = done.stdout.splitlines()
    assert refused.startswith(f"{file} cannot be written")
    assert "nothing was written, check the disk: its space" in refused
    assert (acted, noted) == ("success 0 1 success", "1")
