"""Tenants take turns: none waits for ever because others have more jobs, older ones, or a name that comes first."""

from collections import Counter
from collections.abc import Sequence

import psycopg
import pytest

from evertick import App
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, JobState, ServedFunction
from evertick.base.records.limits import PoolLimits
from evertick.engine.jobs.claims import KNOWN_QUEUES_MAX, OLDEST_MAX, POLL_KEPT_MS, TAKEN_MS, Capacity, Claimed, Claims
from evertick.engine.runtime.metrics import Counters
from evertick.engine.runtime.settings import Settings
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import ACTION, ANN, MUTATION, NOW, at, end_of, finish, insert, new_job, numbers


class Knowing:
    """A runner that has these functions: `app.destruct` and `app.other` as mutations, `app.notify` as an action."""

    def __init__(self, *, pool: str = "default") -> None:
        kinds = {"app.destruct": MUTATION, "app.other": MUTATION, "app.notify": ACTION}
        self._functions = {name: ServedFunction(name, kind, pool, "()") for name, kind in kinds.items()}

    def function(self, name: str, /) -> ServedFunction | None:
        """See `Runner.function`."""
        return self._functions.get(name)

    def functions(self) -> Sequence[ServedFunction]:
        """See `Runner.functions`."""
        return list(self._functions.values())


def tenant(number: int) -> TenantId:
    """Tenants in the order of their names."""
    return TenantId(f"tenant_{number:03}")


