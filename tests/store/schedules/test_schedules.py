"""Schedules as rows: found when they are due, changed only as they were read, listed page by page."""

import pytest

from evertick.app.paging import unfinished_schedules
from evertick.base.errors import WriteConflict
from evertick.base.ids import DEFAULT_TENANT, ScheduleId, TenantId
from evertick.base.records.schedules import BY_ID, ScheduleFilter, ScheduleOrder
from evertick.store.records.schedule import METADATA, Schedule
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.store.conftest import OpenStore
from tests.store.rows import NOW, OTHER, at
from tests.store.schedule_rows import add, ids, line, schedule

S1 = ScheduleId("s1")
BY_NEXT = ScheduleOrder("next")


def find(store: Store, name: str = "s1", tenant: TenantId = DEFAULT_TENANT) -> Schedule | None:
    return store.read(lambda tx: tx.get_schedule(ScheduleId(name), tenant=tenant))


def due(store: Store, *, limit: int = 100) -> list[str]:
    return ids(store.write(lambda tx: tx.due_schedules(NOW, limit=limit), isolation=Isolation.READ_COMMITTED))


def listed(
    store: Store, where: ScheduleFilter | None = None, *, limit: int = 100, order: ScheduleOrder = BY_ID
) -> list[str]:
    """All pages of `limit`, one after the other."""
    found: list[Schedule] = []
    while True:
        time = found and (found[-1].last_at if order.by == "last" else found[-1].next_at)
        after = (time, str(found[-1].id)) if found else None

        def page(tx: Transaction, after: tuple[object, str] | None = after) -> list[Schedule]:
            return tx.list_schedules(where or ScheduleFilter(), limit=limit, after=after, order=order)  # type: ignore[arg-type]

        rows = store.read(page)
        found += rows
        if len(rows) < limit:
            return ids(found)


def test_a_schedule_comes_back_as_it_was_written(store: Store) -> None:
    row = schedule(
        kind="cron",
        note="résumé 🕰",
        stored_metadata=METADATA.text('{"a":"\\u0001"}'),
        last_at=at(-1),
        last_result='"x"',
        last_failure="E: no",
        version=7,
    )
    add(store, row)

    assert find(store) == row
    assert find(store, "s2") is None
    assert find(store, tenant=OTHER) is None


def test_an_id_exists_once_in_a_tenant(store: Store) -> None:
    add(store, schedule(), schedule(tenant=OTHER, note="theirs"))

    with pytest.raises(WriteConflict):
        add(store, schedule(note="again"))

    assert (find(store) or schedule("none")).note == ""
    assert (find(store, tenant=OTHER) or schedule("none")).note == "theirs"


def test_due_schedules_come_longest_waiting_first(store: Store) -> None:
    add(
        store,
        schedule("b", wake_at=at(-5)),
        schedule("a", wake_at=at(-5)),
        schedule("now", wake_at=NOW),
        schedule("oldest", wake_at=at(-9)),
        schedule("later", wake_at=at(1)),
        schedule("asleep", wake_at=None),
    )

    assert due(store) == ["oldest", "a", "b", "now"]
    assert due(store, limit=2) == ["oldest", "a"]


def test_the_next_wake_up_is_the_earliest_of_all(store: Store) -> None:
    assert store.read(lambda tx: tx.next_wake()) is None

    add(store, schedule("asleep", wake_at=None), schedule("b", wake_at=at(9)), schedule("a", wake_at=at(4)))

    assert store.read(lambda tx: tx.next_wake()) == at(4)


def test_a_schedule_is_saved_only_over_the_revision_that_was_read(store: Store) -> None:
    add(store, schedule(), schedule("s2"))
    first = schedule(note="first", wake_at=None, next_at=None, last_result='"r"', version=2)

    assert store.write(lambda tx: tx.save_schedules([first, schedule("s2", note="both")])) == 2
    assert store.write(lambda tx: tx.save_schedules([schedule(note="stale"), schedule("gone")])) == 0
    assert store.write(lambda tx: tx.save_schedules([])) == 0

    assert find(store) == first._replace(revision=2)
    assert (find(store, "s2") or first).note == "both"


def test_saving_leaves_birth_and_kind_alone(store: Store) -> None:
    add(store, schedule(kind="cron"))

    store.write(lambda tx: tx.save_schedules([schedule(kind="schedule", created_at=at(99), updated_at=at(5))]))

    assert find(store) == schedule(kind="cron", updated_at=at(5), revision=2)


def test_a_deleted_schedule_is_gone(store: Store) -> None:
    add(store, schedule())

    assert store.write(lambda tx: tx.delete_schedule(S1, tenant=OTHER)) is False
    assert store.write(lambda tx: tx.delete_schedule(S1, tenant=DEFAULT_TENANT)) is True
    assert store.write(lambda tx: tx.delete_schedule(S1, tenant=DEFAULT_TENANT)) is False
    assert find(store) is None
    assert due(store) == []


def test_locking_answers_the_schedule(store: Store) -> None:
    add(store, schedule())

    assert store.write(lambda tx: tx.lock_schedule(S1, tenant=DEFAULT_TENANT)) == schedule()
    assert store.write(lambda tx: tx.lock_schedule(S1, tenant=OTHER)) is None


