"""Every list of the HTTP API beside many rows, and pages of the dashboard: how long one takes, and one far behind it.

    python -m benchmarks.bench_http_lists [--part 1.0] [--runs 40] [--store disk|ram] [--database sqlite|postgres]

One `evertick serve` process and one client that sends a request after the other. The tenant has 1,000,000 jobs (800,000
of them have ended), 100,000 schedules, half of which fire at midnight together, 1,000,000 rows of the ledger, 100,000
runs of workflows and 100,000 lines in the audit log (`--part 0.1` is a tenth of that). Prints the p50 and the p95 of
the time from request to reply in milliseconds, the client's own part of it included. A page has 100 rows; one "far on"
begins after 50,000 of them, or where the list ends. The bar is 50 ms.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2

from benchmarks.flatness import fill
from benchmarks.peers.run import ground
from evertick import App, MutationCtx
from evertick.base.instants import DAY_MS
from evertick.store.store import Store

LIST_BAR_MS: Final = 50
PAGES_ON: Final = 50
"""Pages of 1,000 rows (of 100, for people) before one that is far on."""
ONE_PAGE: Final = ("/t/", "changes", "function-stats")
"""What has no page of 1,000 rows to go on from."""
FUNCTIONS: Final = fill.FUNCTIONS
APP: Final = """
from evertick import App, MutationCtx, Step

app = App("bench")

@app.mutation(name="bench.tick")
def tick(ctx: MutationCtx) -> None: ...

@app.workflow(name="bench.flow")
async def flow(step: Step) -> None: ...
"""
JOBS: Final = (
    "", "function=bench.f3", "function=bench.f7&state=failed", "function=none", "schedule=schedule_2", "key=key%2031",
    "pool=default", "pool=none", "limit_key=none", "error=valueerror", f"error={fill.NEEDLE}", "blocked=true",
    "due_until=2020-01-01T00:00:00Z",
)  # fmt: skip
SCHEDULES: Final = (
    "status=paused", "status=completed", "status=unreadable", "kind=cron", "function=bench.f3", "function=none",
    "id_contains=77", "id_contains=09999", "id_contains=none", "next_before=2020-01-01T00:00:00Z",
    "health=failing", "health=late", "health=missed", "time_zone=Asia/Tokyo", "time_zone=none",
)  # fmt: skip
LEDGER: Final = (
    "fate=started", "fate=skipped", "fate=missed", "fate=buffered", "reason=overlap", "reason=buffer_full",
    "reason=paused", "schedule=schedule-100000007",
)  # fmt: skip
RUNS: Final = (
    "function=bench.flow", "state=failed", "state=running", "attribute=customer%3D31", "attribute=customer%3Dnone",
    "prefix=job_0", "prefix=key%203",
)  # fmt: skip
"""Filters of lists; some of them find one row among all, or none."""
_SCHEDULES: Final = """
insert into schedules (tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at,
                       next_at, last_at, last_result, last_failure, version, revision, created_at, updated_at,
                       time_zone, failing, late, missed_at)
select tenant, 'schedule-' || (100000000 + n), kind, spec, target, 'bench.f' || (n % {functions}), state,
       case when n % 10 = 3 then 'paused' when n % 1000 = 5 then 'completed' else 'active' end, note, memo, seen_until,
       wake_at + {day}, case when n % 1000 <> 5 then {midnight} + {second} end, {midnight} - {day} + {second},
       last_result, case when n % 50 = 9 then 'ValueError: no' end, version, revision, created_at, updated_at,
       case when n % 7 = 0 then 'Asia/Tokyo' else 'UTC' end, case when n % 50 = 9 then 1 else 0 end,
       case when n % 9 = 0 then 1 else 0 end, case when n % 1000 = 7 then {now} end
  from {series}
 cross join schedules where id = 'template'
"""
_OCCURRENCES: Final = """
insert into occurrences (tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at,
                         run_id, job_id, started_at, ended_at, outcome)
select 'default', 'schedule-' || (100000000 + n % {schedules}), {at}, 'schedule', '', {at},
       case when n % 100 = 7 then 'skipped' when n = 8 then 'missed' else 'started' end,
       case when n % 100 = 7 then 'overlap' when n = 8 then 'buffer_full' else 'on_time' end, '', {at} + 3,
       'run-' || n, 'job_' || n, {at} + 5, {at} + 9, 'success'
  from {series}
