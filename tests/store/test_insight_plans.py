"""Query plans of what dashboards show: each reads an index, and no more of it than it shows."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.insight import SLOT_MS, ActivityRow, PoolActivityRow
from evertick.store.store import Store
from evertick.store.transaction.statements import load_statements
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import NOW, at, new_job
from tests.store.schedule_rows import line, occurrence, schedule
from tests.store.test_query_plans import nodes, postgres_plan, sqlite_steps

MANY: Final = 3_000
MISS: Final[Mapping[str, Any]] = {"fate": "missed", "reason": "catch_up_window"}
MISSED: Final = json.dumps(["catch_up_window", "buffer_full"])
STATES: Final = json.dumps(["success", "failed", "canceled"])
POOLS: Final = ("default", "mail", "pdf")
NAMES: Final = json.dumps(["app.destruct", "app.notify"])
COMES: Final = {"now": NOW, "start": NOW, "until": at(60_000), "span": 10_000, "limit": 100, "scan_max": 100}

ASKED: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    "activity_by_minute": ({"tenant": "default", "name": "app.notify", "since": at(-60_000)}, {"activity_pkey"}),
    "activity_by_function": (
        {"tenant": "default", "hour_ago": at(-60_000), "day_ago": at(-600_000), "slot": SLOT_MS},
        {"activity_pkey"},
    ),
    "activity_by_slot": ({"tenant": "default", "day_ago": at(-600_000), "slot": SLOT_MS}, {"activity_pkey"}),
    "activity_of_pool": ({"tenant": "default", "pool": "mail", "since": at(-60_000)}, {"pool_activity_pkey"}),
    "activity_by_pool": ({"tenant": "default", "since": at(-60_000)}, {"pool_activity_pkey"}),
    "pool_endings": ({"tenant": "default", "limit": 100}, {"history_by_state"}),
    "prune_activity": ({"before": at(-600_000), "limit": 10}, {"activity_at", "activity_pkey"}),
    "prune_pool_activity": ({"before": at(-600_000), "limit": 10}, {"pool_activity_at", "pool_activity_pkey"}),
    "due_jobs": (
        {"tenant": "default", "now": NOW, "late_at": at(-10_000), "limit": 100},
        {"jobs_ready", "jobs_by_limit_key", "jobs_waiting", "jobs_suspect"},
    ),
    "stuck_runs": (
        {"tenants": json.dumps(["default", "acme"]), "until": at(60_000), "scan_max": 100, "limit": 10},
        {"jobs_waiting"},
    ),
    "overdue_schedules": (
        {"tenants": json.dumps(["default", "acme"]), "late_at": at(60_000), "limit": 100},
        {"schedules_by_next"},
    ),
    "failing_schedules": ({"limit": 100}, {"schedules_failing"}),
    "missed_occurrences": (
        {"tenant": None, "since": at(-600_000), "limit": 100, "scan_max": 100},
        {"schedules_missed", "occurrences_pkey"},
    ),
    "next_due": ({"tenant": "default", "limit": 100}, {"jobs_waiting"}),
    "trouble": (
        {"tenant": "default", "reasons": MISSED, "hour_ago": at(-60_000), "day_ago": at(-600_000), "limit": 101}
        | {"shown": 20, "runs": 5, "paused_max": 100, "month_ago": at(-900_000), "many": 9}
        | {"stuck_until": at(60_000), "stuck_scan_max": 100, "stuck_most": 10, "late_at": at(-10_000), "now": NOW},
        {
            "history_failed",
            "history_pkey",
            "jobs_waiting",
            "occurrences_by_reason",
            "occurrences_pkey",
            "schedules_by_last",
            "schedules_by_next",
            "schedules_failing",
            "schedules_paused",
            "schedules_pkey",
            "pool_limits_pkey",
        },
    ),
    "missed_and_skipped": (
        {"tenant": "default", "reasons": MISSED, "since": at(-600_000), "limit": 10}
        | {"pauses": json.dumps([["s00001", 0], ["s00002", 0]]), "skipped_most": 10},
        {"occurrences_by_reason", "occurrences_pkey"},
    ),
    "first_missed": (
        {"tenant": "default", "reasons": MISSED, "since": at(-600_000), "decided": at(-60_000), "limit": 10},
        {"occurrences_by_reason"},
    ),
    "evaluated_before": ({"moments": json.dumps([at(-600_000), at(-60_000)])}, {"occurrences_decided"}),
    "samples": ({"tenant": "default", "names": NAMES, "others": 9}, {"history_by_name"}),
    "coming": ({"tenant": "default", **COMES}, {"schedules_by_next", "jobs_waiting"}),
    "found_jobs": (
        {
            "tenant": "default",
            "text": "job_0",
            "beyond": "job_1",
            "names": NAMES,
            "states": STATES,
            "others_state": 99,
            "others_name": 49,
            "limit": 10,
        },
        {"history_by_key", "history_by_state", "history_pkey", "jobs_key", "jobs_by_name", "jobs_pkey"},
    ),
    "list_views": (
        {"tenant": "default", "page": "schedules", "owner": "token_1", "limit": 100},
        {"saved_views_by_name"},
    ),
    "recent_changes": ({"tenant": "default", "newest": 10}, {"schedule_history_newest", "audit_log_by_tenant"}),
    "coming_and_changes": (
        {"tenant": "default", **COMES, "newest": 10},
        {"schedules_by_next", "jobs_waiting", "schedule_history_newest", "audit_log_by_tenant"},
    ),
}
"""What each statement is asked, and the indexes that it may read."""


def fill(store: Store) -> None:
    """Many rows of each kind, of several tenants."""

    def work(tx: Transaction) -> None:
        tenants = [DEFAULT_TENANT, TenantId("other")]
        for tenant in tenants:
            minutes = [Instant(NOW - n * MINUTE_MS) for n in range(MANY)]
            rows = [ActivityRow(tenant, "", each, "w", 1, 0, 0, 0, "{}", "{}") for each in minutes]
            slots = [Instant(NOW - n * SLOT_MS) for n in range(MANY)]
            pools = [PoolActivityRow(tenant, pool, each, "w", 1, 0, 0, 0, "{}") for pool in POOLS for each in slots]
            tx.add_activity([*rows, *(row._replace(name="app.f", late=None, took=None) for row in rows)], pools)
            for n in range(MANY):
                tx.insert_schedule(schedule(f"s{n:05}", tenant=tenant, next_at=at(n * 1_000)))
                tx.add_history(line(n + MANY * tenants.index(tenant), f"s{n:05}"))
            tx.record_occurrences(
                [
                    occurrence(n, f"s{n % 300:05}", tenant=tenant)._replace(**(MISS if n % 100 == 0 else {}))
                    for n in range(MANY)
                ]
            )
        tx.insert_jobs([new_job(n, due_at=at(-n), tenant=tenants[n % 2]) for n in range(1, MANY)])
        tx.insert_jobs([new_job(MANY + n, due_at=at(n * 1_000), tenant=tenants[n % 2]) for n in range(1, MANY)])

    store.migrate()
    store.write(work)


AS_GOOD: Final = {
    "missed_and_skipped": {"occurrences_in_order"},
    "trouble": {"occurrences_in_order", "schedules_by_last"},
}
"""What PostgreSQL may read or not: of occurrences with a time each, those of a schedule at a time are found as quickly
by the time; and it sorts failing schedules itself while it knows that they are few."""


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", ASKED)
def test_postgresql_reads_an_index(postgres_store: Store, name: str, mode: str) -> None:
    params, indexes = ASKED[name]

    plan = list(nodes(postgres_plan(postgres_store, name, params, mode=mode)))

    types = [node["Node Type"] for node in plan]
    read = {node["Index Name"] for node in plan if "Index Name" in node}
    assert read ^ indexes <= AS_GOOD.get(name, set()), (sorted(read), types)
    assert "Seq Scan" not in types, types


@pytest.mark.parametrize("name", ASKED)
def test_sqlite_reads_an_index(sqlite_store: Store, name: str) -> None:
    params, indexes = ASKED[name]
    statement = load_statements("sqlite")[name]

    rows = sqlite_store.read(lambda tx: tx.connection.execute(f"explain query plan {statement}", params).fetchall())

    reads = [row[3] for row in rows if row[3].startswith(("SEARCH", "SCAN"))]
    tables = (
        "activity",
        "pool_activity",
        "audit_log",
        "jobs",
        "history",
        "occurrences",
        "schedules",
        "schedule_history",
        "j",
        "h",
        "o",
        "edge",
    )
    bare = [text for text in reads if "INDEX" not in text and "PRIMARY KEY" not in text and text.split()[1] in tables]
    assert not bare, reads
    for index in indexes:
        named = ("PRIMARY KEY", "COVERING INDEX") if index.endswith("_pkey") else (index,)
        assert any(name in text for text in reads for name in named), reads


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("due_jobs", "limit"),
        ("next_due", "limit"),
        ("coming", "limit"),
        ("coming", "scan_max"),
        ("found_jobs", "limit"),
    ],
)
def test_a_look_costs_sqlite_what_it_looks_at(sqlite_store: Store, name: str, most: str) -> None:
    few, _ = sqlite_steps(sqlite_store, name, ASKED[name][0] | {most: 10})
    many, _ = sqlite_steps(sqlite_store, name, ASKED[name][0] | {most: 100})

    assert many - few <= 150 * 2 * 90
