"""Workers that run scripts are killed: each run happens once, with all of its writes."""

import os
import random
import subprocess
import sys
import time
from collections import Counter

import pytest

from evertick import App
from tests.scripts.program import SOURCE

RUNS = 40
KILLS = 2
PATIENCE_S = 240.0


def worker(url: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "EVERTICK_DATABASE_URL": url}
    return subprocess.Popen([sys.executable, "-m", "tests.scripts.program"], env=environment, stderr=subprocess.DEVNULL)


@pytest.mark.long
@pytest.mark.processes
def test_each_run_happens_once_though_workers_are_killed(database_url: str) -> None:
    app = App("killed", database_url=database_url)
    app.scripts.tables("outbox", write=["outbox"])
    app.scripts.create("s", SOURCE, language="javascript")
    app.scripts.publish("s")
    calls = [app.scripts.call("s", number) for number in range(RUNS)]
    ids = app.scheduler.run_after_many(0, calls)
    chance, deadline = random.Random(7), time.monotonic() + PATIENCE_S
    killed = 0

    process = worker(database_url)
    try:
        while (done := len(app.scripts.runs())) < RUNS:
            assert time.monotonic() < deadline, f"{done} of {RUNS} runs"
            if killed < KILLS and done >= (killed + 1) * RUNS // (KILLS + 2):
                process.kill()
                process.wait()
                killed += 1
                process = worker(database_url)
            time.sleep(chance.uniform(0.005, 0.05))
    finally:
        process.terminate()
        process.wait()

    rows = app.db.query("outbox").collect()
    assert Counter((row["n"], row["part"]) for row in rows) == Counter(
        (n, part) for n in range(RUNS) for part in (1, 2)
    )
    store, tenant = app.environment.store, app.tenant_id
    values = store.read(lambda tx: [tx.get_script_value(f"n{number}", tenant=tenant) for number in range(RUNS)])
    assert values == ["1"] * RUNS
    assert [app.jobs.get(job_id).result for job_id in ids] == list(range(RUNS))
    found = [app.scripts.run(job_id) for job_id in ids]
    assert all([run.outcome for run in attempts] == ["ok"] for attempts in found)
    assert any(attempts[0].deaths for attempts in found)
    app.close()
