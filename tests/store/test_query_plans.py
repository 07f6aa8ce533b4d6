"""Query plans: hot statements read by an index, sort nothing, and cost the same however much lies beside their rows."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from evertick.base.ids import DEFAULT_TENANT, TenantId, queue_of
from evertick.base.instants import Instant
from evertick.base.records.jobs import Call, StoredDocument
from evertick.base.records.tenants import TenantLimits
from evertick.store.contract.store import Store, Transaction
from evertick.store.open import open_store
from evertick.store.transaction.statements import load_statements
from tests.store.rows import ACTION, ANN, MUTATION, NOW, at, claim_in, job_id, new_job, worker

FUTURE, DONE, RUNNING, SUSPECTS, DUE = 6_000, 6_000, 200, 50, 300
QUEUE: Final = queue_of("default", "app.destruct")
TENANTS: Final = 5
ENTRIES: Final = 6_000
JOB_ROWS: Final = [{"id": job_id(n), "attempt": 1, "state": "success", "completed_at": NOW} for n in range(50)]

# What each hot statement is asked, and the indexes that it may read.
HOT: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    "next_waiting_at": ({}, {"jobs_waiting"}),
    "promote_jobs": ({"now": NOW, "limit": 100}, {"jobs_waiting", "jobs_pkey"}),
    "queue_name": ({"queue": QUEUE}, {"jobs_ready"}),
    "suspects": ({"limit": 10}, {"jobs_suspect"}),
    "held_jobs": ({"worker_id": ANN, "limit": 100}, {"jobs_running"}),
    "holders_without_row": ({}, {"jobs_running", "workers_pkey"}),
    "prune_jobs": ({"before": at(-50_000), "limit": 100}, {"jobs_completed", "jobs_pkey"}),
    "cancel_job": ({"id": job_id(1), "tenant": "default", "now": NOW, "stop": 1}, {"jobs_pkey"}),
    "get_job": ({"id": job_id(1), "tenant": "default"}, {"jobs_pkey"}),
    "list_jobs": (
        {"tenant": "default", "after": job_id(5), "states": None, "name": None, "due_from": None, "due_until": None}
        | {"limit": 10},
        {"jobs_pkey"},
    ),
    "list_jobs_newest": (
        {"tenant": "default", "before": job_id(5), "states": None, "name": None, "due_from": None, "due_until": None}
        | {"limit": 10},
        {"jobs_pkey"},
    ),
    "find_unfinished_key": ({"tenant": "default", "key": "k"}, {"jobs_key"}),
    "lock_claim": ({"id": job_id(1), "worker_id": "w", "attempt": 1}, {"jobs_pkey"}),
    "expired_workers": ({"now": NOW, "limit": 10}, {"workers_lease"}),
    "renew_lease": ({"id": ANN, "leased_until": NOW}, {"workers_pkey"}),
    "get_document": ({"tenant": "default", "id": "t_1"}, {"documents_pkey"}),
    "scan_documents_asc": ({"tenant": "default", "low": "t_", "high": "t_x", "limit": 10}, {"documents_pkey"}),
    "scan_documents_desc": ({"tenant": "default", "low": "t_", "high": "t_x", "limit": 10}, {"documents_pkey"}),
    "scan_index_asc": (
        {"tenant": "default", "index_name": "t.by", "key": b"a", "document_id": "t_5", "high": b"b", "limit": 10},
        {"index_entries_pkey", "documents_pkey"},
    ),
    "scan_index_desc": (
        {"tenant": "default", "index_name": "t.by", "key": b"a", "document_id": "t_5", "low": b"a", "limit": 10},
        {"index_entries_pkey", "documents_pkey"},
    ),
    "running_jobs": ({"tenants": json.dumps(["default", "t1"])}, {"jobs_running"}),
    "unfinished_jobs": ({"tenant": "t1"}, {"jobs_unfinished"}),
    "argument_bytes": ({"tenant": "t1"}, {"jobs_unfinished"}),
    "held_back_tenants": ({"tenants": json.dumps(["default", "t1"])}, {"tenant_limits_pkey"}),
    "start_limits": ({"tenants": json.dumps(["default", "t1"])}, {"tenant_limits_pkey"}),
    "list_tenant_limits": ({"first": "t1", "limit": 1}, {"tenant_limits_pkey"}),
    "find_call": ({"tenant": "default", "key": "k"}, {"calls_pkey"}),
    "prune_calls": ({"before": at(-1_000), "limit": 10}, {"calls_created", "calls_pkey"}),
}
ONLY_POSTGRES: Final[Mapping[str, tuple[dict[str, Any], set[str]]]] = {
    "ready_heads": ({"others": [1, 2], "queue": 0, "tenant": "", "limit": 10, "steps": 10}, {"jobs_ready"}),
    "tenants_with_jobs": ({"after": "", "limit": 10}, {"jobs_unfinished"}),
    "claim_suspect": (
        {"id": job_id(1), "kind": "mutation", "worker_id": "w", "now": NOW},
        {"jobs_suspect", "jobs_pkey"},
    ),
    "finish_jobs": ({"rows": json.dumps(JOB_ROWS), "worker_id": ANN}, {"jobs_pkey"}),
    "finish_succeeded": ({"rows": json.dumps(JOB_ROWS), "worker_id": ANN}, {"jobs_pkey"}),
    "delete_documents": ({"rows": '[{"tenant":"default","id":"t_1"}]'}, {"documents_pkey"}),
    "delete_index_entries": ({"rows": "[]"}, {"index_entries_pkey"}),
}
ONLY_SQLITE: Final[Mapping[str, tuple[Any, set[str]]]] = {
    "ready_heads": (
        {"others": "[1, 2]", "queue": 0, "tenant": "", "limit": 10, "steps": 10},
        {"jobs_ready", "jobs_pkey"},
    ),
    "ready_ids": ({"queue": QUEUE, "tenant": "default", "rank": 0, "limit": 100}, {"jobs_ready"}),
    "claim_ids": ({"ids": json.dumps([job_id(1), job_id(2)]), "kind": "mutation", "worker_id": "w"}, {"jobs_pkey"}),
    "claim_suspect": ({"id": job_id(1), "kind": "mutation", "worker_id": "w", "now": NOW}, {"jobs_pkey"}),
    "finish_job": (("success", NOW, NOW, 0, 0, None, None, None, job_id(1), ANN, 1), {"jobs_pkey"}),
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
        tenants = [TenantId(f"waits_{n}") for n in range(FUTURE)]  # each with one job, due later
        tx.insert_jobs([new_job(next(numbers), due_at=at(60_000), tenant=tenant) for tenant in tenants])
        for statement in (
            "update jobs set state = 'success', attempt = 1, completed_at = due_at where name = 'app.done'",
            f"update jobs set state = 'in_progress', attempt = 1, worker_id = '{ANN}' where name = 'app.running'",
            "update jobs set stage = 'suspect', crashes = 2 where name = 'app.suspect'",
        ):
            tx.connection.execute(statement)
        ids = [f"t_{number:05}" for number in range(ENTRIES)]
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
    if name.startswith("list_jobs"):
        mode = "force_custom_plan"  # for an unknown number of rows it would sort; it never chooses that by itself

    plan = list(nodes(postgres_plan(postgres_store, name, params, mode=mode)))

    read = {node["Index Name"] for node in plan if "Index Name" in node}
    types = [node["Node Type"] for node in plan]
    assert read == indexes, types
    assert "Seq Scan" not in types, types
    assert not [kind for kind in types if "Sort" in kind], types


@pytest.mark.parametrize("name", [*HOT, *ONLY_SQLITE])
def test_sqlite_answers_hot_statements_from_an_index(sqlite_store: Store, name: str) -> None:
    params, indexes = ONLY_SQLITE[name] if name in ONLY_SQLITE else HOT[name]
    statement = load_statements("sqlite")[name]

    rows = sqlite_store.read(lambda tx: tx.connection.execute(f"explain query plan {statement}", params).fetchall())

    lines = [row[3] for row in rows]
    own = {index for index in indexes if not index.endswith("_pkey")}
    assert {word for line in lines for word in line.split() if word.startswith(("jobs_", "workers_", "calls_"))} == own
    assert own == indexes or any("PRIMARY KEY" in line or "sqlite_autoindex" in line for line in lines), lines
    assert not [line for line in lines if "TEMP B-TREE" in line], lines
    assert not [line for line in lines if line.startswith("SCAN") and not is_harmless(line)], lines


def is_harmless(line: str) -> bool:
    """Whether a scan is not one of a table: of the rows that a recursion made, or of the beginning of an index."""
    return (
        line in ("SCAN head", "SCAN holders", "SCAN CONSTANT ROW")
        or line.startswith("SCAN json_each")
        or "INDEX jobs_running" in line
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
    look = ONLY_SQLITE["ready_heads"][0] | {"limit": 100, "steps": 100}
    notify = queue_of("default", "app.notify")

    steps, found = sqlite_steps(sqlite_store, "ready_heads", look)
    passing, own = sqlite_steps(sqlite_store, "ready_heads", look | {"others": json.dumps([QUEUE])})

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


def buffers(plan: Mapping[str, Any]) -> int:
    """How many pages PostgreSQL looked at."""
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def claim_of(*heads: tuple[str, int], limit: int = 100) -> dict[str, Any]:
    """The parameters of a claim behind heads: a tenant and a rank each."""
    return {
        "queues": [QUEUE] * len(heads), "tenants": [tenant for tenant, _ in heads],
        "ranks": [rank for _, rank in heads], "limits": [limit] * len(heads), "bytes": 10**9,
        "kind": "mutation", "worker_id": "w",
    }  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_a_claim_makes_postgresql_read_only_what_it_claims(postgres_store: Store, mode: str) -> None:
    params = claim_of(("default", 0), ("t1", 0), limit=50)

    plan = postgres_plan(postgres_store, "claim_jobs", params, mode=mode, run=True)

    scan = next(node for node in nodes(plan) if node.get("Index Name") == "jobs_ready")
    assert {node["Index Name"] for node in nodes(plan) if "Index Name" in node} == {"jobs_ready", "jobs_pkey"}
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
    assert buffers(leap) + 50 <= buffers(way)
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
    look = ONLY_POSTGRES["ready_heads"][0] | {"limit": 100, "steps": 100}

    whole = postgres_plan(postgres_store, "ready_heads", look, mode="force_generic_plan", run=True)
    others = look | {"others": [QUEUE]}
    passing = postgres_plan(postgres_store, "ready_heads", others, mode="force_generic_plan", run=True)

    assert whole["Actual Rows"] == TENANTS + 1
    assert buffers(whole) <= (TENANTS + 1) * 12
    assert passing["Actual Rows"] == 0
    assert buffers(passing) <= 2 * 12


def test_every_statement_says_what_it_is() -> None:
    assert {*HOT, *ONLY_SQLITE} <= load_statements("sqlite").keys()
    assert {*HOT, *ONLY_POSTGRES} <= load_statements("postgres").keys()
    assert MUTATION.value == "mutation"
