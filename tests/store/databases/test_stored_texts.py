"""JSON texts in rows: earlier releases' are read, newer ones refused, those that nobody changes stay as they are."""

from typing import Any

import pytest

from evertick.app.schedules.views import summary
from evertick.base.errors import SchemaMismatch
from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.base.instants import Instant
from evertick.base.records.jobs import (
    COMPLETION,
    JOB_ERROR,
    OCCURRENCE,
    RETRY,
    Completion,
    FunctionKind,
    JobError,
    OccurrenceRef,
    RetryPolicy,
)
from evertick.base.records.schedules import ScheduleFilter
from evertick.base.records.stored import Codec, text_of
from evertick.rules.schedules.fates import Reason
from evertick.rules.schedules.metadata import KnownBackfill, ScheduleMetadata, Target
from evertick.rules.schedules.policies import Overlap
from evertick.store.records.schedule import METADATA, STATE, TARGET, Schedule, StoredSpec
from evertick.store.store import Store
from tests.store.rows import NOW, claim_one
from tests.store.schedule_rows import add, schedule

OLD_TARGET = (
    '{"name": "app.report", "kind": "action", "args": {"day": "2026-01-02"}, '
    '"retry": "[5, 250, 2.0, 86400000, 0.5]", "workflow_id": "w", "pool": "p"}'
)
OLD_METADATA = (
    '{"user": {"team": "a"}, "request_id": "r1", "definition": "0123", "spec_at": 1800014400000, "source": "run_time", '
    '"triggers": {"t1": 1800014400001}, "backfills": {"b1": [1, 2, "skip", 3, 4]}, "overrides": {"t1": "{\\"n\\": 2}"}}'
)
OLD_STATE = (
    '{"counters":{"on_time":1},"last_result":[["schedule","",1800014400000],1800014400005,"job_1",""],"note":"n",'
    '"pause":[1800014400000,"ann","n",null],"policies":["skip",1,"all",31536000000,false,1000],"remaining":9,'
    '"run_id_template":"w-{nominal}","seen_until":1800014400000,"touched_at":1800014400000,"v":1}'
)
OLD_SPEC = '{"crons":["0 9 * * 1-5"],"time_zone":"Europe/Berlin"}'


def find(store: Store) -> Schedule:
    row = store.read(lambda tx: tx.get_schedule(ScheduleId("s1"), tenant=DEFAULT_TENANT))
    assert row is not None
    return row


def old(**changes: object) -> Schedule:
    texts = {
        "spec": StoredSpec(OLD_SPEC),
        "stored_target": TARGET.text(OLD_TARGET),
        "stored_state": STATE.text(OLD_STATE),
        "stored_metadata": METADATA.text(OLD_METADATA),
    }
    return schedule(**(texts | changes))


