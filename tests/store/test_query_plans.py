"""Query plans: hot statements read by an index, sort nothing, and cost the same however much lies beside their rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from evertick.base.ids import DEFAULT_TENANT, TenantId, queue_of
from evertick.base.instants import Instant
from evertick.base.records.access import AccessToken, AuditLine, Scope
from evertick.base.records.documents import StoredDocument
from evertick.base.records.history import AttemptLines, LogLine
from evertick.base.records.jobs import Call
from evertick.base.records.limits import PoolLimits, TenantLimits
from evertick.base.records.workflows import (
    MessageKind,
    NewMessage,
    Row,
    RowKind,
    RunRecord,
    WorkflowStatus,
    WorkflowType,
)
from evertick.store.open import open_store
from evertick.store.records.workflows import Entry
from evertick.store.store import Store
from evertick.store.transaction.statements import load_statements, of_each, statement_names, together
from evertick.store.transaction.transaction import Transaction
from tests.store.rows import ACTION, ANN, MUTATION, NOW, at, claim_in, job_id, new_job, worker

FUTURE, DONE, RUNNING, SUSPECTS, DUE = 6_000, 6_000, 200, 50, 300
HELD, HELD_KEYS = 3_000, 300
QUEUE: Final = queue_of("default", "app.destruct")
KEYED: Final = queue_of("default", "app.keyed")
TENANTS: Final = 5
ENTRIES: Final = 6_000
JOB_ROWS: Final = [{"id": job_id(n), "attempt": 1, "state": "success", "completed_at": NOW} for n in range(50)]

OWN_INDEXES: Final = (
    "jobs_",
    "history_",
    "job_counts_",
    "workers_",
    "calls_",
    "workflow_",
    "access_tokens_",
    "audit_log_",
    "logs_",
    "schedule_history_",
    "schedules_",
)
SORT_THE_FEW: Final = {"reach_runs", "oldest_new_jobs", "list_lines_of_jobs desc", "cancel_jobs", "list_waiting"}
"""They sort the few rows that they are asked for: so that no two transactions wait for each other, or to find gaps.
What `list_waiting` may sort lies before the end of a look, which `edge_waiting` has found."""
TABLES: Final = {"workflow_runs", "workflow_journal", "workflow_inbox", "workflow_types", "workflow_attributes"}
RUNS: Final = json.dumps([job_id(1), job_id(2)])

LINES: Final = {
    "tenant": "default", "name": None, "levels": None, "text": "n", "limit": 10, "skip": 100,
    "beyond_at": at(900), "beyond_job": "", "beyond_attempt": 0, "beyond_number": 0,
    "horizon_at": at(800), "horizon_job": "", "horizon_attempt": 0, "horizon_number": 0,
}  # fmt: skip

# What each hot statement is asked, and the indexes that it may read.
HOT: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    "next_waiting_at": ({}, {"jobs_waiting"}),
    "promote_jobs": ({"now": NOW, "limit": 100}, {"jobs_waiting", "jobs_pkey"}),
    "queue_name": ({"queue": QUEUE}, {"jobs_ready"}),
    "suspects": ({"limit": 10}, {"jobs_suspect"}),
    "held_jobs": ({"worker_id": ANN, "limit": 100}, {"jobs_running", "bodies_pkey"}),
    "holders_without_row": ({}, {"jobs_running", "workers_pkey"}),
    "get_jobs": (
        {"ids": json.dumps([job_id(1)]), "tenant": "default"},
        {"jobs_pkey", "history_pkey", "bodies_pkey"},
    ),
    "errors_of": ({"ids": json.dumps([job_id(1)]), "tenant": "default"}, {"history_pkey"}),
    "expired_jobs": ({"before": at(-50_000), "limit": 100}, {"history_completed"}),
    "drop_empty_counts": ({}, {"job_counts_empty"}),
    "list_lines desc": (LINES, {"logs_stored"}),
    "list_lines asc": (LINES, {"logs_stored"}),
    "edge_lines desc": (LINES, {"logs_stored"}),
    "list_lines_of_jobs desc": (LINES | {"jobs": json.dumps([job_id(1), job_id(2)])}, {"logs_pkey"}),
    "beginnings": (
        {"ids": json.dumps([job_id(1), job_id(2)]), "tenant": "default", "limit": 100},
        {"jobs_pkey", "history_pkey"},
    ),
    "job_family": ({"id": job_id(1), "tenant": "default", "limit": 100}, {"history_by_parent", "jobs_by_parent"}),
    "pulse": ({"tenant": "default"}, {"schedule_history_newest", "schedules_by_next", "logs_stored"}),
    "list_attempts": ({"jobs": RUNS}, {"attempts_pkey", "history_pkey", "jobs_pkey"}),
    "list_logs": ({"id": job_id(1)}, {"logs_pkey"}),
    "find_unfinished_key": ({"tenant": "default", "key": "k"}, {"jobs_key"}),
    "unfinished_keys": ({"tenant": "default", "keys": json.dumps(["k", "other"])}, {"jobs_key"}),
    "lock_claim": ({"id": job_id(1), "worker_id": "w", "attempt": 1}, {"jobs_pkey"}),
    "expired_workers": ({"now": NOW, "limit": 10}, {"workers_lease"}),
    "renew_lease": ({"id": ANN, "leased_until": NOW}, {"workers_pkey"}),
    "get_document": ({"tenant": "default", "id": "t_1"}, {"documents_pkey"}),
    "scan_documents_asc": ({"tenant": "default", "low": "t_", "high": "t_x", "limit": 10}, {"documents_pkey"}),
    "scan_documents_desc": ({"tenant": "default", "low": "t_", "high": "t_x", "limit": 10}, {"documents_pkey"}),
    "document_tables": ({"tenant": "default", "steps": 100}, {"documents_pkey"}),
    "count_documents": (
        {"tenant": "default", "tables": json.dumps(["t", "u"]), "until": "_019", "limit": 10, "newest": 5},
        {"documents_pkey"},
    ),
    "scan_index_asc": (
        {"tenant": "default", "index_name": "t.by", "key": b"a", "document_id": "t_5", "high": b"b", "limit": 10},
        {"index_entries_pkey", "documents_pkey"},
    ),
    "scan_index_desc": (
        {"tenant": "default", "index_name": "t.by", "key": b"a", "document_id": "t_5", "low": b"a", "limit": 10},
        {"index_entries_pkey", "documents_pkey"},
    ),
    "get_token": ({"id": "token_5"}, {"access_tokens_pkey"}),
    "list_tokens": ({"tenant": "default", "after": "", "limit": 100}, {"access_tokens_by_tenant"}),
    "list_every_token": ({"after": "", "limit": 100}, {"access_tokens_pkey"}),
    "use_token": ({"id": "token_5", "now": NOW}, {"access_tokens_pkey"}),
    "revoke_token": ({"id": "token_5", "now": NOW}, {"access_tokens_pkey"}),
    "list_audit": ({"before": "~", "limit": 100}, {"audit_log_pkey"}),
    "list_tenant_audit": ({"tenant": "default", "before": "~", "limit": 100}, {"audit_log_by_tenant"}),
    "prune_audit": ({"before": "audit_0", "limit": 100}, {"audit_log_pkey"}),
    "running_jobs": ({"tenants": json.dumps(["default", "t1"])}, {"jobs_running"}),
    "argument_bytes": ({"tenant": "t1"}, {"jobs_by_name"}),
    "held_back_tenants": ({"tenants": json.dumps(["default", "t1"])}, {"tenant_limits_pkey"}),
    "start_limits": ({"tenants": json.dumps(["default", "t1"])}, {"tenant_limits_pkey"}),
    "list_tenant_limits": ({"first": "t1", "limit": 1}, {"tenant_limits_pkey"}),
    "ready_in_pools": ({"limit": 100}, {"jobs_ready", "jobs_by_limit_key"}),
    "ready_jobs": ({"queue": QUEUE, "tenant": "default", "rank": 0, "id": "", "limit": 100}, {"jobs_ready"}),
    "hold_jobs": ({"ids": json.dumps([job_id(1), job_id(2)])}, {"jobs_pkey"}),
    "running_by_key": ({}, {"jobs_running"}),
    "any_limits": ({}, {"jobs_by_limit_key", "tenant_limits_pkey", "pool_limits_pkey"}),
    "running_in_pools": ({}, {"jobs_running"}),
    "unfinished_names": ({"tenant": "default"}, {"jobs_by_name"}),
    "unfinished_workflows": ({"tenant": "default"}, {"jobs_by_name"}),
    "find_call": ({"tenant": "default", "key": "k"}, {"calls_pkey"}),
    "get_runs": ({"runs": RUNS}, {"workflow_runs_pkey"}),
    "drop_generations": (
        {"runs": json.dumps([{"run_id": job_id(1), "generation": 1}]), "limit": 1000},
        {"workflow_journal_pkey"},
    ),
    "load_journals": ({"runs": json.dumps([{"run_id": job_id(1), "generation": 0}])}, {"workflow_journal_pkey"}),
    "journal_tails": (
        {"runs": json.dumps([{"run_id": job_id(1), "generation": 0}]), "rows": 20},
        {"workflow_journal_pkey"},
    ),
    "waiting_messages": ({"runs": RUNS}, {"workflow_inbox_waiting"}),
    "copy_journal": (
        {"run_id": job_id(1), "generation": 0, "to_run": job_id(2), "rows": 20},
        {"workflow_journal_pkey"},
    ),
    "move_events": ({"run_id": job_id(1), "to_run": job_id(2)}, {"workflow_inbox_waiting"}),
    "waiting_size": ({"run_id": job_id(1), "limit": 100}, {"workflow_inbox_waiting"}),
    "waiting_events": ({"run_id": job_id(1), "limit": 20}, {"workflow_inbox_waiting"}),
    "take_messages": ({"messages": "[1, 2]", "now": NOW}, {"workflow_inbox_pkey"}),
    "drop_messages": ({"messages": "[1, 2]"}, {"workflow_inbox_pkey"}),
    "workflow_types_named": ({"names": json.dumps(["app.flow_1", "app.flow_2"])}, {"workflow_types_pkey"}),
    "runs_begun": ({"ids": f'["{job_id(1)}"]', "tenant": "default"}, {"workflow_journal_pkey", "jobs_pkey"}),
    "is_run": ({"run_id": job_id(1), "tenant": "default"}, {"workflow_journal_pkey", "jobs_pkey"}),
    "park_runs": (
        {
            "rows": json.dumps([{"id": job_id(1), "attempt": 1, "due_at": NOW, "stage": "ready", "error": None}]),
            "worker_id": ANN,
        },
        {"jobs_pkey"},
    ),
    "wake_parked": (
        {"rows": json.dumps([{"run_id": job_id(1), "seen": 0}]), "now": NOW},
        {"jobs_pkey", "workflow_inbox_waiting"},
    ),
    "pause_run": ({"id": job_id(1), "tenant": "default"}, {"jobs_pkey"}),
    "resume_run": ({"id": job_id(1), "tenant": "default", "now": NOW}, {"jobs_pkey"}),
    "release_key": ({"id": job_id(1), "tenant": "default"}, {"jobs_pkey"}),
    "shown_runs": ({"runs": RUNS}, {"jobs_pkey", "workflow_runs_pkey"}),
    "reach_runs": ({"runs": RUNS, "now": NOW}, {"jobs_pkey"}),
    "delete_run_records": ({"runs": RUNS}, {"workflow_runs_pkey"}),
    "delete_attributes": ({"runs": RUNS}, {"workflow_attributes_run"}),
    "delete_journals": ({"runs": RUNS}, {"workflow_journal_pkey"}),
    "delete_messages": ({"runs": RUNS}, {"workflow_inbox_run"}),
    "mark_retried": ({"id": job_id(1), "again": job_id(2), "tenant": "default", "replaces": None}, {"history_pkey"}),
    "mark_steps_retried": ({"run": job_id(1), "again": job_id(2), "tenant": "default"}, {"history_by_parent"}),
    "prune_calls": ({"before": at(-1_000), "limit": 10}, {"calls_created", "calls_pkey"}),
}
LISTED: Final = {
    "tenant": "default", "state": "success", "with_running": 1, "unretried": 0, "name": None, "schedule_id": None,
    "parent_id": None, "key": None, "kind": None, "without_runs": 0, "prefix": None, "roots": 0, "in_pool": None,
    "open_states": None, "due_from": None, "due_until": None, "occurrence_from": None, "occurrence_until": None,
    "limit_key": None, "error": None, "queues": None, "limit": 10, "skip": 20, "every": 1,
    "names": json.dumps([f"app.{name}" for name in ("destruct", "notify", "running", "suspect")]),
}  # fmt: skip
LISTS: Final[Mapping[str, tuple[str, dict[str, Any], set[str]]]] = {
    "finished": ("list_finished", {}, {"history_by_state"}),
    "finished, by error": ("list_finished", {"error": "no such user"}, {"history_by_state"}),
    "finished, by name": ("list_finished by name", {"name": "app.seldom"}, {"history_by_name"}),
    "finished, by name and due time": (
        "list_finished by name",
        {"name": "app.seldom", "due_from": NOW, "due_until": NOW},
        {"history_by_name"},
    ),
    "finished, by schedule": ("list_finished by schedule", {"schedule_id": "s1"}, {"history_by_schedule"}),
    "finished, by parent": ("list_finished by parent", {"parent_id": job_id(1)}, {"history_by_parent"}),
    "finished, by key": ("list_finished by key", {"key": "k"}, {"history_by_key"}),
    "finished, of runs": ("list_finished of runs", {"kind": "workflow", "prefix": "order-"}, {"history_runs"}),
    "finished, of roots": ("list_finished of roots", {"kind": "workflow", "roots": 1}, {"history_roots"}),
    "unfinished, of roots": ("list_unfinished of roots", {"kind": "workflow", "roots": 1}, {"jobs_roots"}),
    "edge of finished, of roots": ("edge_finished of roots", {}, {"history_roots"}),
    "edge of unfinished, of roots": ("edge_unfinished of roots", {}, {"jobs_roots"}),
    "finished, not retried": (
        "list_finished unretried",
        {"state": "failed", "in_pool": "/mail", "name": "app.destruct"},
        {"history_unretried"},
    ),
    "edge of finished, not retried": ("edge_finished unretried", {"state": "failed"}, {"history_unretried"}),
    "unfinished, by name": ("list_unfinished by name", {"name": "app.destruct"}, {"jobs_by_name"}),
    "unfinished, by schedule": ("list_unfinished by schedule", {"schedule_id": "s1"}, {"jobs_by_schedule"}),
    "unfinished, by parent": ("list_unfinished by parent", {"parent_id": job_id(1)}, {"jobs_by_parent"}),
    "edge of finished": ("edge_finished", {}, {"history_by_state"}),
    "edge of finished, by name": ("edge_finished by name", {"name": "app.seldom"}, {"history_by_name"}),
    "edge of finished, by schedule": ("edge_finished by schedule", {"schedule_id": "s1"}, {"history_by_schedule"}),
    "edge of finished, by parent": ("edge_finished by parent", {"parent_id": job_id(1)}, {"history_by_parent"}),
    "edge of finished, by key": ("edge_finished by key", {"key": "k"}, {"history_by_key"}),
    "edge of finished, of runs": ("edge_finished of runs", {}, {"history_runs"}),
    "edge of unfinished, by name": ("edge_unfinished by name", {"name": "app.destruct"}, {"jobs_by_name"}),
    "edge of unfinished, by schedule": ("edge_unfinished by schedule", {"schedule_id": "s1"}, {"jobs_by_schedule"}),
    "edge of unfinished, by parent": ("edge_unfinished by parent", {"parent_id": job_id(1)}, {"jobs_by_parent"}),
}
"""Lists in both directions: an index narrows them and gives their order."""
WAITING: Final = LISTED | {
    "low": "", "high": "\x7f", "beyond_at": at(-1_000), "beyond_id": "", "horizon_at": at(10**9), "horizon_id": "",
}  # fmt: skip
UPCOMING: Final = {name: (WAITING, {"jobs_waiting"}) for name in ("list_waiting", "edge_waiting")}
ONLY_POSTGRES: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    **UPCOMING,
    "oldest_new_jobs": ({"queues": [5], "tenants": ["default"], "others": [1, 2]}, {"jobs_ready"}),
    "oldest_ready_jobs": ({"others": [1, 2], "queue": 0, "tenant": "", "limit": 10, "steps": 10}, {"jobs_ready"}),
    "claim_ids": (
        {"ids": json.dumps([job_id(1)]), "kind": "mutation", "worker_id": "w", "now": NOW},
        {"jobs_pkey", "bodies_pkey"},
    ),
    "held_keys": ({"queue": 0, "tenant": "", "key": "", "limit": 10}, {"jobs_by_limit_key"}),
    "release_held": (
        {"rows": json.dumps([{"queue": KEYED, "tenant": "default", "key": "key_1", "capacity": 2}])},
        {"jobs_by_limit_key", "jobs_pkey"},
    ),
    "list_tenants": (
        {"first": "", "limit": 10},
        {"documents_pkey", "history_by_state", "jobs_by_name", "schedules_in_order", "tenant_limits_pkey"},
    ),
    "tenants_with jobs": ({"after": "", "limit": 10}, {"jobs_by_name"}),
    "tenants_with failures": ({"after": "", "limit": 10}, {"history_failed"}),
    "claim_suspect": (
        {"id": job_id(1), "kind": "mutation", "worker_id": "w", "now": NOW},
        {"jobs_suspect", "jobs_pkey", "bodies_pkey"},
    ),
    "save_runs": (
        {"rows": json.dumps([{"generation": 1, "progress": None, "run_id": job_id(1)}])},
        {"workflow_runs_pkey"},
    ),
    "save_attributes": (
        {"rows": json.dumps([{"attributes": "", "run_id": job_id(1)}])},
        {"workflow_runs_pkey"},
    ),
    "finish_jobs": ({"rows": json.dumps(JOB_ROWS), "worker_id": ANN}, {"jobs_pkey"}),
    "retry_jobs": ({"rows": json.dumps(JOB_ROWS), "worker_id": ANN}, {"jobs_pkey"}),
    "cancel_jobs": ({"ids": f'["{job_id(1)}"]', "tenant": "default", "now": NOW, "stop": 1}, {"jobs_pkey"}),
    "delete_documents": ({"rows": '[{"tenant":"default","id":"t_1"}]'}, {"documents_pkey"}),
    "delete_index_entries": ({"rows": "[]"}, {"index_entries_pkey"}),
}
USED: Final = {"tenants": json.dumps(["default", "t1"]), "most": 10}
ONLY_SQLITE: Final[Mapping[str, tuple[Any, set[str]]]] = {
    **UPCOMING,
    "list_tenants": (
        {"first": "", "limit": 10},
        {"documents_pkey", "history_by_state", "jobs_by_name", "schedules_in_order", "tenant_limits_pkey"},
    ),
    "tenant_usage": (USED, {"jobs_by_name", "schedules_in_order"}),
    "oldest_ready_jobs": (
        {"others": "[1, 2]", "queue": 0, "tenant": "", "limit": 10, "steps": 10},
        {"jobs_ready", "jobs_pkey"},
    ),
    "held_keys": ({"queue": 0, "tenant": "", "key": "", "limit": 10}, {"jobs_by_limit_key", "jobs_pkey"}),
    "release_held": (
        {"queue": KEYED, "tenant": "default", "key": "key_1", "capacity": 2},
        {"jobs_by_limit_key", "jobs_pkey"},
    ),
    "pool_holds": ({"pools": json.dumps(["default", "mail"])}, {"pool_limits_pkey"}),
    "ready_ids": ({"queue": QUEUE, "tenant": "default", "rank": 0, "limit": 100}, {"jobs_ready"}),
    "claim_ids": (
        {"ids": json.dumps([job_id(1), job_id(2)]), "kind": "mutation", "worker_id": "w", "now": NOW},
        {"jobs_pkey"},
    ),
    "claim_suspect": ({"id": job_id(1), "kind": "mutation", "worker_id": "w", "now": NOW}, {"jobs_pkey"}),
    "finish_jobs": ({"rows": json.dumps([[job_id(1), 1, NOW, NOW, None]]), "worker_id": ANN}, {"jobs_pkey"}),
    "retry_job": (
        {"due_at": NOW, "failures": 0, "crashes": 0, "error": None, "id": job_id(1), "worker_id": ANN, "attempt": 1},
        {"jobs_pkey"},
    ),
    "moved_jobs": ({"ids": json.dumps([job_id(1)])}, {"jobs_pkey", "history_pkey"}),
    "delete_finished": ({"ids": json.dumps([job_id(1)])}, {"jobs_pkey"}),
    "save_attributes": (("", job_id(1)), {"workflow_runs_pkey"}),
    "save_runs": ((1, None, job_id(1)), {"workflow_runs_pkey"}),
    "delete_documents": (("default", "t_1"), {"documents_pkey"}),
    "delete_index_entries": (("default", "t.by", b"a", "t_1"), {"index_entries_pkey"}),
}


def fill(store: Store) -> None:
    """Many jobs in every state, many documents in one index: only a few of them concern a claim."""

    def work(tx: Transaction) -> None:
        tx.register_worker(worker())
        for number in range(300):
            tx.register_worker(worker(worker_id(number), leased_until=at(number * 1_000)))
            tx.save_tenant_limits(TenantId(f"limited_{number}"), TenantLimits(running=number))
            tx.save_pool_limits(f"pool_{number}", PoolLimits(running=number))
            tx.save_workflow_type(WorkflowType(f"app.flow_{number}", WorkflowStatus.PAUSED, at(number)))
            for n in range(10):
                tenant = [None, DEFAULT_TENANT, TenantId(f"t{number}")][n % 3]
                tx.add_token(AccessToken(f"token_{number}{n}", tenant, "t", Scope.READ, "d", at(0), "a"))
                tx.add_audit(AuditLine(f"audit_{number}{n}", tenant, at(0), "a", "b", "c", "d", None, None))
            tx.save_call(f"key_{number}", Call("f", "p", "r"), tenant=DEFAULT_TENANT, now=at(number))
        numbers = iter(range(1, 1_000_000))
        put = {"done": DONE, "running": RUNNING, "suspect": SUSPECTS}
        for name, count in put.items():
            tx.insert_jobs([new_job(next(numbers), name=f"app.{name}", due_at=at(-n)) for n in range(count)])
        tx.insert_jobs([new_job(next(numbers), due_at=at(-n), key=f"key_{n}") for n in range(DUE)])
        for n in range(1, 500):
            tenant = TenantId(f"t{n % TENANTS}")
            tx.insert_jobs([new_job(next(numbers), due_at=at(-n), tenant=tenant), new_job(next(numbers), due_at=at(n))])
        tx.insert_jobs([new_job(next(numbers), due_at=at(n), kind=ACTION) for n in range(1, 500)])
        held = [new_job(next(numbers), name="app.keyed", limit_key=f"key_{n % HELD_KEYS}") for n in range(HELD)]
        tx.insert_jobs(held)
        tenants = [TenantId(f"waits_{n}") for n in range(FUTURE)]  # each with one job, due later
        tx.insert_jobs([new_job(next(numbers), due_at=at(60_000), tenant=tenant) for tenant in tenants])
        for statement in (
            """insert into history (id, tenant, kind, name, args, state, requested_at, due_at, created_at, completed_at,
                                   attempt, failures, crashes)
               select id, tenant, kind, name, args, 'success', requested_at, due_at, created_at, due_at, 1, 0, 0
                 from jobs where name = 'app.done'""",
            "delete from jobs where name = 'app.done'",
            f"update jobs set state = 'in_progress', attempt = 1, worker_id = '{ANN}' where name = 'app.running'",
            "update jobs set stage = 'suspect', crashes = 2 where name = 'app.suspect'",
            "update jobs set stage = 'held' where name = 'app.keyed'",
        ):
            tx.connection.execute(statement)
        ids = [f"t_{number:05}" for number in range(ENTRIES)]
        for n in range(1, ENTRIES):
            line = LogLine(0, at(n), "info", f"line {n}")
            tx.add_logs([AttemptLines(job_id(n), 1, [line], TenantId(f"t{n % TENANTS}"), "app.f")], now=at(n))
        runs = [job_id(n) for n in range(1, ENTRIES)]
        tx.insert_runs([RunRecord(run, run) for run in runs])
        tx.save_attributes(dict.fromkeys(runs, (DEFAULT_TENANT, '{"stage": "paid"}')))
        tx.append_journal([Entry(run, 0, Row(0, RowKind.START, 0, "", NOW)) for run in runs])
        tx.send_messages([NewMessage(run, MessageKind.EVENT, "paid") for run in runs], now=NOW)
        tx.put_documents(DEFAULT_TENANT, [StoredDocument(i, "{}") for i in ids])
        tx.put_index_entries(DEFAULT_TENANT, [("t.by", b"a", i) for i in ids])

    store.migrate()
    store.write(work)


def worker_id(number: int) -> Any:
    """One of many workers."""
    return f"worker_{number:04}"


class Undone(Exception):
    """Ends a transaction that only looked."""


@cache
def numbered(name: str) -> tuple[str, tuple[str, ...]]:
    """A statement of PostgreSQL with $1, $2 in place of names, and the names in that order."""
    text, names = load_statements("postgres")[name], []
    while "%(" in text:
        start = text.index("%(")
        parameter = text[start + 2 : text.index(")s", start)]
        names.append(parameter)
        text = text.replace(f"%({parameter})s", f"${len(names)}")
    return text.replace("%%", "%"), tuple(names)


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every node of a plan."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def postgres_plan(store: Store, name: str, params: Mapping[str, Any], *, mode: str, run: bool = False) -> Any:
    """How PostgreSQL would run a prepared statement; with `run`, how it did, in a transaction that is undone."""
    text, names = numbered(name)
    plans: list[Any] = []

    def work(tx: Transaction) -> None:
        cursor = psycopg.Cursor(tx.connection)  # the driver's own: a function's may prepare nothing
        cursor.execute("set local enable_seqscan = off")  # as it is for the store's own statements
        cursor.execute(f"set local plan_cache_mode = {mode}".encode())
        cursor.execute(f"prepare hot as {text}".encode())
        values = sql.SQL(", ").join(sql.Literal(params[parameter]) for parameter in names)
        call = sql.SQL("execute hot ({})").format(values) if names else sql.SQL("execute hot")
        options = sql.SQL("(format json, analyze, buffers)" if run else "(format json)")
        row = cursor.execute(sql.SQL("explain {} {}").format(options, call)).fetchone()
        plans.append(row[0][0]["Plan"])
        cursor.execute("deallocate hot")
        raise Undone

    with pytest.raises(Undone):
        store.write(work)
    return plans[0]


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", [*HOT, *ONLY_POSTGRES])
def test_postgresql_answers_hot_statements_from_an_index(postgres_store: Store, name: str, mode: str) -> None:
    params, indexes = {**HOT, **ONLY_POSTGRES}[name]

    plan = list(nodes(postgres_plan(postgres_store, name, params, mode=mode)))

    read = {node["Index Name"] for node in plan if "Index Name" in node}
    types = [node["Node Type"] for node in plan]
    assert read == indexes, types
    assert "Seq Scan" not in types, types
    assert name in SORT_THE_FEW or not [kind for kind in types if "Sort" in kind], types


@pytest.mark.postgres
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("what", LISTS)
def test_postgresql_reads_a_list_in_the_order_of_an_index(postgres_store: Store, what: str, order: str) -> None:
    name, narrowed, indexes = LISTS[what]
    params = page_of(order) | narrowed

    plan = list(nodes(postgres_plan(postgres_store, f"{name} {order}", params, mode="force_custom_plan")))

    types = [node["Node Type"] for node in plan]
    assert {node["Index Name"] for node in plan if "Index Name" in node} == indexes, types
    assert not [kind for kind in types if "Sort" in kind or kind == "Seq Scan"], types


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("what", LISTS)
def test_sqlite_reads_a_list_in_the_order_of_an_index(sqlite_store: Store, what: str, order: str) -> None:
    name, narrowed, indexes = LISTS[what]
    statement, params = load_statements("sqlite")[f"{name} {order}"], page_of(order) | narrowed

    rows = sqlite_store.read(lambda tx: tx.connection.execute(f"explain query plan {statement}", params).fetchall())

    [line] = [row[3] for row in rows]
    assert line.startswith("SEARCH"), line
    assert f"INDEX {next(iter(indexes))} " in line, line


TOGETHER: Final = {
    "edges": ("edge_unfinished_of_all", "edge_finished of runs", "edge_finished of runs"),
    "lists": ("list_unfinished_of_all", "list_finished of runs", "list_finished of runs"),
}
"""Lists that are read by one statement: each by the index that it has alone."""
OF_RUNS: Final = {"jobs_by_name", "history_runs"}


def of_several(names: Sequence[str], order: str) -> tuple[str, dict[str, Any]]:
    """A statement of several lists, and its parameters."""
    of_states = {of_each("state", 1): "success", of_each("state", 2): "failed"}
    skips = {of_each("skip", number): 20 for number in range(len(names))}
    return together([f"{name} {order}" for name in names]), page_of(order) | of_states | skips


@pytest.mark.postgres
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("what", TOGETHER)
def test_postgresql_reads_lists_together_as_it_reads_each(postgres_store: Store, what: str, order: str) -> None:
    name, params = of_several(TOGETHER[what], order)

    plan = list(nodes(postgres_plan(postgres_store, name, params, mode="force_custom_plan")))

    assert {node["Index Name"] for node in plan if "Index Name" in node} == OF_RUNS
    assert "Seq Scan" not in {node["Node Type"] for node in plan}
    assert sum(node["Node Type"] == "Sort" for node in plan) == (what == "lists"), "that of the functions' jobs"


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("what", TOGETHER)
def test_sqlite_reads_lists_together_as_it_reads_each(sqlite_store: Store, what: str, order: str) -> None:
    name, params = of_several(TOGETHER[what], order)

    steps, _ = sqlite_steps(sqlite_store, name, params)
    alone = [
        sqlite_steps(sqlite_store, f"{part} {order}", params | {"state": state})[0]
        for part, state in zip(TOGETHER[what], ("", "success", "failed"), strict=True)
    ]

    assert steps < sum(alone) * 1.2 + 100, alone


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_list_of_all_that_is_to_be_done_costs_sqlite_a_page_of_each_function(sqlite_store: Store, order: str) -> None:
    every = page_of(order) | {"beyond": page_of("desc" if order == "asc" else "asc")["horizon"]}

    steps, found = sqlite_steps(sqlite_store, f"list_unfinished_of_all {order}", every)
    look, ends = sqlite_steps(sqlite_store, f"edge_unfinished_of_all {order}", every)

    assert (found, ends) == (LISTED["limit"], 4)
    assert steps < 6_000
    assert look < 1_500


@pytest.mark.postgres
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_list_of_all_that_is_to_be_done_costs_postgresql_a_page_of_each_function(
    postgres_store: Store, order: str
) -> None:
    every = page_of(order) | {"beyond": page_of("desc" if order == "asc" else "asc")["horizon"]}

    for name, rows in (("list_unfinished_of_all", 4 * 10), ("edge_unfinished_of_all", 4 * 21)):
        plan = postgres_plan(postgres_store, f"{name} {order}", every, mode="force_custom_plan", run=True)
        scans = [node for node in nodes(plan) if "Index Name" in node]

        assert {scan["Index Name"] for scan in scans} == {"jobs_by_name"}
        assert sum(scan["Actual Rows"] * scan["Actual Loops"] for scan in scans) <= rows
        assert buffers(plan) <= 4 * rows


def test_the_queues_of_due_jobs_cost_sqlite_a_step_each(sqlite_store: Store) -> None:
    steps, found = sqlite_steps(sqlite_store, "due_queues", {"tenant": "default", "now": NOW, "scan_max": 1_000})

    assert found == 2 + SUSPECTS
    assert steps < 3_000


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_the_queues_of_due_jobs_cost_postgresql_a_step_each(postgres_store: Store, mode: str) -> None:
    plan = postgres_plan(
        postgres_store, "due_queues", {"tenant": "default", "now": NOW, "scan_max": 1_000}, mode=mode, run=True
    )

    assert plan["Actual Rows"] == 2 + SUSPECTS
    assert "Seq Scan" not in [node["Node Type"] for node in nodes(plan)]
    assert buffers(plan) <= 4 * SUSPECTS


@pytest.mark.parametrize("name", ["list_running asc", "list_running desc", "count_jobs", "pool_use"])
def test_what_runs_is_found_among_what_runs(sqlite_store: Store, name: str) -> None:
    statement = load_statements("sqlite")[name]
    lines = sqlite_store.read(
        lambda tx: tx.connection.execute(f"explain query plan {statement}", page_of("asc")).fetchall()
    )

    assert [row[3] for row in lines if " jobs " in row[3]] == ["SEARCH jobs USING INDEX jobs_running (worker_id>?)"]


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["list_running asc", "list_running desc", "count_jobs", "pool_use"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_postgresql_finds_what_runs_among_what_runs(postgres_store: Store, name: str, mode: str) -> None:
    plan = postgres_plan(postgres_store, name, page_of("asc"), mode=mode, run=True)

    [scan] = [node for node in nodes(plan) if node.get("Relation Name") == "jobs"]
    assert scan["Index Name"] == "jobs_running"
    assert scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) == RUNNING


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_what_tenants_use_is_read_from_indexes_and_changes_of_counts_once(postgres_store: Store, mode: str) -> None:
    plan = list(nodes(postgres_plan(postgres_store, "tenant_usage", USED, mode=mode, run=True)))

    read = {node["Index Name"] for node in plan if "Index Name" in node}
    assert read - {"job_counts_pkey"} == {"jobs_by_name", "schedules_in_order"}
    scans = [(node["Relation Name"], node["Actual Loops"]) for node in plan if node["Node Type"] == "Seq Scan"]
    assert set(scans) <= {("job_count_changes", 1), ("job_counts", 2)}, scans


PAID: Final = {"attribute": "stage", "attribute_value": '"paid"', "others": '["customer=7"]'}
BY_ATTRIBUTE: Final = {
    "edge_by_attribute": set[str](),
    "list_finished_by_attribute": {"history_pkey"},
    "list_unfinished_by_attribute": {"jobs_pkey"},
}


@pytest.mark.postgres
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("name", BY_ATTRIBUTE)
def test_postgresql_finds_runs_by_attribute_first(postgres_store: Store, name: str, order: str) -> None:
    params = page_of(order) | PAID

    plan = list(nodes(postgres_plan(postgres_store, f"{name} {order}", params, mode="force_custom_plan")))

    read = {node["Index Name"] for node in plan if "Index Name" in node}
    assert read - {"workflow_attributes_run"} == BY_ATTRIBUTE[name] | {"workflow_attributes_pkey"}
    assert "Seq Scan" not in {node["Node Type"] for node in plan}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("name", BY_ATTRIBUTE)
def test_sqlite_finds_runs_by_attribute_first(sqlite_store: Store, name: str, order: str) -> None:
    statement, params = load_statements("sqlite")[f"{name} {order}"], page_of(order) | PAID

    rows = sqlite_store.read(lambda tx: tx.connection.execute(f"explain query plan {statement}", params).fetchall())

    lines = [row[3] for row in rows]
    assert lines[0].startswith(
        "SEARCH workflow_attributes USING PRIMARY KEY (tenant=? AND name=? AND value=? AND run_id"
    )
    assert not [line for line in lines if line.startswith(("SCAN jobs", "SCAN history", "USE TEMP"))], lines
    assert name.startswith("edge") or "(id=?)" in lines[1], lines


def page_of(order: str) -> dict[str, Any]:
    """What a list is asked beside its filters: the page beyond a job."""
    return LISTED | {"beyond": job_id(5), "horizon": "\x7f" if order == "asc" else ""}


@pytest.mark.parametrize("name", [*HOT, *ONLY_SQLITE])
def test_sqlite_answers_hot_statements_from_an_index(sqlite_store: Store, name: str) -> None:
    params, indexes = ONLY_SQLITE[name] if name in ONLY_SQLITE else HOT[name]
    statement = load_statements("sqlite")[name]

    rows = sqlite_store.read(lambda tx: tx.connection.execute(f"explain query plan {statement}", params).fetchall())

    lines = [row[3] for row in rows]
    own = {index for index in indexes if not index.endswith("_pkey")}
    assert {word for line in lines for word in line.split() if word.startswith(OWN_INDEXES)} - TABLES == own
    assert own == indexes or any("PRIMARY KEY" in line or "sqlite_autoindex" in line for line in lines), lines
    assert name in SORT_THE_FEW or not [line for line in lines if "TEMP B-TREE" in line], lines
    assert not [line for line in lines if line.startswith("SCAN") and not is_harmless(line)], lines


def is_harmless(line: str) -> bool:
    """Whether a scan is not one of a table: of rows that the statement itself made, or of the beginning of an index."""
    return (
        line
        in (
            "SCAN family",
            "SCAN first",
            "SCAN found",
            "SCAN held",
            "SCAN oldest",
            "SCAN ready",
            "SCAN holders",
            "SCAN names",
            "SCAN counted",
            "SCAN walk",
            "SCAN last",
            "SCAN CONSTANT ROW",
        )
        or line.startswith("SCAN json_each")
        or "VIRTUAL TABLE" in line  # json_each by another name
        or "INDEX jobs_running" in line
        or "INDEX job_counts_empty" in line
        or "_limits USING COVERING INDEX" in line  # the first row
        or line in ("SCAN jobs USING INDEX jobs_waiting", "SCAN jobs USING INDEX jobs_suspect")
    )


# -- what is beside the rows does not count


def sqlite_steps(store: Store, name: str, params: Mapping[str, Any]) -> tuple[int, int]:
    """How many instructions of SQLite's machine a statement takes, and how many rows it returns."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    found: list[int] = []

    def work(tx: Transaction) -> None:
        tx.connection.set_progress_handler(count, 1)
        try:
            found.append(len(tx.connection.execute(load_statements("sqlite")[name], params).fetchall()))
        finally:
            tx.connection.set_progress_handler(None, 0)
        raise Undone

    with pytest.raises(Undone):
        store.write(work)
    return steps, found[0]


