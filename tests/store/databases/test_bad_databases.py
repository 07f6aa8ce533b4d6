"""Databases that cannot be used: each says what is wrong, where, and what to do."""

import re
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from evertick.base.errors import DatabaseUnavailable, InvalidDatabaseUrl, SchemaMismatch, StorageFailed
from evertick.store import schema
from evertick.store.open import open_store
from evertick.store.postgres.address import PostgresAddress
from evertick.store.postgres.connections import refusal, shown, tables_in
from tests.cli.desk import commands
from tests.store.rows import ANN

OTHERS = "create table jobs (title text)"


def refused(url: str, error: type[Exception], words: str) -> None:
    """Neither looked into nor migrated."""
    for use in ("check_schema", "migrate"):
        with pytest.raises(error, match=words):
            store = open_store(url)
            try:
                getattr(store, use)()
            finally:
                store.close()


def migrated(url: str) -> None:
    """Make the schema."""
    store = open_store(url)
    store.migrate()
    store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A SQLite file with the schema."""
    path = tmp_path / "evertick.db"
    migrated(f"sqlite:///{path}")
    return path


def test_a_file_of_a_newer_release_asks_for_an_upgrade(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma user_version = 999")

    refused(f"sqlite:///{file}", SchemaMismatch, rf"the schema of {file} is version 999, .*upgrade this installation")


@pytest.mark.postgres
def test_a_postgresql_of_a_newer_release_asks_for_an_upgrade(postgres_url: str) -> None:
    migrated(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("update meta set value = '999' where key = 'schema_version'")

    refused(postgres_url, SchemaMismatch, r"the schema of postgresql://.*:\*\*\*@.* is version 999, .*upgrade")


def test_an_empty_database_and_an_older_one_say_what_to_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*schema.steps("sqlite"), schema.Step(2, "0002_more", "create table more (a integer);"))
    monkeypatch.setattr(schema, "steps", lambda _: more)
    empty, older = (open_store(f"sqlite:///{path}") for path in (tmp_path / "empty.db", file))

    with pytest.raises(
        SchemaMismatch, match=r"empty\.db has no schema .* yet; run `evertick migrate --db sqlite:.*empty\.db`"
    ):
        empty.check_schema()
    with pytest.raises(SchemaMismatch, match=rf"{file} is version 1, this .* needs .*; run `evertick migrate --db .*`"):
        older.check_schema()
    empty.close()
    older.close()


def test_a_file_with_tables_of_somebody_elses_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(OTHERS)
    store = open_store(f"sqlite:///{path}")

    with pytest.raises(
        SchemaMismatch, match=rf"{path} holds tables that evertick did not make .*database or schema of"
    ):
        store.migrate()

    assert store.write(lambda tx: tx.connection.execute("select name from sqlite_master").fetchall()) == [("jobs",)]
    store.close()


@pytest.mark.postgres
def test_a_postgresql_with_tables_of_somebody_elses_is_left_as_it_is(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(OTHERS)
    store = open_store(postgres_url)

    with pytest.raises(SchemaMismatch, match=r"holds tables that evertick did not make .*its own"):
        store.migrate()

    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    assert rows == [("jobs",)]
    store.close()


def test_a_damaged_file_says_so_wherever_it_is_met(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        page = connection.execute("select rootpage from sqlite_master where name = 'workers'").fetchone()[0]
    content = bytearray(file.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xee" * 4096
    file.write_bytes(content)
    store = open_store(f"sqlite:///{file}")

    with pytest.raises(StorageFailed, match=rf"{file} is no SQLite database, or is damaged .*restore a copy"):
        store.read(lambda tx: tx.list_workers())
    with pytest.raises(StorageFailed, match=rf"{file} is no SQLite database, or is damaged .*restore a copy"):
        store.write(lambda tx: tx.remove_worker(ANN))
    store.close()


@pytest.mark.postgres
def test_a_wrong_password_is_not_taken_for_a_server_that_is_away(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    assert parts.password is not None
    wrong = postgres_url.replace(parts.password, "not-it")

    refused(wrong, DatabaseUnavailable, rf"PostgreSQL at {re.escape(shown(wrong))} does not let .*check user and")
    assert "not-it" not in shown(wrong)


@pytest.mark.postgres
def test_a_database_that_is_not_there_is_named(postgres_url: str) -> None:
    missing = postgres_url.rpartition("/")[0] + "/not_here"

    refused(missing, DatabaseUnavailable, r"has no such database: .*\"not_here\" does not exist; create it")


@pytest.mark.postgres
def test_a_user_that_is_not_there_is_not_taken_for_a_server_that_is_away(postgres_url: str) -> None:
    missing = postgres_url.replace(f"//{urlsplit(postgres_url).username}", "//not_here", 1)

    refused(missing, DatabaseUnavailable, r"(does not let this user in|has no such user): .*(create it|check user)")
    assert refusal("here", 'FATAL:  role "not_here" does not exist').startswith("PostgreSQL at here has no such user")


@pytest.mark.postgres
def test_a_user_without_rights_is_told_which_he_needs(postgres_url: str) -> None:
    migrated(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("drop role if exists evertick_weak")
        connection.execute("create role evertick_weak login password 'weak'")
    parts = urlsplit(postgres_url)
    weak = postgres_url.replace(f"{parts.username}:{parts.password}@", "evertick_weak:weak@")

    refused(weak, DatabaseUnavailable, r"does not allow it: permission denied .*needs the right")


def without_rights(postgres_url: str) -> tuple[str, str]:
    """A role that may use no schema of Evertick's, and its address."""
    role = f"evertick_{secrets.token_hex(4)}"
    parts = urlsplit(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"create role {role} login password 'weak'".encode())
        connection.execute(
            f'alter role {role} in database "{parts.path[1:]}" set search_path = evertick, public'.encode()
        )
    return role, postgres_url.replace(f"{parts.username}:{parts.password}@", f"{role}:weak@")


