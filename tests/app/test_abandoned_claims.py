"""Claims that were committed and never heard of: who finds them, and what becomes of them."""

import asyncio

from evertick import App
from evertick.base.ids import JobId
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.engine.jobs.claims import Claims
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.runner import Ran
from evertick.engine.runtime.settings import Settings
from evertick.store.open import open_store
from evertick.store.transaction.unit_of_work import UnitOfWork
from tests.store.rows import ANN, claim, get, insert, new_job


class KnowsOne:
    """A runner that knows one function by name."""

    def knows(self, name: str, kind: FunctionKind, /) -> bool:
        return name == "app.destruct" and kind is FunctionKind.MUTATION

    def run_mutation(self, unit: UnitOfWork, claim: Claim, /, *, now: int) -> Ran:
        raise AssertionError(f"{claim.name} was not to be run")

    async def run_action(self, claim: Claim, /) -> Ran:
        raise AssertionError(f"{claim.name} was not to be run")


def test_a_claim_of_an_unknown_function_that_was_never_handed_back_is_handed_back_when_it_is_found() -> None:
    store = open_store("sqlite://")
    store.migrate()
    insert(store, new_job(1), new_job(2, name="app.gone"))
    assert len(claim(store)) == 2
    app, counters = App("lost", settings=Settings(lease_ms=0)), Counters()
    deps = app.open_on(store, inline=True).engine_deps(KnowsOne(), counters)

    found = asyncio.run(Claims(deps, FunctionKind.MUTATION).lost(ANN))

    assert [job.id for job in found] == [JobId("job_0000000000000000000000000001")]
    assert (get(store, 2).state, get(store, 2).blocked) == ("pending", True)
    assert counters.snapshot()["claims_found"] == 2
    store.close()
