"""Everything of a database in another one, of the same kind or not."""

import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step, every
from evertick.api.gateway_fleet import Registration
from evertick.api.gateways import GatewayCron
from evertick.base.errors import DatabaseLocked, Misuse, SchemaMismatch
from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import NEVER, Instant
from evertick.base.records.gateways import SyncResult
from evertick.base.records.jobs import Worker
from evertick.base.records.scripts import ScriptRow, ScriptRunRow, ScriptVersionRow
from evertick.store.copying import copy_tables
from evertick.store.location import own_tables
from evertick.store.open import open_settled
from evertick.store.postgres import copying
from evertick.store.postgres.copying import locked_database
from evertick.store.sqlite.address import path_of
from evertick.store.sqlite.copying import locked_file
from evertick.store.transaction.transaction import Transaction
from tests.cli.desk import work_off
from tests.cli.programs import evertick
from tests.gateways.conftest import cron


def shop(url: str) -> App:
    """An app that uses everything."""
    app = App("shop", database_url=url)
    app.table("books", indexes={"by_author": ["author"]})
    app.pool("mail", running=3)

    @app.mutation(name="add")
    def add(ctx: MutationCtx, author: str) -> str:
        ctx.log.info("adds %s", author)
        ctx.scheduler.run_after(3600, "count", number=7)
        return ctx.db.insert("books", {"author": author, "odd": "ä\u20ac \U0001f600 \\N \t"})

    @app.query(name="authors")
    def authors(ctx: Any) -> list[str]:
        return [book["author"] for book in ctx.db.query("books").with_index("by_author", author="Lem")]

    @app.mutation(name="count")
    def count(ctx: MutationCtx, number: int) -> int:
        return number

    @app.action(name="fails")
    async def fails(ctx: ActionCtx) -> None:
        ctx.log.info("line\nanother")
        raise ValueError("no luck: \t \\ ä")

    @app.workflow(name="flow")
    async def flow(step: Step) -> str:
        first = await step.run(count, 1)
        said = await step.wait_for("go", timeout=86_400)
        return f"{first} {said}"

    return app


def filled(url: str) -> str:
    """A database with rows in nearly every table; returns the id of a run of a workflow that waits."""
    app = shop(url)
    app.migrate()
    app.call("add", author="Lem")
    app.tenant("acme").call("add", author="Verne")
    app.call_once("key", app.functions.resolve("add"), "Lem")
    app.schedules.create("hourly", when=every(hours=1), do=app.functions.resolve("count").with_args(3), note="tea")
    app.schedules.trigger("hourly")
    app.scheduler.using(retry=Retry(2, first=0.001)).run_after(0, "fails")
    run_id = app.workflows.using(attributes={"order": "7"}).start(app.functions.resolve("flow"))
    app.tokens.create("program", tenant="default")
    joined = app.gateways.join_token("edge-1").token
    app.gateways.join_token("edge-2")
    said = Registration(join_token=joined, name="edge-1", instance_id="i")
    app.gateways.joining.register(said)
    found = app.environment.store.write(lambda tx: tx.claim_gateways(now=NEVER, until=NEVER, limit=1))
    health = SyncResult("healthy", "[]", "1", "d", "[]", "[]")
    crons = [GatewayCron.model_validate(cron())]
    app.environment.store.write(lambda tx: tx.note_sync(found[0], health, crons, now=Instant(0)))
    app.tenants.set("acme", running=2)
    app.pools.set("mail", running=2)
    work_off(app, 2)
    app.workflows.signal(run_id, "unheard", "hello")
    dead = Worker(WorkerId("worker_0"), Instant(0), Instant(0), "host", 1)
    app.environment.store.write(lambda transaction: transaction.register_worker(dead))
    app.environment.store.write(write_scripts)
    app.close()
    return run_id


def write_scripts(transaction: Transaction) -> None:
    """A row in each table of scripts."""
    tenant, at = TenantId("acme"), Instant(0)
    transaction.save_script(ScriptRow(tenant, "s", "python", "1", None, "", 1, 1, at, at))
    transaction.add_script_version(ScriptVersionRow(tenant, "s", 1, "python", "1", "digest", "{}", "", at))
    run = (JobId("job"), 1, tenant, "s", 1, None, 0, "ok", None, None, 1, at, 0, 5, 6, 7, "{}", 2, "full", "monty", 0)
    transaction.add_script_run(ScriptRunRow(*run))
    transaction.save_script_plan(tenant, "{}")
    transaction.put_script_value("k", "1", tenant=tenant, now=at)