def test_a_schedule_of_an_earlier_release_is_read(store: Store) -> None:
    add(store, old())

    row = find(store)

    assert row.spec.value.time_zone == "Europe/Berlin"
    assert row.spec.recurrence.next(NOW // 1000) is not None
    assert row.target == Target(
        name="app.report", kind=FunctionKind.ACTION, args='{"day": "2026-01-02"}',
        retry=RetryPolicy(5, 250, 2.0, 86_400_000, 0.5), workflow_id="w", pool="p",
    )  # fmt: skip
    assert row.metadata == ScheduleMetadata(
        user={"team": "a"}, request_id="r1", definition="0123", spec_at=Instant(1_800_014_400_000), source="run_time",
        triggers={"t1": Instant(1_800_014_400_001)}, overrides={"t1": '{"n": 2}'},
        backfills={"b1": KnownBackfill(Instant(1), Instant(2), "skip", 3, Instant(4))},
    )  # fmt: skip
    state = row.state
    assert (state.policies.overlap, state.remaining, state.note, state.paused) == (Overlap.SKIP, 9, "n", True)
    assert state.counters.of(Reason.ON_TIME) == 1


def test_what_was_not_changed_is_written_back_as_it_was(store: Store) -> None:
    add(store, old())
    row = find(store)
    assert row.target.name == "app.report"
    assert row.metadata.user == {"team": "a"}

    changed = row.with_state(row.state._replace(note="changed"))
    store.write(lambda tx: tx.save_schedules([changed]))

    saved = find(store)
    assert (saved.spec.text, saved.stored_target.text, saved.stored_metadata.text) == (
        OLD_SPEC,
        OLD_TARGET,
        OLD_METADATA,
    )
    assert (saved.state.note, saved.note, saved.status) == ("changed", "changed", "paused")


def test_what_is_written_carries_its_version() -> None:
    row = old()

    assert TARGET.value(row.target).text.startswith('{"v": 1, ')
    assert METADATA.value(row.metadata).text.startswith('{"v": 1, ')
    assert TARGET.text(TARGET.value(row.target).text).value == row.target
    assert METADATA.text(METADATA.value(row.metadata).text).value == row.metadata


def test_a_newer_text_is_refused_when_it_is_read_and_not_before(store: Store) -> None:
    newer = '{"v": 3, "name": "app.report"}'
    add(
        store,
        old(stored_target=TARGET.text(newer), stored_state=STATE.text(newer), stored_metadata=METADATA.text(newer)),
    )

    row = find(store)

    with pytest.raises(SchemaMismatch, match="target was written in version 3"):
        _ = row.target
    with pytest.raises(SchemaMismatch, match="metadata was written in version 3"):
        _ = row.metadata
    with pytest.raises(SchemaMismatch, match="state was written in version 3"):
        _ = row.state
    assert store.write(lambda tx: tx.save_schedules([row._replace(wake_at=None)])) == 1
    assert find(store).stored_state.text == newer


JOB_PARTS: list[tuple[Codec[Any], str, Any]] = [
    (RETRY, "[5, 250, 2.0, 86400000, 0.5]", RetryPolicy(5)),
    (
        COMPLETION,
        '{"name": "app.told", "kind": "mutation", "parameters": ["job_id", "context", "result"], "context": {"a": 1}}',
        Completion("app.told", "mutation", ("job_id", "context", "result"), {"a": 1}),
    ),
    (
        COMPLETION,
        '{"name": "app.told", "kind": "mutation", "parameters": ["a", "b", "c"], "context": 1, "pool": "shop/mail", '
        '"ends": ["failed"]}',
        Completion("app.told", "mutation", ("a", "b", "c"), 1, "shop/mail", ("failed",)),
    ),
    (
        OCCURRENCE,
        '{"id": "s", "origin": "schedule", "request": "", "nominal_at": 5, "run_id": "s-1", "last_result": "1", '
        '"last_failure": null}',
        OccurrenceRef(ScheduleId("s"), "schedule", "", Instant(5), "s-1", "1", None),
    ),
    (
        JOB_ERROR,
        '{"type": "E", "message": "\\ud800 no", "traceback": "t", "data": {"left": 0}}',
        JobError("E", "\ud800 no", "t", '{"left": 0}'),
    ),
    (JOB_ERROR, '{"type": "E", "message": "no", "traceback": ""}', JobError("E", "no")),
]


@pytest.mark.parametrize(("codec", "text", "value"), JOB_PARTS)
def test_the_parts_of_a_job_of_an_earlier_release_are_read(codec: Codec[Any], text: str, value: Any) -> None:
    assert codec.text(text).value == value
    assert codec.text(codec.value(value).text).value == value


@pytest.mark.parametrize("codec", [RETRY, COMPLETION, OCCURRENCE, JOB_ERROR])
def test_a_job_whose_parts_are_of_a_newer_release_is_claimed_all_the_same(store: Store, codec: Codec[Any]) -> None:
    newer = '{"v": 2}'
    claimed = claim_one(store, retry=newer, on_complete=newer, schedule=newer)

    assert (text_of(claimed.retry), text_of(claimed.on_complete), text_of(claimed.schedule)) == (newer, newer, newer)
    with pytest.raises(SchemaMismatch):
        _ = codec.text(newer).value


def test_a_schedule_of_a_newer_format_is_left_to_newer_code(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not evaluated and no reason to look again; a list shows it; code that knows the format takes it."""
    newer = old(wake_at=NOW, stored_state=STATE.text(OLD_STATE.replace('"v":1', '"v":2')))
    add(store, newer)
    store.write(lambda tx: tx.connection.execute("update schedules set format = 2"))

    assert store.write(lambda tx: tx.due_schedules(NOW, limit=10)) == []
    assert store.read(lambda tx: tx.next_wake()) is None
    (listed,) = store.read(lambda tx: tx.list_schedules(ScheduleFilter(), limit=10))
    shown = summary(listed._replace(stored_metadata=METADATA.text('{"v": 2}')))
    assert (shown.id, shown.status) == ("s1", "unreadable")
    assert "newer release" in shown.sentence

    monkeypatch.setattr("evertick.store.transaction.schedules.FORMAT", 2)
    assert [row.id for row in store.write(lambda tx: tx.due_schedules(NOW, limit=10))] == ["s1"]
    assert store.read(lambda tx: tx.next_wake()) == NOW