@pytest.fixture(scope="module")
def lonely_store() -> Iterator[Store]:
    """A SQLite database that holds ready jobs and nothing else."""
    store = open_store("sqlite://")
    store.migrate()
    store.write(lambda tx: tx.insert_jobs([new_job(n, due_at=at(-n), key=f"key_{n}") for n in range(1, DUE + 1)]))
    yield store
    store.close()


def test_a_claim_costs_sqlite_the_same_beside_thousands_of_other_jobs(sqlite_store: Store, lonely_store: Store) -> None:
    find = ONLY_SQLITE["ready_ids"][0]

    alone, beside = sqlite_steps(lonely_store, "ready_ids", find), sqlite_steps(sqlite_store, "ready_ids", find)

    assert alone[1] == beside[1] == 100
    assert beside[0] <= 1.05 * alone[0]


def test_a_look_costs_sqlite_a_step_a_head_and_a_step_a_queue_of_others(sqlite_store: Store) -> None:
    look = ONLY_SQLITE["oldest_ready_jobs"][0] | {"limit": 100, "steps": 100}
    notify = queue_of("default", "app.notify")

    steps, found = sqlite_steps(sqlite_store, "oldest_ready_jobs", look)
    passing, own = sqlite_steps(sqlite_store, "oldest_ready_jobs", look | {"others": json.dumps([QUEUE])})

    assert found == TENANTS + 1
    assert steps < 150 * found
    assert (own, notify == QUEUE) == (0, False)
    assert passing < 300


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_deep_page_of_an_index_costs_sqlite_no_more_than_the_first(sqlite_store: Store, direction: str) -> None:
    params = HOT[f"scan_index_{direction}"][0]
    shallow, deep = ("t_00010", "t_05900") if direction == "asc" else ("t_05900", "t_00100")

    first = sqlite_steps(sqlite_store, f"scan_index_{direction}", params | {"document_id": shallow})
    last = sqlite_steps(sqlite_store, f"scan_index_{direction}", params | {"document_id": deep})

    assert first == last
    assert last[1] == 10


