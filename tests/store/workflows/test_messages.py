"""Messages to runs, and how they wake a run that waits."""

import threading

import pytest

from evertick.base.errors import WriteConflict
from evertick.base.ids import JobId
from evertick.base.instants import NEVER
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.jobs import JobState
from evertick.base.records.workflows import MessageKind, NewMessage, Sender
from evertick.store.records.workflows import Parked
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import ANN, NOW, at, claim, end_of, job_id, new_job
from tests.store.workflows.rows import due_at, park, start, started, waiting

WAIT_S = 60.0
LOCK_S = 0.3


def event(run_id: JobId, name: str = "paid", *, key: str | None = None, value: str = "1") -> NewMessage:
    """An event with a value."""
    return NewMessage(run_id, MessageKind.EVENT, name, outcome=Returned(value), key=key)


def send(store: Store, *messages: NewMessage, now: int = 0) -> set[JobId]:
    """Send messages in a transaction of their own."""
    return store.write(lambda tx: tx.send_messages(messages, now=at(now)))


def kept(store: Store) -> list[tuple[str, str | None, str | None]]:
    """The messages that are kept, taken or not: name, key and value."""
    text = "select name, key, result from workflow_inbox order by id"
    return store.read(lambda tx: [tuple(row) for row in tx.connection.execute(text).fetchall()])


def test_messages_wait_in_the_order_in_which_they_were_sent(store: Store) -> None:
    one, two = start(store, 1, 2)
    failed = NewMessage(two, MessageKind.ENDED, "", 7, Raised("ValueError", "no"))

    send(store, event(one, "b"), failed, event(one, "a", value='"é"'))
    send(store, NewMessage(one, MessageKind.CANCEL))

    found = waiting(store, one, two)
    assert [(m.run_id, m.kind, m.name, m.seq, m.outcome) for m in found] == [
        (one, MessageKind.EVENT, "b", 0, Returned("1")),
        (two, MessageKind.ENDED, "", 7, Raised("ValueError", "no")),
        (one, MessageKind.EVENT, "a", 0, Returned('"é"')),
        (one, MessageKind.CANCEL, "", 0, None),
    ]
    assert waiting(store) == []


def test_a_message_is_taken_once(store: Store) -> None:
    (one,) = start(store, 1)
    send(store, event(one, "a"), event(one, "b"))
    first = waiting(store, one)[0]

    store.write(lambda tx: tx.take_messages([first.id], now=NOW))

    assert [message.name for message in waiting(store, one)] == ["b"]
    store.write(lambda tx: tx.take_messages([], now=NOW))


def test_a_key_reaches_a_run_once_also_after_it_was_taken(store: Store) -> None:
    one, two = start(store, 1, 2)
    assert send(store, event(one, key="k"), event(two, key="k"), event(one, key="k")) == {one, two}
    (message,) = waiting(store, one)
    store.write(lambda tx: tx.take_messages([message.id], now=NOW))

    assert send(store, event(one, key="k")) == {one}

    assert waiting(store, one) == []
    assert len(waiting(store, two)) == 1


def test_what_was_taken_is_removed_unless_it_has_a_key(store: Store) -> None:
    (one,) = start(store, 1)
    send(store, event(one, "a"), event(one, "b", key="k"), event(one, "c"))
    taken = [message.id for message in waiting(store, one)][:2]
    store.write(lambda tx: tx.take_messages(taken, now=NOW))
    assert store.read(lambda tx: tx.waiting_size(one, limit=10)) == (1, 1)

    store.write(lambda tx: tx.drop_messages(taken))
    store.write(lambda tx: tx.drop_messages([]))

    assert kept(store) == [("b", "k", None), ("c", None, "1")]
    assert send(store, event(one, "b", key="k")) == {one}
    assert [message.name for message in waiting(store, one)] == ["c"]


def test_events_that_were_not_taken_are_told_without_their_values(store: Store) -> None:
    one, two = start(store, 1, 2)
    send(store, event(one, "a", value='"é"'), event(one, "b", key="k"), NewMessage(one, MessageKind.CANCEL))
    send(store, event(one, "c", value="1234"), event(two), now=5)
    send(store, NewMessage(one, MessageKind.ENDED, "", 7, Returned("1")))

    def told(run_id: JobId, limit: int) -> tuple[int, list[tuple[object, ...]]]:
        count, events = store.read(lambda tx: tx.waiting_events(run_id, limit=limit))
        return count, [(each.name, each.key, each.sent_at, each.size) for each in events]

    assert told(one, 2) == (3, [("a", None, at(0), 3), ("b", "k", at(0), 1)])
    taken = waiting(store, one)[0].id
    store.write(lambda tx: tx.take_messages([taken], now=NOW))
    assert told(one, 9) == (2, [("b", "k", at(0), 1), ("c", None, at(5), 4)])
    assert told(job_id(9), 9) == (0, [])


