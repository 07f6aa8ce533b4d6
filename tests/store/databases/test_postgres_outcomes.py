"""PostgreSQL behind a bad network: what `write` says when a connection breaks, and how the truth is found."""

import threading
from collections.abc import Callable, Iterator

import pytest

from evertick.base.errors import DatabaseUnavailable, OutcomeUnknown
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.documents import StoredDocument
from evertick.base.records.jobs import Call, Claim, JobState
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore, stores_at
from tests.store.proxy import CommitProxy, Mode
from tests.store.rows import NOW, claim, claim_in, claim_one, end_of, finish, get, insert, is_held, new_job

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]
ROUNDS = 15


@pytest.fixture
def proxy(clean_postgres_url: str) -> Iterator[CommitProxy]:
    """The bad network."""
    with CommitProxy(clean_postgres_url) as proxy:
        yield proxy


@pytest.fixture
def direct(open_postgres: OpenStore) -> Store:
    """A store beside the bad network."""
    return open_postgres()


@pytest.fixture
def far(proxy: CommitProxy) -> Iterator[Store]:
    """A store behind the bad network."""
    for open_one in stores_at(proxy.url):
        yield open_one()


@pytest.mark.parametrize("mode", ["before", "after"])
def test_after_a_lost_commit_the_fence_tells_whether_it_happened(
    proxy: CommitProxy, far: Store, direct: Store, mode: Mode
) -> None:
    insert(direct, *(new_job(number) for number in range(1, ROUNDS + 1)))
    for number, claimed in enumerate(claim(direct), 1):
        proxy.mode = mode
        with pytest.raises(OutcomeUnknown, match="during COMMIT"):
            finish(far, end_of(claimed))
        proxy.mode = "pass"

        assert is_held(far, claimed) is (mode == "before")
        assert get(direct, number).state is (JobState.IN_PROGRESS if mode == "before" else JobState.SUCCESS)
    assert proxy.cuts == ROUNDS


def test_of_a_statement_that_is_a_transaction_by_itself_nobody_knows_whether_it_happened(
    open_postgres: OpenStore,
) -> None:
    store, other = open_postgres(), open_postgres()

    def work(tx: Transaction) -> None:
        backend = tx.connection.info.backend_pid
        other.write(lambda its: its.connection.execute("select pg_terminate_backend(%s, 10000)", (backend,)))
        tx.insert_jobs([new_job()])

    with pytest.raises(OutcomeUnknown, match="during a statement"):
        store.write(work, isolation=Isolation.EACH)
    store.write(lambda tx: tx.insert_jobs([new_job()]), isolation=Isolation.EACH)  # with a new connection
    assert get(store).state is JobState.PENDING


@pytest.mark.parametrize("mode", ["before", "after"])
def test_after_a_lost_commit_a_call_is_found_or_can_be_made_again(
    proxy: CommitProxy, far: Store, direct: Store, mode: Mode
) -> None:
    call = Call("app.pay", "print", "1")
    for number in range(ROUNDS):
        proxy.mode = mode
        with pytest.raises(OutcomeUnknown):
            far.write(lambda tx, key=f"k{number}": tx.save_call(key, call, tenant=DEFAULT_TENANT, now=NOW))  # type: ignore[misc]
        proxy.mode = "pass"

        found = far.read(lambda tx, key=f"k{number}": tx.find_call(key, tenant=DEFAULT_TENANT))  # type: ignore[misc]

        assert found == (None if mode == "before" else call)


def asked_while_the_commit_is_under_way(store: Store, claimed: Claim, goes_on: Callable[[], None]) -> bool:
    """What `is_held` answers when `goes_on` ends the other transaction while it waits."""
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(is_held(store, claimed)))
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    asking.start()
    while asking.is_alive() and not count(store, waiting):
        pass
    assert answers == []
    goes_on()
    asking.join(30)
    return answers[0]


def count(store: Store, statement: str) -> int:
    """The one number that a statement returns."""
    return int(store.read(lambda tx: tx.connection.execute(statement).fetchone())[0])


