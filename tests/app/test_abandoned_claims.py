"""Claims that were committed and never heard of: which loop finds them."""

import asyncio
from datetime import timedelta

from evertick import App
from evertick.base.records.jobs import FunctionKind
from evertick.engine.jobs.claims import Claims
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.settings import Settings
from evertick.store.open import open_store
from tests.store.rows import ANN, BEN, claim, claim_one, insert, new_job, numbers


def test_what_a_worker_holds_of_a_loops_kind_and_does_not_run_is_found() -> None:
    store = open_store("sqlite://")
    store.migrate()
    claim_one(store, number=1, kind=FunctionKind.ACTION)
    insert(store, new_job(2), new_job(3))
    runs = claim(store, limit=1)[0]
    claim(store)
    insert(store, new_job(4))
    claim(store, worker_id=BEN)
    app, counters = App("lost", settings=Settings(lease=timedelta(0))), Counters()
    environment = app.open_on(store, inline=True)
    claims = Claims(environment.engine_deps(app._execution, counters), FunctionKind.MUTATION)

    found = asyncio.run(claims.lost(ANN, known=[(runs.id, runs.attempt)]))

    assert numbers(found) == [3]
    assert counters.snapshot()["claims_found"] == 1
    store.close()