def content(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table but `meta`, truth values as numbers."""
    with closing(open_settled(url)) as store:
        place = store.place
    held = locked_file(url, place) if url.startswith("sqlite") else locked_database(url, place)
    with held as side:
        tables = [name for name in sorted(own_tables() - {"meta", "job_count_changes"}) if side.columns(name)]
        return {name: sorted(map(as_numbers, side.rows(name, sorted(side.columns(name)))), key=repr) for name in tables}


def as_numbers(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(int(value) if isinstance(value, bool) else value for value in row)


@pytest.fixture
def source(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.mark.postgres
def test_there_and_back_nothing_is_lost_or_changed(source: str, tmp_path: Path, postgres_url: str) -> None:
    filled(source)
    before = content(source)
    assert {name for name, rows in before.items() if not rows} <= {
        "saved_views", "workflow_types", "bodies", "open_occurrences", "run_reports", "activity", "pool_activity",
        "tenant_limits", "audit_log", "gateway_requests",
    }  # fmt: skip

    counts = copy_tables(source, postgres_url)
    assert counts == {name: len(rows) for name, rows in before.items() if rows}
    assert content(postgres_url) == before
    other = f"{postgres_url}?schema=elsewhere"
    copy_tables(postgres_url, other)
    copy_tables(other, f"sqlite:///{tmp_path}/back.db")

    assert content(f"sqlite:///{tmp_path}/back.db") == before
    assert content(source) == before


@pytest.mark.long
@pytest.mark.postgres
def test_the_copy_goes_on_where_the_original_stood(source: str, postgres_url: str) -> None:
    run_id = filled(source)
    copy_tables(source, postgres_url)

    app = shop(postgres_url)
    counts = app.jobs.counts_by_function()
    assert app.call("authors") == ["Lem", "Lem"]
    later, _ = app.jobs.list(function="count", state="pending").jobs
    app.jobs.run_now(later.id)
    app.workflows.signal(run_id, "go", "on")  # its row gets an id after those that were copied
    app.schedules.trigger("hourly")
    work_off(app, 2)

    assert app.jobs.get(later.id).result == 7
    assert app.workflows.result(run_id, timeout=0) == "1 on"
    assert app.schedules.get("hourly").note == "tea"
    assert len(app.tenant("acme").jobs.list(state="pending").jobs) == 1
    app.close()

    copy_tables(postgres_url, back := source.replace("shop.db", "back.db"))  # what was counted since then goes along
    app = shop(back)
    after = app.jobs.counts_by_function()
    assert after != counts
    assert after["count"]["success"] == len(app.jobs.list(function="count", state="success").jobs)
    app.close()


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.parametrize("turn", [1, -1], ids=["from a file", "to a file"])
def test_a_database_with_rows_is_left_alone(turn: int, source: str, postgres_url: str) -> None:
    one, other = (source, postgres_url)[::turn]
    filled(other)
    filled(one)
    before = content(other)

    with pytest.raises(Misuse, match="already; copy into a database without any"):
        copy_tables(one, other)

    assert content(other) == before


@pytest.mark.postgres
@pytest.mark.parametrize("turn", [1, -1], ids=["from a file", "to a file"])
def test_a_worker_on_the_source_is_refused(turn: int, source: str, postgres_url: str) -> None:
    one, other = (source, postgres_url)[::turn]
    filled(one)
    with closing(open_settled(one)) as store:
        worker = Worker(WorkerId("worker_1"), Instant(0), Instant(9_999_999_999_999), "host", 1)
        store.write(lambda transaction: transaction.register_worker(worker))
        store.lock_engine()

        named = rf"\(process {os.getpid()}\)" if one == source else r"worker_1 \(process 1 of host\); stop them"
        with pytest.raises(DatabaseLocked, match=rf"runs? on .*{named}"):
            copy_tables(one, other)

    assert not any(content(other).values())


def test_a_source_of_another_version_is_refused(source: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path_of(source) or "")) as empty:
        empty.execute("create table orders (id integer)")

    with pytest.raises(SchemaMismatch):
        copy_tables(source, f"sqlite:///{tmp_path}/other.db")


@pytest.mark.postgres
def test_a_table_in_use_is_waited_for_and_told(source: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "LOCK_WAIT_S", 0.1)
    filled(postgres_url)

    with psycopg.connect(postgres_url) as connection:
        connection.execute("update evertick.jobs set key = key")
        with pytest.raises(DatabaseLocked, match="nothing was copied"):
            copy_tables(postgres_url, source)


@pytest.mark.postgres
def test_a_copy_that_fails_leaves_nothing(source: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(source)
    monkeypatch.setattr(copying.PostgresSide, "commit", lambda _: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        copy_tables(source, postgres_url)

    assert not any(content(postgres_url).values())


@pytest.mark.postgres
def test_both_kinds_have_the_same_tables_and_columns(source: str, postgres_url: str) -> None:
    for url in (source, postgres_url):
        with closing(open_settled(url)) as store:
            store.migrate()
    with locked_file(source, "evertick_") as file, locked_database(postgres_url, "evertick") as database:
        for table in own_tables() - {"job_count_changes"}:
            assert sorted(file.columns(table)) == sorted(database.columns(table)), table


@pytest.mark.postgres
def test_the_command_says_what_it_copied(source: str, postgres_url: str, tmp_path: Path) -> None:
    filled(source)

    done = evertick(tmp_path, "copy", postgres_url, "--db", source)

    assert done.code == 0, done.err
    assert re.search(r"^schedules\t1 rows$", done.out, re.MULTILINE)
    assert "rows copied; from now on use EVERTICK_DATABASE_URL=postgresql://" in done.err
    assert (urlsplit(postgres_url).password or "no password") not in done.err
    again = evertick(tmp_path, "copy", postgres_url, "--db", source)
    assert (again.code, "already; copy into a database without any" in again.err) == (2, True)
    itself = evertick(tmp_path, "copy", source, "--db", source)
    assert (itself.code, "is the database itself" in itself.err) == (2, True)


def test_the_command_names_the_address_and_the_worker_in_the_way(source: str, tmp_path: Path) -> None:
    filled(source)
    other = f"sqlite:///{tmp_path}/my shop.db"

    with closing(open_settled(source)) as store:
        store.lock_engine()
        refused = evertick(tmp_path, "copy", other, "--db", source)
    done = evertick(tmp_path, "copy", other, "--db", source)

    assert (refused.code, f"(process {os.getpid()}); stop it first" in refused.err) == (7, True)
    assert f"from now on use EVERTICK_DATABASE_URL='{other}'\n" in done.err
