"""Jobs that kill their workers, with processes that really die."""

from pathlib import Path

import pytest

from evertick import App
from evertick.functions import JobState
from evertick.rules.jobs.lifecycle import CRASHES_MAX, SUSPECT_CRASHES
from tests.app.engine import job_of
from tests.cli.programs import Done, run_python

PROGRAM = '''
import asyncio, os, sys, threading

from evertick import App, MutationCtx, Retry, SyncActionCtx
from evertick.engine.jobs.mutations import MutationLoop

app = App("poison", database_url=sys.argv[1])


@app.mutation
def poison(ctx: MutationCtx) -> None:
    ctx.db.insert("written", {"by": "poison"})
    os._exit(3)


@app.action
def poisonous_action(ctx: SyncActionCtx) -> None:
    os._exit(3)


acting, caught = threading.Event(), threading.Event()


@app.action
def killer(ctx: SyncActionCtx) -> None:
    acting.set()
    caught.wait(1)
    os._exit(3)


@app.mutation
def innocent(ctx: MutationCtx) -> None:
    ctx.db.insert("written", {"by": "innocent"})
    if acting.is_set():
        caught.set()
        threading.Event().wait(1)


@app.mutation
def pulse(ctx: MutationCtx) -> None:
    """Ran: so every mutation that was due before has had its turn."""


@app.action
def beat(ctx: SyncActionCtx) -> None:
    """Ran: so every action that was due before has had its turn."""


async def run_after_actions(loop, round=MutationLoop.round):
    for _ in range(20):
        await asyncio.sleep(0 if acting.is_set() else 0.01)
    return await round(loop)


class Stopper:
    def job_ended(self, event):
        mine.discard(event.claim.id)
        if not mine:
            loop.call_soon(worker.stop)


async def main():
    global loop, worker, mine
    loop = asyncio.get_running_loop()
    mine = {app.scheduler.run_after(0, pulse), app.scheduler.run_after(0, beat)}
    app.counters.observers.append(Stopper())
    worker = app.worker()
    if sys.argv[2] == "run beside":
        MutationLoop.round = run_after_actions
    await worker.run()


if sys.argv[2].startswith("run"):
    asyncio.run(main())
else:
    target = app.functions.resolve(sys.argv[2])
    print(app.scheduler.using(retry=Retry(100, first=0.001)).run_after(0, target))
    print(*app.scheduler.run_after_many(0, [innocent.with_args() for _ in range(3)]))
app.close()
'''


class Processes:
    """Starts workers, one after another, on one file."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/poison.db"
        self._folder = folder
        (folder / "program.py").write_text(PROGRAM)

    def run(self, what: str) -> Done:
        """A worker that stops when all that was due has had its turn (or dies), or a scheduling program."""
        return run_python(self._folder, "program.py", self.url, what)

    def run_until_ended(self, app: App, job_id: str, how: str = "run") -> int:
        """Start workers until a job has ended; returns how many died."""
        deaths = 0
        while job_of(app, job_id).state in (JobState.PENDING, JobState.IN_PROGRESS):
            done = self.run(how)
            assert done.code in (0, DEATH), done.err
            deaths += done.code == DEATH
            assert deaths <= 10
        return deaths


DEATH = 3
"""The exit code of a worker that a job has killed."""
SPARED = [(JobState.SUCCESS, SUSPECT_CRASHES)] * 3
"""How the innocent end: caught in two deaths, they ran apart from then on."""


@pytest.mark.processes
@pytest.mark.parametrize("name", ["poison", "poisonous_action"])
def test_a_job_that_kills_its_workers_is_put_in_quarantine(tmp_path: Path, name: str) -> None:
    processes = Processes(tmp_path)
    poison = processes.run(f"program.{name}").out.split()[0]
    app = App("reader", database_url=processes.url)

    deaths = processes.run_until_ended(app, poison)

    job = job_of(app, poison)
    assert (job.state, job.crashes, deaths) == (JobState.FAILED, 5, 5)
    assert str(job.error).startswith("Quarantined: its worker died 5 times")
    assert processes.run("run").code == 0
    app.close()


@pytest.mark.processes
def test_a_mutation_that_kills_its_workers_spares_those_that_shared_its_commit(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    poison, *innocent = processes.run("program.poison").out.split()
    app = App("reader", database_url=processes.url)

    assert [processes.run_until_ended(app, job_id) for job_id in (poison, *innocent)] == [CRASHES_MAX, 0, 0, 0]

    assert [(job_of(app, job_id).state, job_of(app, job_id).crashes) for job_id in innocent] == SPARED
    written = app.call(app.query(lambda ctx: [document["by"] for document in ctx.db.query("written")]))
    assert written == ["innocent"] * 3
    app.close()


@pytest.mark.processes
def test_an_action_that_kills_its_workers_spares_the_mutations_that_ran_beside_it(tmp_path: Path) -> None:
    """They are caught in its deaths until they run apart from it, which is long before their quarantine."""
    processes = Processes(tmp_path)
    poison, *innocent = processes.run("program.killer").out.split()
    app = App("reader", database_url=processes.url)

    deaths = [processes.run_until_ended(app, job_id, "run beside") for job_id in (poison, *innocent)]

    assert deaths == [CRASHES_MAX, 0, 0, 0]
    assert [(job_of(app, job_id).state, job_of(app, job_id).crashes) for job_id in innocent] == SPARED
    app.close()
