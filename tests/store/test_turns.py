"""Tenants take turns: none waits for ever because others have more jobs, older ones, or a name that comes first."""

from collections import Counter

import psycopg
import pytest

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind
from evertick.engine.jobs.claims import TAKEN_MS, Claimant, Claimed, claim_due
from evertick.engine.jobs.tenant_fairness import LOOK_EVERY_MS, PAGES_MAX, RoundRobin
from evertick.store.contract.store import Isolation, Store
from tests.store.conftest import OpenStore
from tests.store.rows import ANN, MUTATION, NOW, at, insert, new_job


class Knowing:
    """A runner that knows every function."""

    def knows(self, name: str, kind: FunctionKind, /) -> bool:
        """See `Runner.knows`."""
        return True


def tenant(number: int) -> TenantId:
    """Tenants in the order of their names."""
    return TenantId(f"tenant_{number:03}")


class Claims:
    """The claims of one loop, one after another."""

    def __init__(self, store: Store, *, page_size: int) -> None:
        self._store = store
        self._turns = RoundRobin(page_size)
        self.looks = 0

    def claim(self, *, limit: int, now: Instant = NOW, isolation: Isolation = Isolation.SERIALIZABLE) -> Claimed:
        """The next one."""
        runner: object = Knowing()
        claimant = Claimant(MUTATION, ANN, runner)  # type: ignore[arg-type]
        claimed, self._turns = self._store.write(
            lambda transaction: claim_due(transaction, claimant, self._turns, now=now, limit=limit), isolation=isolation
        )
        self.looks += claimed.suspect_is_due is not None
        return claimed


def fill(store: Store, *, tenants: int, jobs: int, due_at: Instant = NOW) -> None:
    """So many jobs of so many tenants; the earlier a tenant's name, the longer they have been due."""
    insert(
        store,
        *(
            new_job(who * jobs + n, tenant=tenant(who), due_at=Instant(due_at + who))
            for who in range(tenants)
            for n in range(jobs)
        ),
    )


def test_with_room_for_one_job_each_tenant_gets_his_turn(store: Store) -> None:
    fill(store, tenants=3, jobs=4, due_at=at(-1_000))
    loop = Claims(store, page_size=1_000)

    turns = [loop.claim(limit=1).claims[0].tenant for _ in range(6)]

    assert turns == [tenant(0), tenant(1), tenant(2)] * 2


def test_tenants_beyond_a_page_get_their_turn_however_much_the_others_have(store: Store) -> None:
    fill(store, tenants=8, jobs=20, due_at=at(-1_000))
    loop = Claims(store, page_size=3)

    served = Counter(job.tenant for _ in range(4) for job in loop.claim(limit=4).claims)

    assert served == {tenant(who): 2 for who in range(8)}


def test_where_there_is_room_for_all_everybody_due_is_served_in_one_claim(store: Store) -> None:
    fill(store, tenants=8, jobs=2, due_at=at(-1_000))
    loop = Claims(store, page_size=3)

    assert len(loop.claim(limit=100).claims) == 16


def test_the_next_due_moment_is_that_of_all_tenants(store: Store) -> None:
    fill(store, tenants=7, jobs=1, due_at=at(500))
    insert(store, new_job(900, tenant=tenant(5), due_at=at(40)))
    loop = Claims(store, page_size=2)

    assert loop.claim(limit=9).next_due_at == at(40)


def test_a_way_round_that_takes_several_looks_ends_with_the_next_due_moment_of_all(store: Store) -> None:
    fill(store, tenants=2 * PAGES_MAX + 1, jobs=1, due_at=at(500))
    loop = Claims(store, page_size=1)

    looks = [loop.claim(limit=9).next_due_at for _ in range(6)]

    assert looks == [NOW, NOW, at(500)] * 2


def test_who_was_served_early_in_a_way_round_is_looked_at_again_after_it(store: Store) -> None:
    fill(store, tenants=3, jobs=3, due_at=at(-1_000))
    loop = Claims(store, page_size=1_000)
    claims = 0
    for _ in range(20):
        claimed = loop.claim(limit=2)
        claims += len(claimed.claims)
        if claimed.next_due_at is None:
            break

    assert claims == 9


def test_while_one_tenant_fills_every_claim_the_others_are_looked_for_now_and_then(store: Store) -> None:
    fill(store, tenants=1, jobs=40)
    loop = Claims(store, page_size=2)

    def claimed(after_ms: int) -> tuple[list[str], int]:
        before = loop.looks
        claims = loop.claim(limit=2, now=at(after_ms)).claims
        return [job.tenant for job in claims], loop.looks - before

    first = tenant(0)
    assert claimed(0) == ([first, first], 1)
    insert(store, new_job(900, tenant=tenant(1), due_at=at(1)))
    assert [claimed(10) for _ in range(5)] == [([first, first], 0)] * 5
    assert claimed(LOOK_EVERY_MS) == ([first, first], 0)  # that it is time is seen by the claim after a guess
    assert claimed(LOOK_EVERY_MS) == ([first, tenant(1)], 1)


def test_what_was_due_before_the_last_claim_is_found_by_the_next_look(store: Store) -> None:
    """A job of a process whose clock is behind, or one that was given back."""
    fill(store, tenants=1, jobs=8)
    loop = Claims(store, page_size=2)
    loop.claim(limit=2)
    insert(store, new_job(900, tenant=tenant(0), due_at=at(-5_000)))

    found = [[job.due_at for job in loop.claim(limit=3).claims] for _ in range(3)]

    assert found == [[NOW] * 3, [NOW] * 3, [at(-5_000)]]
    assert loop.looks == 2


def test_a_tenant_that_was_alone_lately_is_claimed_from_without_a_look_but_not_twice_in_a_row(store: Store) -> None:
    loop = Claims(store, page_size=2)

    def claimed(first: int, *names: str) -> tuple[list[str], int]:
        insert(store, *(new_job(first + i, tenant=TenantId(name)) for i, name in enumerate(names)))
        before = loop.looks
        return [job.tenant for job in loop.claim(limit=9).claims], loop.looks - before

    assert claimed(1, "ann") == (["ann"], 1)
    assert claimed(2, "ann", "bob") == (["ann"], 0)
    assert claimed(4, "ann") == (["ann", "bob"], 1)
    assert claimed(5, "bob") == (["bob"], 1)  # two were seen, so nobody is guessed
    assert claimed(6) == ([], 1)
    assert claimed(6, "bob") == (["bob"], 0)
    assert claimed(7, "ann") == (["ann"], 1)
    assert claimed(8, "bob") == (["bob"], 1)  # a wrong guess costs one statement


@pytest.mark.postgres
def test_who_finds_all_that_is_due_taken_looks_again_soon(open_postgres: OpenStore) -> None:
    """What is due next for the same tenant was not seen: whoever took the first may be busy with it, or die."""
    store = open_postgres()
    first, second = new_job(), new_job(2, due_at=at(1_000))
    insert(store, first, second)

    with psycopg.connect(store.url) as faster:
        faster.execute("select from jobs where id = %s for update", (first.id,))
        nothing = Claims(store, page_size=10).claim(limit=10, isolation=Isolation.EACH)

    assert (nothing.claims, nothing.next_due_at) == ([], at(TAKEN_MS))
    assert [each.id for each in Claims(store, page_size=10).claim(limit=10).claims] == [first.id]