def test_held_keys_cost_sqlite_a_step_each(sqlite_store: Store) -> None:
    look = ONLY_SQLITE["held_keys"][0]

    few, many = (sqlite_steps(sqlite_store, "held_keys", look | {"limit": limit}) for limit in (10, 100))

    assert (few[1], many[1]) == (10, 100)
    assert many[0] < 250 * many[1]
    assert sqlite_steps(sqlite_store, "held_keys", look | {"limit": 10_000})[1] == HELD_KEYS


@pytest.mark.postgres
def test_held_keys_cost_postgresql_a_step_each(postgres_store: Store) -> None:
    look = ONLY_POSTGRES["held_keys"][0] | {"limit": 10_000}

    plan = postgres_plan(postgres_store, "held_keys", look, mode="force_generic_plan", run=True)

    assert plan["Actual Rows"] == HELD_KEYS
    assert buffers(plan) <= 12 * HELD_KEYS


@pytest.mark.postgres
def test_a_release_makes_postgresql_read_only_its_keys(postgres_url: str) -> None:
    """Real once: without statistics it looked for the ready jobs of a key among all ready ones."""
    store = open_store(postgres_url)
    store.migrate()
    jobs = [new_job(n, name="app.keyed", limit_key=f"key_{n // 20}") for n in range(1, 6_000)]
    store.write(lambda tx: tx.insert_jobs(jobs))
    store.write(lambda tx: tx.hold_jobs([job.id for job in jobs[:399]]))
    rows = [{"queue": KEYED, "tenant": "default", "key": f"key_{n}", "capacity": 1} for n in range(20)]

    plan = postgres_plan(store, "release_held", {"rows": json.dumps(rows)}, mode="force_generic_plan", run=True)

    assert {node["Index Name"] for node in nodes(plan) if "Index Name" in node} == {"jobs_by_limit_key", "jobs_pkey"}
    assert buffers(plan) <= 40 * 20
    store.close()