"""
_RUN_RECORDS: Final = "insert into workflow_runs (run_id, seed) select id, '00' from history where kind = 'workflow'"
_ATTRIBUTES: Final = """
insert into workflow_attributes (tenant, name, value, run_id)
select 'default', 'customer', '"' || (started_at % 1000) || '"', id from history where kind = 'workflow'
"""
_CHANGES: Final = """
insert into audit_log (id, tenant, at, actor, action, target, request)
select 'audit_' || {number}, 'default', {now}, 'token billing', 'job.cancel', 'job_' || n, 'req_' || n from {series}
"""
_NUMBER: Final = {"sqlite": "printf('%028d', n)", "postgres": "lpad(n::text, 28, '0')"}


def filled(store: Store, part: float) -> None:
    """Write all rows."""
    sizes = fill.Sizes(tenants=1_000, waiting=200_000, finished=800_000).scaled(part)
    fill.fill(store, sizes)
    now = time.time_ns() // 1_000_000
    count, midnight = max(100, round(100_000 * part)), now // DAY_MS * DAY_MS
    second = "case when n % 2 = 0 then 0 else n % 86400 * 1000 end"
    words: dict[str, Any] = {"functions": FUNCTIONS, "day": DAY_MS, "now": now, "schedules": count}
    words["number"] = _NUMBER[store.dialect]
    fill.write(store, _SCHEDULES, words | {"midnight": midnight + DAY_MS, "second": second}, count)
    at = f"({midnight} - {DAY_MS} * (n / {count}) + {second})"
    fill.write(store, _OCCURRENCES, words | {"at": at}, 10 * count)
    runs = fill.finished(now, count, kind="workflow", name="'bench.flow'")
    fill.write(store, fill.FINISHED, runs | {"at": f"{runs['at']} + 1"}, count)
    fill.write(store, _CHANGES, words, count)
    for statement in (_RUN_RECORDS, _ATTRIBUTES, "delete from job_counts", fill.COUNTS):
        fill.run(store, statement)
    fill.settle(store)


def lists() -> Iterator[tuple[str, str]]:
    """Every list, and its filters, by a name."""
    hour_ago, tomorrow = (_text(datetime.now(UTC) + timedelta(hours=hours)) for hours in (-1, 24))
    for each in ("state=pending", "state=in_progress", "state=success", "state=failed", "state=canceled", *JOBS):
        yield f"jobs, {each}", f"jobs?newest_first=true&{each}"
    yield "jobs, since an hour", f"jobs?newest_first=true&due_from={hour_ago}"
    yield "jobs, oldest first", "jobs?"
    yield "jobs, counts", "jobs/counts?"
    for sort in ("id", "next", "-id", "-next", "last", "-last"):
        for each in ("", *SCHEDULES, f"next_before={tomorrow}"):
            yield f"schedules for people by {sort}, {each}"[:100], f"schedule-details?sort={sort}&{each}"
    for each in ("", *SCHEDULES):
        yield f"schedules by id, {each}", f"schedules?sort=id&{each}"
        yield f"schedule counts, {each}", f"schedule-counts?{each}"
    for order, shown in (("false", "oldest"), ("true", "newest")):
        for each in ("", *LEDGER):
            yield f"occurrences, {shown} first, {each}", f"occurrences?newest_first={order}&{each}"
        yield f"occurrences, {shown} first, since an hour", f"occurrences?newest_first={order}&start={hour_ago}"
    yield "history of a schedule", "schedules/template/history?"
    for each in ("", *RUNS):
        yield f"workflows, {each}", f"workflows?{each}"
    yield "workflows, since an hour", f"workflows?started_from={hour_ago}"
    for path in ("overview", "activity", "coming", "changes", "function-stats", "search?text=schedule-1000777"):
        yield f"insight, {path}", f"{path}{'&' if '?' in path else '?'}"
    yield "insight, search of nothing", "search?text=none-of-the-kind"
    for path in ("functions", "tokens", "audit-log", "status", "logs"):
        yield path, f"{path}?"
    yield "page, overview", "/t/default?"
    for path in (
        "functions?",
        "functions?state=failed",
        "functions?state=done",
        "workflows?state=all",
        "workflows?state=done",
        "logs?",
        "pools?",
        "functions-by-name?",
        "audit?",
        "workers?",
        "tenants?",
        "schedules?",
        "schedules?sort=id",
        "schedules?q=777",
        "schedules?health=missed",
        "schedules/schedule-100000007?",
    ):
        yield f"page, {path}", f"/t/default/{path}"
    for path in ("workflow-types", "audit-log", "tokens", "tenants", "pools", "workers", "status"):
        yield f"{path} of all", f"/api/v1/{path}?"


def _text(moment: datetime) -> str:
    return quote(moment.isoformat())


class Lists:
    """A client of one server."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}", "Cookie": f"evertick_token={token}"}
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=120)

    def took_ms(self, path: str, runs: int) -> list[float]:
        """The times of some requests, in order of length; the first request of all is not counted."""
        found = []
        for _ in range(runs + 1):
            began = time.perf_counter()
            self._get(path)
            found.append((time.perf_counter() - began) * 1000)
        return sorted(found[1:])

    def far_on(self, path: str) -> str | None:
        """The same list, many pages on; None if it has one page, or is a page for people."""
        if path.startswith(ONE_PAGE):
            return None
        most = 100 if path.startswith("schedule-details") else 1_000
        page, cursor = self._get(path), None
        for _ in range(PAGES_ON):
            following = page.get("cursor") if isinstance(page, dict) else None
            if following is None:
                break
            cursor = following
            page = self._get(f"{path}&limit={most}&cursor={quote(cursor)}")
        return f"{path}&cursor={quote(cursor)}" if cursor else None

    def _get(self, path: str) -> Any:
        reply = self._client.get(path if path.startswith("/") else f"/api/v1/tenants/default/{path}")
        assert reply.status_code == 200, f"{path}: {reply.text}"
        return json.loads(reply.content) if reply.headers["content-type"] == "application/json" else reply.text


