"""Workers that run scripts, zygotes and children are killed: each run happens once, with all of its writes."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest

from evertick import App
from tests.scripts.program import SOURCE

RUNS = int(os.environ.get("SCRIPT_RUNS", "60"))
KILLS = int(os.environ.get("SCRIPT_KILLS", "6"))
PATIENCE_S = 240.0 + RUNS / 10


def worker(url: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "EVERTICK_DATABASE_URL": url}
    return subprocess.Popen([sys.executable, "-m", "tests.scripts.program"], env=environment, stderr=subprocess.DEVNULL)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def kill_part(process: "subprocess.Popen[bytes]", part: str) -> bool:
    """Kill the zygote of a worker, or the process of a run; returns whether there was one."""
    zygotes = children(process.pid)
    victims = zygotes if part == "zygote" else [run for zygote in zygotes for run in children(zygote)]
    with contextlib.suppress(ProcessLookupError):
        if victims:
            os.kill(victims[0], signal.SIGKILL)
            return True
    return False


@pytest.mark.long
@pytest.mark.processes
def test_each_run_happens_once_though_processes_are_killed(database_url: str) -> None:
    app = App("killed", database_url=database_url)
    app.scripts.tables("outbox", write=["outbox"])
    app.scripts.create("s", SOURCE, language="javascript")
    app.scripts.publish("s")
    calls = [app.scripts.call("s", number) for number in range(RUNS)]
    ids = app.scheduler.run_after_many(0, calls)
    chance, deadline = random.Random(7), time.monotonic() + PATIENCE_S
    store, tenant = app.environment.store, app.tenant_id
    parts, killed = cycle(["worker", "zygote", "child"]), Counter[str]()
    part = next(parts)

    processes = [worker(database_url) for _ in range(2)]
    try:
        while (done := sum(app.jobs.counts()[state] for state in ("success", "failed"))) < RUNS:
            assert time.monotonic() < deadline, f"{done} of {RUNS} runs, {killed}"
            if killed.total() < KILLS and done >= (killed.total() + 1) * RUNS // (KILLS + 2):
                at = chance.randrange(2)
                if part != "worker":
                    hit = kill_part(processes[at], part)
                else:
                    hit = True
                    processes[at].kill()
                    processes[at].wait()
                    processes[at] = worker(database_url)
                if hit:
                    killed[part] += 1
                    part = next(parts)
            time.sleep(chance.uniform(0.0, 0.03))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()

    attempts = [app.scripts.run(job_id) for job_id in ids]
    happened = [number for number in range(RUNS) if attempts[number][-1].outcome == "ok"]
    rows = app.db.query("outbox").collect()
    assert Counter((row["n"], row["part"]) for row in rows) == Counter((n, part) for n in happened for part in (1, 2))
    values = store.read(lambda tx: [tx.get_script_value(f"n{number}", tenant=tenant) for number in range(RUNS)])
    assert values == ["1" if number in happened else None for number in range(RUNS)]
    for number, (job_id, found) in enumerate(zip(ids, attempts, strict=True)):
        outcomes = [run.outcome for run in found]
        # The sandbox was killed during a run: it is tried once more.
        assert outcomes in (["ok"], ["killed", "ok"], ["killed", "killed"]), outcomes
        assert app.jobs.get(job_id).result == (number if number in happened else None)
    assert killed.total() == KILLS
    print(killed, "happened", len(happened), "deaths", sum(found[-1].deaths for found in attempts))
    app.close()