@pytest.mark.postgres
@pytest.mark.parametrize("place", ["", "?schema=evertick"])
def test_a_role_that_may_not_use_the_schema_is_told_so(postgres_url: str, place: str) -> None:
    migrated(f"{postgres_url}?schema=evertick")
    role, weak = without_rights(postgres_url)

    with (
        closing(open_store(weak + place)) as store,
        pytest.raises(
            DatabaseUnavailable, match=rf'right to use the schema evertick; .*: grant usage on schema .* to "{role}"'
        ),
    ):
        store.check_schema()


@pytest.mark.postgres
@pytest.mark.parametrize("is_migrated", [True, False])
def test_a_role_that_may_not_migrate_is_told_which_right_it_needs(
    postgres_url: str, is_migrated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_migrated:
        migrated(f"{postgres_url}?schema=evertick")
    else:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("create schema if not exists evertick")
    role, weak = without_rights(postgres_url)

    done = commands(capsys)("migrate", "--db", weak)

    rights = "usage" if is_migrated else "usage, create"
    assert done.code == 7
    assert f'let its owner run: grant {rights} on schema "evertick" to "{role}"' in done.err


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_keep_every_text_is_refused(postgres_url: str, encoding: str) -> None:
    name = f"other_{secrets.token_hex(4)}"
    made = f"create database {name} encoding '{encoding}' template template0 locale 'C'"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(made)
        try:
            other = urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
            refused(other, SchemaMismatch, f"has the encoding {encoding}.*needs UTF8: create database")
        finally:
            connection.execute(f"drop database {name} (force)")


def test_nobody_listens_at_the_address() -> None:
    refused(
        "postgresql://u:secret@127.0.0.1:1/x", DatabaseUnavailable, r"cannot reach PostgreSQL at postgresql://u:\*\*\*"
    )


@pytest.mark.parametrize("password", ["pa#ss", "pa/s@x", "pa?s", "p:#?/s"])
def test_a_password_that_makes_the_address_none_is_not_shown(password: str) -> None:
    refused(
        f"postgresql://ann:{password}@127.0.0.1:1/x",
        InvalidDatabaseUrl,
        r"^postgresql://ann:\*\*\*@127.*write %23 for #",
    )


@pytest.mark.parametrize(
    "url",
    [
        "host=127.0.0.1 port=1 password=s3cRet",
        "password = 's3 cRet' host=x",
        "postgresql:/ann:s3cRet@h/x",
        "ann:s3cRet@h/x",
        "ann:s3:cRet@h/x",
        "sqlite://ann:s3cRet@h/x.db",
        "postgresql://ann:s3@cRet@127.0.0.1:1/x",
        "postgresql://ann:s3%cRet@127.0.0.1:1/x",
        "postgresql://ann:s3 cRet@127.0.0.1:1/x",
        "postgresql://ann:s3cRet@[::1/x",
    ],
)
def test_the_password_of_what_is_no_address_is_not_shown(url: str) -> None:
    with pytest.raises(InvalidDatabaseUrl) as caught:
        open_store(url)

    assert re.search("s3|cRet", str(caught.value)) is None
    assert "***" in str(caught.value)


def test_a_password_among_the_parameters_is_not_shown() -> None:
    url = "postgresql://127.0.0.1:1/x?password=s3cret&connect_timeout=1"

    refused(url, DatabaseUnavailable, r"at postgresql://127.0.0.1:1/x\?password=\*\*\*&connect_timeout=1")


@pytest.mark.postgres
def test_a_version_that_is_no_number_is_shown(postgres_url: str) -> None:
    migrated(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("update meta set value = 'seven' where key = 'schema_version'")

    refused(postgres_url, SchemaMismatch, "says that its schema is version 'seven', which is none")


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("update jobs set state = 'x'", ["jobs"]),
        ('insert into evertick."jobs" (id) select id from json_to_recordset(:rows) as r', ["evertick.jobs"]),
        ("select name from json_to_recordset(:rows) as r join jobs using (id)", ["jobs"]),
        ("select 1 from unnest (array[1])", []),
    ],
)
def test_the_tables_of_a_statement_are_no_functions(statement: str, tables: list[str]) -> None:
    assert tables_in(statement) == tables


