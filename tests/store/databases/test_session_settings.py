"""On PostgreSQL: settings that the code relies on do not depend on the address, the environment, role or database."""

import psycopg
import pytest

from evertick import App, MutationCtx
from tests.app.engine import Engine

pytestmark = pytest.mark.postgres
TEXT = "\N{SNOWMAN}"
OF_THE_DATABASE = {
    "client_encoding": "LATIN1",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "5ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "5ms",
    "client_min_messages": "error",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "jit_above_cost": "0",
}


def works(url: str) -> None:
    """A worker runs jobs whose arguments, keys, results and errors hold a character that few encodings have."""
    app = App("encoded", database_url=url)

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx, text: str, *, fails: bool = False) -> str:
        ctx.db.insert("texts", {"text": text})
        if fails:
            raise ValueError(text)
        return text

    try:
        app.migrate()
        ids = [app.scheduler.using(key=f"{TEXT}{fails}").run_after(0, keep, TEXT, fails=fails) for fails in (0, 1)]
        with Engine(app) as engine:
            kept, failed = (engine.wait(job_id) for job_id in ids)
        assert kept.result == TEXT
        assert TEXT in str(failed.error)
    finally:
        app.close()


def test_settings_of_the_database_do_not_count(postgres_url: str) -> None:
    """Real once: with LATIN1 one such job ended the workers of all tenants, again after each restart."""
    database = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        for name, value in OF_THE_DATABASE.items():
            admin.execute(f"alter database {database} set {name} = '{value}'".encode())
    works(postgres_url)


def test_the_encoding_of_the_environment_does_not_count(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    works(postgres_url)


def test_the_encoding_of_the_address_does_not_count(postgres_url: str) -> None:
    options = (
        "-c client_encoding=LATIN1 -c standard_conforming_strings=off -c default_transaction_isolation=serializable"
    )
    works(f"{postgres_url}?client_encoding=LATIN1&options={options.replace(' ', '%20').replace('=', '%3D')}")