class ALoop:
    """The claims of one loop, one after another."""

    def __init__(
        self,
        store: Store,
        *,
        kind: FunctionKind = MUTATION,
        pools: tuple[str, ...] | None = None,
        pool: str = "default",
    ) -> None:
        self._store = store
        environment = App("turns", settings=Settings()).open_on(store, inline=True)
        runner: object = Knowing(pool=pool)
        self._claims = Claims(environment.engine_deps(runner, Counters(), pools=pools), kind)  # type: ignore[arg-type]
        self.looks = 0

    def claim(
        self,
        *,
        limit: int,
        now: Instant = NOW,
        isolation: Isolation = Isolation.SERIALIZABLE,
        running: dict[TenantId, int] | None = None,
    ) -> Claimed:
        """The next one."""
        capacity = Capacity(jobs=limit, running=running or {})
        claimed = self._store.write(
            lambda transaction: self._claims.claim_due(transaction, ANN, now=now, capacity=capacity),
            isolation=isolation,
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


def test_with_room_for_one_job_each_tenant_gets_its_turn(store: Store) -> None:
    fill(store, tenants=3, jobs=4, due_at=at(-1_000))
    loop = ALoop(store)

    turns = [loop.claim(limit=1).claims[0].tenant for _ in range(6)]

    assert turns == [tenant(0), tenant(1), tenant(2)] * 2


def test_tenants_beyond_a_look_get_their_turn_however_much_the_others_have(store: Store) -> None:
    fill(store, tenants=OLDEST_MAX + 44, jobs=3, due_at=at(-1_000))
    loop = ALoop(store)

    served = Counter(job.tenant for n in range(20) for job in loop.claim(limit=30, now=at(n * 300)).claims)

    assert len(served) == OLDEST_MAX + 44
    assert max(served.values()) <= 3


def test_where_there_is_room_for_all_every_tenant_is_served_in_one_claim(store: Store) -> None:
    fill(store, tenants=8, jobs=2, due_at=at(-1_000))

    assert len(ALoop(store).claim(limit=100).claims) == 16


def test_what_a_tenant_leaves_goes_to_the_others(store: Store) -> None:
    fill(store, tenants=1, jobs=50, due_at=at(-1_000))
    insert(store, *(new_job(100 + n, tenant=tenant(n)) for n in range(1, 4)))

    served = Counter(job.tenant for job in ALoop(store).claim(limit=20).claims)

    assert served == {tenant(0): 17, tenant(1): 1, tenant(2): 1, tenant(3): 1}


def test_free_places_go_to_the_tenant_that_runs_least(store: Store) -> None:
    fill(store, tenants=2, jobs=20, due_at=at(-1_000))
    loop = ALoop(store)

    served = Counter(job.tenant for job in loop.claim(limit=10, running={tenant(0): 6}).claims)

    assert served == {tenant(0): 2, tenant(1): 8}


def test_a_tenants_queues_share_its_places_and_its_jobs_come_by_rank(store: Store) -> None:
    insert(store, *(new_job(n, due_at=at(-100 + n)) for n in range(1, 20)))
    insert(store, *(new_job(n, due_at=at(-500 + n), name="app.other") for n in range(20, 22)))

    claimed = ALoop(store).claim(limit=6)

    assert numbers(claimed.claims) == [20, 21, 1, 2, 3, 4]


def test_the_next_due_time_is_that_of_all_tenants(store: Store) -> None:
    fill(store, tenants=7, jobs=1, due_at=at(500))
    insert(store, new_job(900, tenant=tenant(5), due_at=at(40)))

    assert ALoop(store).claim(limit=9).next_due_at == at(40)


def test_what_falls_due_is_claimed_at_that_moment_by_each_loop_for_itself(store: Store) -> None:
    insert(store, new_job(1, due_at=at(40)), new_job(2, due_at=at(40), kind=ACTION))
    mutations, actions = ALoop(store), ALoop(store, kind=ACTION)

    early = [loop.claim(limit=9, now=at(39)) for loop in (mutations, actions)]
    due = [numbers(loop.claim(limit=9, now=at(40)).claims) for loop in (mutations, actions)]

    assert [each.next_due_at for each in early] == [at(40), at(40)]
    assert due == [[1], [2]]


def test_a_loop_claims_the_functions_that_its_worker_has_in_its_pools(store: Store) -> None:
    insert(
        store,
        new_job(1), new_job(2, pool="mail"), new_job(3, name="app.gone"), new_job(4, name="app.gone", pool="mail"),
        new_job(5, kind=ACTION), new_job(6, kind=MUTATION, name="app.notify"),
        new_job(7, kind=ACTION, name="app.other"),
    )  # fmt: skip

    def claimed(**options: object) -> list[int]:
        found: list[int] = []
        loop = ALoop(store, **options)  # type: ignore[arg-type]

        def work(transaction: Transaction) -> None:
            found[:] = numbers(loop._claims.claim_due(transaction, ANN, now=NOW, capacity=Capacity(jobs=9)).claims)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.write(work)
        return sorted(found)

    assert claimed() == [1, 2, 7]
    assert claimed(kind=ACTION) == [5, 6]
    assert claimed(pools=("mail",)) == [2]
    assert claimed(pools=("mail",), pool="mail") == [1, 2, 7]  # what was written before the functions were moved
    assert claimed(pools=("default",)) == [1, 2, 7]
    assert claimed(pools=("default",), pool="mail") == [1, 7]


def test_queues_of_others_cost_a_look_a_step_each(store: Store) -> None:
    insert(store, *(new_job(n, tenant=tenant(n % 50), name=f"gone.f{n % 4}") for n in range(1, 400)), new_job(900))
    loop = ALoop(store)
    steps: list[int] = []

    def work(transaction: Transaction) -> None:
        loop._claims.claim_due(transaction, ANN, now=NOW, capacity=Capacity(jobs=9))
        steps.append(len(loop._claims._served.others))

    store.write(work)

    assert steps[0] == 4 + 1  # of unknown functions, and of the action that this worker has


@pytest.mark.postgres
def test_while_a_look_is_kept_a_new_tenant_is_found_beside_it(open_postgres: OpenStore) -> None:
    """On PostgreSQL, where a look after many claims walks over what was claimed."""
    store = open_postgres()
    fill(store, tenants=1, jobs=40)
    loop = ALoop(store)

    def claimed(after_ms: int) -> tuple[list[str], int]:
        before = loop.looks
        claims = loop.claim(limit=2, now=at(after_ms)).claims
        return [job.tenant for job in claims], loop.looks - before

    first = tenant(0)
    assert claimed(0) == ([first, first], 1)
    assert [claimed(10) for _ in range(5)] == [([first, first], 0)] * 5
    insert(store, new_job(900, tenant=tenant(1), due_at=at(0)))
    loop._claims.newcomers.notified = True
    tenants, looks = claimed(20)
    assert (sorted(tenants), looks) == ([first, tenant(1)], 0)
    assert claimed(POLL_KEPT_MS) == ([first, first], 1)


@pytest.mark.postgres
def test_beside_many_tenants_a_look_finds_a_new_action_at_once(open_postgres: OpenStore) -> None:
    store, name = open_postgres(), "app.notify"
    busy = [tenant(number) for number in range(KNOWN_QUEUES_MAX + 1)]
    jobs = [new_job(2 * n + k, tenant=each, name=name) for n, each in enumerate(busy) for k in range(2)]
    insert(store, *jobs)
    loop, running = ALoop(store, kind=ACTION), dict.fromkeys(busy, 2) | {TenantId("zoe"): 1}

    def claimed(after_ms: int) -> tuple[list[str], int]:
        before = loop.looks
        claims = loop.claim(limit=1, now=at(after_ms), running=running).claims
        return [job.tenant for job in claims], loop.looks - before

    assert claimed(0) == ([busy[0]], 1)
    assert claimed(1) == ([busy[1]], 0)
    insert(store, new_job(900, tenant=TenantId("zoe"), name=name, due_at=at(0)))
    loop._claims.newcomers.notified = True
    assert claimed(2) == (["zoe"], 1)


@pytest.mark.postgres
def test_what_was_due_before_the_last_claim_is_found_by_the_next_look(open_postgres: OpenStore) -> None:
    """A job of a process whose clock is behind, or one that was given back."""
    store = open_postgres()
    fill(store, tenants=1, jobs=8)
    loop = ALoop(store)
    loop.claim(limit=2)
    insert(store, new_job(900, tenant=tenant(0), due_at=at(-5_000)))

    found = [[job.due_at for job in loop.claim(limit=3).claims] for _ in range(3)]

    assert found == [[NOW] * 3, [NOW] * 3, [at(-5_000)]]
    assert loop.looks == 2


@pytest.mark.postgres
def test_an_idle_loop_tries_the_heads_that_it_claimed_from_last_once_before_it_looks(open_postgres: OpenStore) -> None:
    store = open_postgres()
    loop = ALoop(store)

    def claimed(first: int, *names: str) -> tuple[list[str], int]:
        insert(store, *(new_job(first + i, tenant=TenantId(name)) for i, name in enumerate(names)))
        before = loop.looks
        return [job.tenant for job in loop.claim(limit=9).claims], loop.looks - before

    assert claimed(1, "ann") == (["ann"], 1)
    assert claimed(2) == ([], 1)
    assert claimed(2, "ann", "bob") == (["ann"], 0)
    assert claimed(4, "ann") == (["bob", "ann"], 1)
    assert claimed(5) == ([], 1)
    assert claimed(5, "bob") == (["bob"], 0)
    assert claimed(6) == ([], 1)
    assert claimed(6, "zoe") == (["zoe"], 1)  # a wrong guess costs one statement


@pytest.mark.postgres
def test_who_finds_all_that_is_due_taken_looks_again_soon(open_postgres: OpenStore) -> None:
    """What is due next for the same tenant was not seen: whoever took the first may be busy with it, or die."""
    store = open_postgres()
    first, second = new_job(), new_job(2, due_at=at(1_000))
    insert(store, first, second)

    with psycopg.connect(store.url) as faster:
        faster.execute("select from jobs where id = %s for update", (first.id,))
        nothing = ALoop(store).claim(limit=10, isolation=Isolation.EACH)

    assert (nothing.claims, nothing.next_due_at) == ([], at(TAKEN_MS))
    assert [each.id for each in ALoop(store).claim(limit=10).claims] == [first.id]


def test_two_loops_share_a_tenants_jobs_and_none_is_claimed_twice(store: Store) -> None:
    insert(store, *(new_job(n) for n in range(1, 31)))
    one, other = ALoop(store), ALoop(store)

    taken = [numbers(loop.claim(limit=10).claims) for loop in (one, other, one)]

    assert [len(each) for each in taken] == [10, 10, 10]
    assert sorted(number for each in taken for number in each) == list(range(1, 31))
    assert new_job().tenant == DEFAULT_TENANT


def test_the_first_claim_of_a_worker_leaves_a_suspect_of_a_full_pool_alone(store: Store) -> None:
    """A suspect is claimed before the first look, so nothing has asked for limits yet."""
    loop = ALoop(store, kind=ACTION, pool="mail")
    insert(store, new_job(1, kind=ACTION, pool="mail"))
    finish(store, end_of(loop.claim(limit=1).claims[0], JobState.PENDING, crashes=2))
    insert(store, new_job(2, kind=ACTION, pool="mail"))
    assert numbers(loop.claim(limit=1).claims) == [2]
    store.write(lambda tx: tx.save_pool_limits("mail", PoolLimits(running=1)))

    fresh = ALoop(store, kind=ACTION, pool="mail")._claims
    fresh.isolation(Isolation.READ_COMMITTED)
    found = store.write(lambda tx: fresh.suspect(tx, ANN, now=at(100)), isolation=Isolation.READ_COMMITTED)

    assert found.claims == []
