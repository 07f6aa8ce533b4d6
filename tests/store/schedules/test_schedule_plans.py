"""Query plans of schedules: what is asked again and again is read from an index, however much lies beside it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from evertick.base.ids import ScheduleId, TenantId
from evertick.store.open import open_store
from evertick.store.records.schedule import STATE
from evertick.store.store import Store
from evertick.store.transaction.statements import load_statements
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import NOW, at, job_id
from tests.store.schedule_rows import line, occurrence, report, schedule, waiting
from tests.store.schedules.test_open_occurrences import EMPTY, run
from tests.store.test_query_plans import buffers, nodes, postgres_plan, sqlite_steps

FAR, ASLEEP, DUE = 5_000, 2_000, 300
NEVER: Final = 2**63 - 1
KEYS: Final = json.dumps([["default", f"due{n:05}"] for n in range(3)])
LISTED: Final = {
    "tenant": "default", "kind": None, "status": None, "function": None, "id_contains": None, "next_before": None,
    "time_zone": None, "failing": None, "late_at": None, "missed_since": None, "limit": 10,
}  # fmt: skip
LEDGER: Final = {
    "tenant": "default", "start": -NEVER, "end": NEVER, "fates": None, "reason": None, "after_schedule": "",
    "after_origin": "", "after_request": "", "limit": 10,
}  # fmt: skip
COUNTED: Final = tuple(
    f"SCAN {part}" for part in ("chosen", "failing", "late", "overdue", "missed", "paused", "soon", "CONSTANT")
)
"""Rows that a statement of counts has read before."""
ONE: Final = {"tenant": "default", "schedule_id": "due00001"}

HOT: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    "due_schedules": ({"now": NOW, "limit": 100, "format": 1}, {"schedules_wake"}),
    "next_wake": ({"format": 1}, {"schedules_wake"}),
    "reported_schedules": ({"limit": 100, "format": 1}, {"run_reports_by_schedule", "schedules_pkey"}),
    "run_reports_of": ({"keys": KEYS, "limit": 100}, {"run_reports_by_schedule"}),
    "first_open_occurrences": (ONE | {"waits": 0, "limit": 10}, {"open_occurrences_in_order"}),
    "named_open_occurrences": (ONE | {"keys": '[[1, "schedule", ""]]'}, {"open_occurrences_pkey"}),
    "get_schedule": ({"tenant": "default", "id": "due00001"}, {"schedules_pkey"}),
    "lock_schedule": ({"tenant": "default", "id": "due00001"}, {"schedules_pkey"}),
    "delete_schedule": ({"tenant": "default", "id": "due00001"}, {"schedules_pkey"}),
    "schedules_of_tenants": (
        {"after_tenant": "default", "after_id": "due00010", "last_tenant": "default", "limit": 100},
        {"schedules_pkey"},
    ),
    "list_schedules_by_id asc": (LISTED | {"after_id": "due00010"}, {"schedules_pkey"}),
    "list_schedules_by_id desc": (LISTED | {"after_id": "due00010"}, {"schedules_pkey"}),
    "list_chosen_schedules asc": (LISTED | {"after_id": "due00010"}, {"schedules_in_order", "schedules_pkey"}),
    "list_chosen_schedules desc": (LISTED | {"after_id": "due00010"}, {"schedules_in_order", "schedules_pkey"}),
    "schedule_counts": (
        LISTED | {"limit": 10_001, "day_ago": at(0), "soon": at(100_000), "overdue_before": at(-10_000)},
        {
            "schedules_by_next",
            "schedules_failing",
            "schedules_in_order",
            "schedules_late",
            "schedules_missed",
            "schedules_paused",
        },
    ),
    "missed_since": ({"tenant": "default", "ids": '["due00001", "due00002"]', "since": at(0)}, {"schedules_pkey"}),
    "last_occurrences": ({"tenant": "default", "ids": '["due00001", "due00002"]'}, {"occurrences_pkey"}),
    "endings_by_quarter": (
        {
            "tenant": "default",
            "schedule_id": "due00001",
            "start": 0,
            "end": 2**62,
            "late_after": 10_000,
            "limit": 50_000,
        },
        {"occurrences_pkey"},
    ),
    "newest_endings": ({"tenant": "default", "ids": '["due00001", "due00002"]', "others": 29}, {"occurrences_pkey"}),
    **{
        f"list_schedules_{how}_time {moment} {order}": (
            LISTED | {"after_id": "due00010", "after_time": at(-100)},
            {f"schedules_by_{moment}", "schedules_pkey"},
        )
        for how in ("by", "at")
        for moment in ("next", "last")
        for order in ("asc", "desc")
    },
    "get_occurrence": (ONE | {"nominal_at": at(60_000), "origin": "schedule", "request": ""}, {"occurrences_pkey"}),
    "list_occurrences_asc": (LEDGER | {"after_nominal": at(60_000)}, {"occurrences_in_order"}),
    "list_occurrences_desc": (LEDGER | {"after_nominal": at(600_000)}, {"occurrences_in_order"}),
    "list_occurrences_by_reason_asc": (
        LEDGER | {"reason": "overlap", "after_nominal": at(60_000)},
        {"occurrences_by_reason"},
    ),
    "list_occurrences_by_reason_desc": (
        LEDGER | {"reason": "overlap", "after_nominal": at(600_000)},
        {"occurrences_by_reason"},
    ),
    "list_occurrences_of_asc": (
        LEDGER | ONE | {"after_nominal": at(60_000), "request": None},
        {"occurrences_pkey"},
    ),
    "list_occurrences_of_desc": (
        LEDGER | ONE | {"after_nominal": at(600_000), "request": None},
        {"occurrences_pkey"},
    ),
    "prune_occurrences": ({"before": at(120_000), "limit": 10}, {"occurrences_decided", "occurrences_pkey"}),
    "has_missed": (ONE | {"since": at(60_000), "decided": at(60_000)}, {"occurrences_pkey"}),
    "last_version": (ONE, {"schedule_history_by_schedule"}),
    "list_schedule_history": (ONE | {"before": "\x7f", "limit": 10}, {"schedule_history_by_schedule"}),
}
POSTGRES: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    "save_schedules": ({"rows": '[{"tenant":"default","id":"due00001","revision":1}]'}, {"schedules_pkey"}),
    "end_occurrences": (
        {"rows": '[{"tenant":"default","schedule_id":"due00001","nominal_at":1,"origin":"schedule","request":""}]'},
        {"occurrences_pkey"},
    ),
    "open_occurrences": ({"keys": KEYS}, {"open_occurrences_in_order"}),
    "forget_open_occurrences": ({"tenant": "default", "id": "due00001"}, {"open_occurrences_in_order"}),
    "close_occurrences": (
        {"rows": '[{"tenant":"default","schedule_id":"due00001","nominal_at":1,"origin":"schedule","request":""}]'},
        {"open_occurrences_pkey"},
    ),
    "delete_run_reports": ({"rows": '[{"job_id":"j"}]'}, {"run_reports_pkey"}),
}
MAY_SORT: Final = (
    "run_reports_of", "open_occurrences", "named_open_occurrences", "prune_occurrences",
    *(name for name in HOT if "_time " in name or "chosen" in name), "newest_endings", "list_occurrences_asc",
    "list_occurrences_desc", "list_occurrences_by_reason_asc", "list_occurrences_by_reason_desc", "endings_by_quarter",
)  # fmt: skip
"""The reports of a page have one order and their schedules another; the rows of a page are put in order again, and so
are the occurrences of one schedule and one moment."""

CHOOSING: Final = ("schedule_counts", *(name for name in HOT if name.startswith("list_") and "schedules" in name
                                         and "by_id" not in name))  # fmt: skip
"""They ask every filter of many schedules."""


def fill(store: Store) -> None:
    """Few schedules are due among many; few reports are unheard beside a long ledger."""

    def work(tx: Transaction) -> None:
        for number in range(FAR):
            tx.insert_schedule(schedule(f"far{number:05}", wake_at=at(60_000 + number), next_at=at(60_000 + number)))
        for number in range(ASLEEP):
            tx.insert_schedule(schedule(f"asleep{number:05}", wake_at=None, next_at=None))
        for number in range(DUE):
            state = STATE.value(EMPTY._replace(running=tuple(run(number) for number in range(20))))
            due_at = at(-number)
            tx.insert_schedule(schedule(f"due{number:05}", wake_at=due_at, next_at=due_at, stored_state=state, late=1))
        for number in range(DUE):
            name = f"due{number:05}"
            minutes = [occurrence(minute, name, ended_at=NOW) for minute in range(1, 40)]
            tx.record_occurrences([*minutes, waiting(50, name)])
            tx.end_occurrences([report(minute, name) for minute in range(1, 40)])
        tx.report_runs([report(number, f"due{number // 3:05}") for number in range(200)])
        for number in range(2_000):
            tx.add_history(line(number, f"due{number % DUE:05}"))
        tx.insert_schedule(schedule("theirs", tenant=TenantId("other")))

    store.migrate()
    store.write(work)


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", [*HOT, *POSTGRES])
def test_postgresql_reads_schedules_from_an_index(postgres_store: Store, name: str, mode: str) -> None:
    params, indexes = {**HOT, **POSTGRES}[name]
    if name.startswith(("list_", "schedules_of_tenants")):
        mode = "force_custom_plan"  # for an unknown number of rows it would sort; it never chooses that by itself

    plan = list(nodes(postgres_plan(postgres_store, name, params, mode=mode)))

    types = [node["Node Type"] for node in plan]
    assert {node["Index Name"] for node in plan if "Index Name" in node} == indexes, types
    assert "Seq Scan" not in types, types
    assert name in MAY_SORT or not [kind for kind in types if "Sort" in kind], types


@pytest.mark.parametrize("name", HOT)
def test_sqlite_reads_schedules_from_an_index(sqlite_store: Store, name: str) -> None:
    params, indexes = HOT[name]
    statement = load_statements("sqlite")[name]

    rows = sqlite_store.read(lambda tx: tx.connection.execute(f"explain query plan {statement}", params).fetchall())

    lines = [row[3] for row in rows]
    reads = [text for text in lines if text.startswith(("SEARCH", "SCAN"))]
    scans = [text for text in reads if text.startswith("SCAN") and "INDEX" not in text]
    assert all(
        text.startswith(("SCAN json_each", "SCAN r", "SCAN value", "SCAN k", "SCAN page", *COUNTED)) for text in scans
    ), lines
    for index in indexes:
        named = ("PRIMARY KEY", "COVERING INDEX") if index.endswith("_pkey") else (index,)
        assert any(name in text for text in reads for name in named), lines
    assert name in MAY_SORT or not [text for text in lines if "TEMP B-TREE" in text], lines


@pytest.mark.parametrize("name", CHOOSING)
def test_sqlite_chooses_and_counts_schedules_without_reading_their_rows(sqlite_store: Store, name: str) -> None:
    statement = load_statements("sqlite")[name]

    def work(tx: Transaction) -> list[str]:
        plan = tx.connection.execute(f"explain query plan {statement}", HOT[name][0])
        return [row[3] for row in plan if row[3].startswith(("SEARCH schedules", "SCAN schedules"))]

    reads = sqlite_store.read(work)
    assert reads
    of_the_page = "USING PRIMARY KEY (tenant=? AND id=?)"
    assert [text for text in reads if "USING COVERING INDEX" not in text and of_the_page not in text] == []


@pytest.mark.postgres
@pytest.mark.parametrize("name", CHOOSING)
def test_postgresql_chooses_and_counts_schedules_without_reading_their_rows(postgres_store: Store, name: str) -> None:
    plan = list(nodes(postgres_plan(postgres_store, name, HOT[name][0], mode="force_custom_plan")))

    scans = [(each["Index Name"], each["Node Type"]) for each in plan if "Index Name" in each]
    assert {kind for index, kind in scans if index != "schedules_pkey"} == {"Index Only Scan"}, scans


@pytest.mark.parametrize("name", ["due_schedules", "next_wake", "reported_schedules"])
def test_a_look_costs_sqlite_the_same_beside_thousands_of_other_schedules(sqlite_store: Store, name: str) -> None:
    lonely = open_store("sqlite://")
    lonely.migrate()

    def work(tx: Transaction) -> None:
        for number in range(DUE):
            tx.insert_schedule(schedule(ScheduleId(f"due{number:05}"), wake_at=at(-number), next_at=at(-number)))
        tx.report_runs([report(number, f"due{number // 3:05}") for number in range(200)])

    lonely.write(work)
    alone = sqlite_steps(lonely, name, HOT[name][0])
    beside = sqlite_steps(sqlite_store, name, HOT[name][0])
    lonely.close()

    assert alone[1] == beside[1]
    assert beside[0] <= 1.05 * alone[0]


@pytest.mark.postgres
def test_a_look_makes_postgresql_read_only_what_is_due(postgres_store: Store) -> None:
    plan = postgres_plan(postgres_store, "due_schedules", HOT["due_schedules"][0], mode="force_generic_plan", run=True)

    scan = next(node for node in nodes(plan) if node.get("Index Name") == "schedules_wake")
    assert plan["Actual Rows"] == 100
    assert scan["Actual Rows"] == 100
    assert scan.get("Rows Removed by Filter", 0) == 0
    assert buffers(scan) <= 3 + 2 * 100
    idle = postgres_plan(
        postgres_store,
        "due_schedules",
        {"now": at(-10_000), "limit": 100, "format": 1},
        mode="force_generic_plan",
        run=True,
    )
    assert idle["Actual Rows"] == 0
    assert buffers(idle) <= 5


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", ["end_occurrences", "close_occurrences", "delete_run_reports"])
def test_the_end_of_a_run_makes_postgresql_read_only_its_rows(postgres_url: str, name: str, mode: str) -> None:
    """Real once: without statistics it read all occurrences of the same moment for each run that had ended."""
    store = open_store(postgres_url)
    store.migrate()
    few = 20
    names = [f"s{each:05}" for each in range(400)]

    def work(tx: Transaction) -> None:
        tx.record_occurrences([occurrence(1, name) for name in names])
        for each in names:
            tx.insert_schedule(schedule(each, stored_state=STATE.value(EMPTY._replace(running=(run(60),)))))
        tx.report_runs([report(1, name, job_id=job_id(each)) for each, name in enumerate(names)])

    store.write(work)
    moment = {"nominal_at": run(60).occurrence.nominal_at if name == "close_occurrences" else at(60_000)}
    key = moment | {"tenant": "default", "origin": "schedule", "request": ""}
    ends = {"ended_at": NOW, "outcome": "success"}
    rows = [key | ends | {"schedule_id": names[each], "job_id": job_id(each)} for each in range(400 - few, 400)]

    plan = postgres_plan(store, name, {"rows": json.dumps(rows)}, mode=mode, run=True)

    assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan)) == few
    store.close()