def test_an_address_without_a_host_means_the_local_socket() -> None:
    assert PostgresAddress("postgresql:///shop").conninfo(pooled=False).startswith("postgresql:///shop?")
    assert PostgresAddress("postgresql://").conninfo(pooled=False).startswith("postgresql://?")


def test_parameters_of_an_address_are_read_as_the_driver_reads_them() -> None:
    url = "postgresql://h/d?password=a+b%2Bc%20d&sslrootcert=/etc/c++/ca.pem&sslcert="
    found = conninfo_to_dict(PostgresAddress(url).conninfo(pooled=False))
    given = conninfo_to_dict(url)
    assert given["password"] == "a+b+c d"
    assert {name: found[name] for name in given} == given
    assert found["options"].startswith("-c lock_timeout=10s -c ")


def test_an_address_then_the_environment_sets_the_time_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    assert "connect_timeout=5&" in PostgresAddress("postgresql://h/d").conninfo(pooled=False)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "60")
    assert "connect_timeout=60&" in PostgresAddress("postgresql://h/d").conninfo(pooled=False)
    assert "connect_timeout=2&" in PostgresAddress("postgresql://h/d?connect_timeout=2").conninfo(pooled=False)


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:", "nonsense", "mysql://x"])
def test_what_is_no_address_is_answered_with_examples(url: str) -> None:
    with pytest.raises(InvalidDatabaseUrl, match="write sqlite:///FILE"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("postgresql://ada@db:5432/shop", "postgresql://ada@db:5432/shop"),
        ("postgresql://ada:secret@db:5432/shop", "postgresql://ada:***@db:5432/shop"),
        ("postgresql:ada:se/cr@t@db/shop", "postgresql:ada:***@db/shop"),
        ("mysql://ada@db", "mysql://ada@db"),
        ("ada:secret@db", "ada:***@db"),
        ("postgresql://db/shop?password=secret&sslmode=require", "postgresql://db/shop?password=***&sslmode=require"),
        ("postgresql://db/shop?sslpassword=secret&host=x", "postgresql://db/shop?sslpassword=***&host=x"),
        ("postgresql://db/shop?host=x&%73slpass%77ord=secret", "postgresql://db/shop?host=x&%73slpass%77ord=***"),
        ("postgresql://db/shop?p%61ssword=secret&%68ost=x", "postgresql://db/shop?p%61ssword=***&%68ost=x"),
        ("postgresql://db/?oauth_client%5Fsecret=secret", "postgresql://db/?oauth_client%5Fsecret=***"),
        ("postgresql://db/?scram_client_key=secret", "postgresql://db/?scram_client_key=***"),
        ("host=db SSLPASSWORD = 'a secret' dbname=shop", "host=db SSLPASSWORD =*** dbname=shop"),
        ("postgresql://db/shop?passfile=/run/pass&user=ada", "postgresql://db/shop?passfile=/run/pass&user=ada"),
    ],
)
def test_an_address_is_shown_with_its_user_and_without_its_password(url: str, printed: str) -> None:
    assert shown(url) == printed