def measure(name: str, database: str, options: argparse.Namespace) -> int:
    """Measure one database; how many bars were missed."""
    app = App("bench", database_url=database)

    @app.mutation(name="bench.tick")
    def tick(ctx: MutationCtx) -> None: ...

    app.migrate()
    with app:
        app.schedules.create("template", when="every day at 09:00", do=tick)
        began = time.perf_counter()
        filled(app.environment.store, options.part)
        token = app.tokens.create("bench", scope="admin").secret
    print(f"\n{name} (written in {time.perf_counter() - began:,.0f} s){'':<34}p50       p95     far on: p50     p95")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APP)
        words = [sys.executable, "-m", "evertick.cli.main", "serve", "--port", "0", "--db", database]
        server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        try:
            [url] = re.findall(r"http://[\d.:]+", server.stderr.readline())
            client = Lists(url, token)
            for shown, path in lists():
                if options.only not in shown:
                    continue
                line, worst = f"{shown:<64}", 0.0
                for each in (path, client.far_on(path)):
                    if each is not None:
                        took = client.took_ms(each, options.runs)
                        p50, p95 = took[len(took) // 2], took[int(len(took) * 0.95)]
                        line, worst = f"{line}{p50:10.1f}{p95:10.1f}", max(worst, p95)
                missed += worst > LIST_BAR_MS
                print(line + (f"   more than {LIST_BAR_MS} ms" if worst > LIST_BAR_MS else ""), flush=True)
        finally:
            server.terminate()
            server.wait()
    return missed


def main() -> int:
    """Measure both databases; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description="What a page of a list takes.")
    parser.add_argument("--part", type=float, default=1.0, help="of the rows; 0.1 is a tenth")
    parser.add_argument("--runs", type=int, default=40, help="requests for each page")
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="only this one")
    parser.add_argument("--only", default="", help="only lists whose name contains this")
    options = parser.parse_args()
    missed = 0
    with ground(options.store) as (server, folder):
        for name, url in (("sqlite", f"sqlite:///{folder}/bench.db"), ("postgres", server.databases.create())):
            if options.database in (None, name):
                missed += measure(name, url, options)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