def buffers(plan: Mapping[str, Any]) -> int:
    """How many pages PostgreSQL looked at."""
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def claim_of(*oldest: tuple[str, int], limit: int = 100) -> dict[str, Any]:
    """The parameters of a claim behind the oldest jobs: a tenant and a rank each."""
    return {
        "queues": [QUEUE] * len(oldest), "tenants": [tenant for tenant, _ in oldest],
        "ranks": [rank for _, rank in oldest], "limits": [limit] * len(oldest), "now": NOW, "bytes": 10**9,
        "kind": "mutation", "worker_id": "w",
    }  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_a_claim_makes_postgresql_read_only_what_it_claims(postgres_store: Store, mode: str) -> None:
    params = claim_of(("default", 0), ("t1", 0), limit=50)

    plan = postgres_plan(postgres_store, "claim_jobs", params, mode=mode, run=True)

    scan = next(node for node in nodes(plan) if node.get("Index Name") == "jobs_ready")
    assert {node["Index Name"] for node in nodes(plan) if "Index Name" in node} == {
        "jobs_ready",
        "jobs_pkey",
        "bodies_pkey",
    }
    assert "Seq Scan" not in [node["Node Type"] for node in nodes(plan)]
    assert plan["Actual Rows"] == 100
    assert scan["Actual Rows"] * scan["Actual Loops"] == 100
    assert scan.get("Rows Removed by Filter", 0) == 0
    assert buffers(scan) <= 2 * (3 + 2 * 50)
    assert buffers(plan) <= 25 * 100  # each claimed row is written anew, with its place in its indexes