@pytest.mark.postgres
def test_a_schedule_that_somebody_looks_at_is_skipped(clean_postgres_url: str, open_shared: OpenStore) -> None:
    first, second = open_shared(), open_shared()
    if first.dialect != "postgres":
        return
    add(first, schedule("a"), schedule("b"), schedule("c"))

    def work(tx: Transaction) -> tuple[list[str], list[str]]:
        mine = ids(tx.due_schedules(NOW, limit=2))
        return mine, due(second)

    assert first.write(work, isolation=Isolation.READ_COMMITTED) == (["a", "b"], ["c"])
    assert due(second) == ["a", "b", "c"]


def test_schedules_are_listed_by_id(store: Store) -> None:
    add(store, *(schedule(name) for name in ("b", "a", "Z", "ä")), schedule("theirs", tenant=OTHER))

    for limit in (1, 2, 100):
        assert listed(store, limit=limit) == ["Z", "a", "b", "ä"]


def test_schedules_are_listed_by_their_next_time_and_those_without_one_last(store: Store) -> None:
    add(
        store,
        schedule("late", next_at=at(9)),
        schedule("soon", next_at=at(1)),
        schedule("x", next_at=None),
        schedule("also soon", next_at=at(1)),
        schedule("a", next_at=None),
    )

    for limit in (1, 2, 100):
        assert listed(store, limit=limit, order=BY_NEXT) == ["also soon", "soon", "late", "a", "x"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (ScheduleFilter(kind="cron"), ["c"]),
        (ScheduleFilter(status="paused"), ["p", "q_%!"]),
        (ScheduleFilter(status="paused", function="app.other"), ["q_%!"]),
        (ScheduleFilter(id_contains="_%"), ["q_%!"]),
        (ScheduleFilter(id_contains="!"), ["q_%!"]),
        (ScheduleFilter(id_contains="Q"), []),
        (ScheduleFilter(id_contains=""), ["c", "p", "q_%!", "r"]),
        (ScheduleFilter(next_before=at(5)), ["r"]),
        (ScheduleFilter(tenant=OTHER), ["theirs"]),
        (ScheduleFilter(failing=True), ["p"]),
        (ScheduleFilter(late_at=at(0)), ["c"]),
        (ScheduleFilter(late_at=at(5)), ["c", "r"]),
        (ScheduleFilter(missed_since=at(3)), ["r"]),
        (ScheduleFilter(missed_since=at(4)), []),
        (ScheduleFilter(time_zone="UTC", failing=True), ["p"]),
        (ScheduleFilter(time_zone="Asia/Tokyo"), []),
    ],
)
@pytest.mark.parametrize("order", [BY_ID, BY_NEXT, ScheduleOrder("last", descending=True)])
def test_a_filter_narrows_the_list(
    store: Store, where: ScheduleFilter, expected: list[str], order: ScheduleOrder
) -> None:
    add(
        store,
        schedule("c", kind="cron", late=1),
        schedule("p", status="paused", last_failure="E: no"),
        schedule("q_%!", status="paused", function="app.other"),
        schedule("r", next_at=at(4), missed_at=at(3)),
        schedule("theirs", tenant=OTHER),
    )

    assert sorted(listed(store, where, limit=1, order=order)) == expected


def test_a_history_is_read_newest_first(store: Store) -> None:
    def work(tx: Transaction) -> None:
        for each in (line(1), line(3), line(2), line(5, "s2"), line(6, tenant=OTHER)):
            tx.add_history(each)

    store.write(work)

    def history(before: str | None = None, limit: int = 9) -> list[int]:
        rows = store.read(lambda tx: tx.list_history(S1, tenant=DEFAULT_TENANT, limit=limit, before=before))
        return [row.at - NOW for row in rows]

    assert history() == [3, 2, 1]
    assert history(limit=2) == [3, 2]
    assert history(before=line(2).id) == [1]
    assert store.read(lambda tx: tx.list_history(S1, tenant=DEFAULT_TENANT, limit=1)) == [line(3)]


def test_lines_of_a_history_are_removed_after_their_retention(store: Store) -> None:
    """Of schedules that exist, and of others; the oldest first, in batches."""

    def work(tx: Transaction) -> None:
        for number in range(5):
            tx.add_history(line(number * 1_000, f"s{number % 2}"))

    store.write(work)

    assert store.write(lambda tx: tx.prune_history(before=at(3_000), limit=2)) == 2
    assert store.write(lambda tx: tx.prune_history(before=at(3_000), limit=2)) == 1
    assert store.write(lambda tx: tx.prune_history(before=at(3_000), limit=2)) == 0
    left = [
        each.at
        for name in ("s0", "s1")
        for each in store.read(lambda tx, name=name: tx.list_history(ScheduleId(name), tenant=DEFAULT_TENANT, limit=9))  # type: ignore[misc]
    ]
    assert sorted(left) == [at(3_000), at(4_000)]


def test_unfinished_schedules_of_some_tenants_are_read_in_pages_across_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those of a tenant between them, nor those that have ended, nor those of a tenant behind the last."""
    monkeypatch.setattr("evertick.app.paging.PAGE_MAX", 2)
    tenants = [TenantId(name) for name in ("alpha", "alpha_2", "beta", "zeta")]
    for tenant in tenants:
        add(
            store,
            *(schedule(each, tenant=tenant) for each in ("a", "b", "c")),
            schedule("d", tenant=tenant, status="completed"),
        )

    chosen = [tenants[2], tenants[0]]
    found = store.read(lambda tx: [(row.tenant, str(row.id)) for row in unfinished_schedules(tx, chosen)])

    assert found == [(tenant, each) for tenant in ("alpha", "beta") for each in ("a", "b", "c")]