def test_only_unfinished_runs_are_reached(store: Store) -> None:
    held = started(store, 1, 2)[0]
    store.write(lambda tx: tx.finish_jobs([end_of(held, result="1")], worker_id=ANN, now=NOW))

    store.write(lambda tx: tx.insert_jobs([new_job(3)]))

    assert send(store, event(held.id), event(job_id(2)), event(job_id(3)), event(job_id(9))) == {job_id(2)}
    assert waiting(store, held.id, job_id(9)) == []


def test_a_message_makes_a_run_that_waits_due(store: Store) -> None:
    (held,) = started(store, 1)
    park(store, held)
    assert due_at(store, held.id) == NEVER
    assert claim(store, now=at(10**9)) == []

    send(store, event(held.id), now=5)

    assert due_at(store, held.id) == at(5)
    (again,) = claim(store, now=at(5))
    assert (again.id, again.attempt) == (held.id, held.attempt + 1)


def test_a_message_does_not_postpone_a_run_that_is_due(store: Store) -> None:
    (one,) = start(store, 1)
    send(store, event(one), now=50)
    assert due_at(store, one) == NOW


def test_a_run_that_waits_for_a_timer_is_due_then(store: Store) -> None:
    (held,) = started(store, 1)
    park(store, held, due_at=at(60_000))
    assert claim(store, now=at(59_999)) == []
    assert [each.id for each in claim(store, now=at(60_000))] == [held.id]


def test_a_run_is_not_parked_over_a_message_that_it_has_not_seen(store: Store) -> None:
    (held,) = started(store, 1)
    send(store, event(held.id, "early"))
    seen = waiting(store, held.id)[-1].id
    send(store, event(held.id, "late"))

    park(store, held, seen=seen, now=at(7))

    assert due_at(store, held.id) == at(7)


def test_a_message_that_was_seen_and_left_does_not_wake_the_run(store: Store) -> None:
    (held,) = started(store, 1)
    send(store, event(held.id))
    park(store, held, seen=waiting(store, held.id)[-1].id)
    assert due_at(store, held.id) == NEVER


def test_a_run_that_is_parked_while_a_message_is_written_sees_it(open_shared: OpenStore) -> None:
    """Parking waits for the lock that sending has taken; then it finds the message."""
    store, other = open_shared(), open_shared()
    (held,) = started(store, 1)
    ended: list[BaseException | None] = []

    def park_meanwhile() -> None:
        try:
            other.write(parking, isolation=Isolation.READ_COMMITTED)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    def parking(tx: Transaction) -> None:
        assert tx.park_runs([end_of(held, JobState.PENDING, due_at=NEVER)], worker_id=ANN, now=NOW)
        tx.wake_parked([Parked(held.id, 0)], now=at(9))

    thread = threading.Thread(target=park_meanwhile)

    def sending(tx: Transaction) -> None:
        tx.send_messages([event(held.id)], now=NOW)
        thread.start()
        thread.join(LOCK_S)  # it reaches the lock mostly; where it does not, it comes later and sees the message, too

    store.write(sending, isolation=Isolation.READ_COMMITTED)
    thread.join(WAIT_S)

    assert ended == [None]
    assert due_at(store, held.id) == at(9)


def test_a_conflict_keeps_nothing_of_a_message(store: Store) -> None:
    (one,) = start(store, 1)

    def work(tx: Transaction) -> None:
        tx.send_messages([event(one)], now=NOW)
        raise WriteConflict("undone")

    with pytest.raises(WriteConflict):
        store.write(work)
    assert waiting(store, one) == []


def test_an_event_is_withdrawn_unless_it_is_taken_or_another_one_has_its_number(store: Store) -> None:
    one, two = start(store, 1, 2)
    ada = Sender("token ops", job_id(8))
    send(store, event(one, "a", value='"x"')._replace(sender=ada.to_text()), event(one, "b", key="k"), event(two, "a"))
    assert [message.sender for message in waiting(store, one)] == [ada.to_text(), None]
    [a] = store.read(lambda tx: tx.events_named(one, "a", limit=9))
    [b] = store.read(lambda tx: tx.events_named(one, "b", limit=9))
    assert (a.sender, b.sender) == (ada, None)

    assert store.write(lambda tx: tx.withdraw_event(two, a)) is None, "it was sent to another run"
    assert store.write(lambda tx: tx.withdraw_event(one, a._replace(sent_at=at(1)))) is None, "that is another one"
    assert store.write(lambda tx: tx.withdraw_event(one, a)) == '"x"'
    assert store.write(lambda tx: tx.withdraw_event(one, a)) is None
    store.write(lambda tx: tx.take_messages([b.id], now=NOW))
    assert store.write(lambda tx: tx.withdraw_event(one, b)) is None
    assert waiting(store, one) == [] and len(waiting(store, two)) == 1