@pytest.mark.postgres
def test_a_claim_does_not_pass_again_over_what_was_claimed_before(postgres_url: str) -> None:
    """PostgreSQL keeps the index entries of claimed jobs until the next VACUUM, which must not come in between here."""
    store = open_store(postgres_url)
    store.migrate()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("alter table jobs set (autovacuum_enabled = false)")
    store.write(lambda tx: tx.insert_jobs([new_job(n, due_at=Instant(NOW - 9_000 + n)) for n in range(9_000)]))
    for _ in range(80):
        store.write(lambda tx: claim_in(tx, limit=100))

    plans = [
        postgres_plan(store, "claim_jobs", claim_of(("default", rank)), mode="force_generic_plan", run=True)
        for rank in (0, NOW - 9_000 + 7_999)
    ]

    way, leap = (next(node for node in nodes(plan) if node.get("Index Name") == "jobs_ready") for plan in plans)
    assert way["Actual Rows"] == leap["Actual Rows"] == 100
    assert buffers(leap) <= 3 + 2 * 100
    assert buffers(leap) + 30 <= buffers(way)
    store.close()


@pytest.mark.postgres
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_deep_page_of_an_index_costs_postgresql_no_more_than_the_first(postgres_store: Store, direction: str) -> None:
    name = f"scan_index_{direction}"
    shallow, deep = ("t_00010", "t_05900") if direction == "asc" else ("t_05900", "t_00100")

    first, last = (
        postgres_plan(postgres_store, name, HOT[name][0] | {"document_id": i}, mode="force_generic_plan", run=True)
        for i in (shallow, deep)
    )

    assert first["Actual Rows"] == last["Actual Rows"] == 10
    assert buffers(last) <= buffers(first) + 10


@pytest.mark.postgres
def test_a_look_costs_postgresql_a_step_a_head_and_a_step_a_queue_of_others(postgres_store: Store) -> None:
    look = ONLY_POSTGRES["oldest_ready_jobs"][0] | {"limit": 100, "steps": 100}

    whole = postgres_plan(postgres_store, "oldest_ready_jobs", look, mode="force_generic_plan", run=True)
    others = look | {"others": [QUEUE]}
    passing = postgres_plan(postgres_store, "oldest_ready_jobs", others, mode="force_generic_plan", run=True)

    assert whole["Actual Rows"] == TENANTS + 1
    assert buffers(whole) <= (TENANTS + 1) * 12
    assert passing["Actual Rows"] == 0
    assert buffers(passing) <= 2 * 12


def test_every_statement_says_what_it_is() -> None:
    assert {*HOT, *ONLY_SQLITE} <= statement_names("sqlite")
    assert {*HOT, *ONLY_POSTGRES} <= statement_names("postgres")
    assert MUTATION.value == "mutation"
