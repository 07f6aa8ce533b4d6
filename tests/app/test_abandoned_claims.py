"""Claims that were committed and never heard of: who finds them, and what becomes of them."""

import asyncio

from evertick.base.clock import SystemClock
from evertick.base.ids import JobId
from evertick.base.records import Claim, FunctionKind
from evertick.engine.claims import Abandoned
from evertick.engine.events import Counters
from evertick.engine.lanes import InlineLanes
from evertick.engine.runner import Ran
from evertick.engine.settings import Settings
from evertick.store.open import open_store
from evertick.store.unit_of_work import UnitOfWork
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
    clock, counters = SystemClock(), Counters()
    abandoned = Abandoned(InlineLanes(store), clock, Settings(lease_ms=0), counters, KnowsOne(), FunctionKind.MUTATION)

    found = asyncio.run(abandoned.look(ANN))

    assert [job.id for job in found] == [JobId("job_0000000000000000000000000001")]
    assert (get(store, 2).state, get(store, 2).blocked) == ("pending", True)
    assert counters.snapshot()["claims_found"] == 2
    store.close()