@pytest.mark.parametrize("ends", ["release", "drop"])
def test_the_fence_waits_for_a_finish_whose_commit_is_still_under_way(
    proxy: CommitProxy, far: Store, direct: Store, ends: str
) -> None:
    claimed = claim_one(direct)
    proxy.mode = "hold"
    with pytest.raises(OutcomeUnknown):
        finish(far, end_of(claimed))

    held = asked_while_the_commit_is_under_way(direct, claimed, getattr(proxy, ends))

    assert held is (ends == "drop")
    assert get(direct).state is (JobState.IN_PROGRESS if ends == "drop" else JobState.SUCCESS)


@pytest.mark.parametrize("ends", ["release", "drop"])
def test_the_fence_waits_for_a_claim_whose_commit_is_still_under_way(
    proxy: CommitProxy, far: Store, direct: Store, ends: str
) -> None:
    insert(direct, new_job())
    claims: list[Claim] = []
    proxy.mode = "hold"
    with pytest.raises(OutcomeUnknown):
        far.write(lambda tx: claims.extend(claim_in(tx)))

    held = asked_while_the_commit_is_under_way(direct, claims[0], getattr(proxy, ends))

    assert held is (ends == "release")


def test_a_connection_that_breaks_before_the_commit_wrote_nothing(
    proxy: CommitProxy, far: Store, direct: Store
) -> None:
    def work(tx: Transaction) -> None:
        tx.insert_jobs([new_job()])
        proxy.cut()
        tx.put_documents(DEFAULT_TENANT, [StoredDocument("a", "1")])

    with pytest.raises(DatabaseUnavailable):
        far.write(work)

    assert direct.read(lambda tx: tx.get_job(new_job().id, tenant=DEFAULT_TENANT)) is None
    insert(far, new_job())
    assert get(direct).state is JobState.PENDING


def test_work_that_hides_a_broken_connection_did_not_commit(proxy: CommitProxy, far: Store, direct: Store) -> None:
    def work(tx: Transaction) -> str:
        tx.insert_jobs([new_job()])
        proxy.cut()
        try:
            tx.next_waiting_at()
        except DatabaseUnavailable:
            return "hidden"
        return "not broken"

    with pytest.raises(DatabaseUnavailable):
        far.write(work)

    assert direct.read(lambda tx: tx.get_job(new_job().id, tenant=DEFAULT_TENANT)) is None


def test_a_read_whose_connection_breaks_says_so_and_the_next_one_works(proxy: CommitProxy, far: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.next_waiting_at()
        proxy.cut()
        tx.next_waiting_at()

    with pytest.raises(DatabaseUnavailable):
        far.read(work)

    assert far.read(lambda tx: tx.next_waiting_at()) is None


def test_idle_connections_that_were_cut_are_not_used(proxy: CommitProxy, far: Store) -> None:
    insert(far, new_job(1))
    proxy.cut()

    insert(far, new_job(2))

    assert get(far, 2).state is JobState.PENDING


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_read_whose_commit_is_cut_leaves_nothing_in_doubt(
    proxy: CommitProxy, far: Store, direct: Store, mode: Mode
) -> None:
    """A worker met this as a driver's error, and ended."""
    insert(direct, new_job(1))
    proxy.mode = mode

    with pytest.raises(DatabaseUnavailable):
        far.read(lambda tx: tx.list_workers())


def test_statements_discarded_behind_the_drivers_back_cost_a_connection(open_postgres: OpenStore) -> None:
    """As a DO block does that runs `deallocate all`, or a pooler that we do not hear of."""
    store = open_postgres()

    def often(transaction: Transaction) -> None:
        for _ in range(10):  # so that the driver prepares it
            transaction.confirm()

    def discarded(transaction: Transaction) -> None:
        transaction.connection.execute("do $$ begin execute 'deallocate all'; end $$")
        transaction.confirm()

    store.write(often)
    with pytest.raises(DatabaseUnavailable, match="were discarded"):
        store.write(discarded)
    store.write(often)
