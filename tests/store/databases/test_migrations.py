"""Migrations: from nothing, from earlier, twice, at once; and what is refused."""

import json
import subprocess
import sys

import pytest

from evertick.base.errors import SchemaMismatch
from evertick.store import schema
from evertick.store.open import open_store
from evertick.store.store import Store
from tests.store.rows import find, insert, new_job

MIGRATE = """
import json, sys
from evertick.store.open import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(store.migrate()), flush=True)
store.check_schema()
store.close()
"""

BEGUN = "create table begun (a integer);"


@pytest.fixture
def bare_store(bare_url: str):  # type: ignore[no-untyped-def]
    """A store without a schema."""
    store = open_store(bare_url)
    yield store
    store.close()


def set_version(store: Store, version: int) -> None:
    """Make the database say it is at `version`."""
    if store.dialect == "sqlite":
        store.write(lambda tx: tx.connection.execute(f"pragma user_version = {version}"))
    else:
        store.write(lambda tx: tx.connection.execute("update meta set value = %s", (str(version),)))


def extended(dialect: str, *texts: str) -> tuple[schema.Step, ...]:
    """This code's steps, and more after them."""
    known = schema.steps(dialect)
    more = (schema.Step(len(known) + n, f"{len(known) + n:04}_more", text) for n, text in enumerate(texts, 1))
    return (*known, *more)


def test_the_steps_are_numbered_without_gaps_and_alike_in_both_dialects() -> None:
    names = [[step.name for step in schema.steps(dialect)] for dialect in ("sqlite", "postgres")]

    assert names[0] == names[1]
    assert [step.number for step in schema.steps("sqlite")] == list(range(1, len(names[0]) + 1))


def test_a_new_database_gets_every_step_and_a_second_call_does_nothing(bare_store: Store) -> None:
    names = [step.name for step in schema.steps(bare_store.dialect)]

    assert bare_store.migrate() == names
    bare_store.check_schema()
    insert(bare_store, new_job())
    assert bare_store.migrate() == []
    assert find(bare_store) is not None


def test_a_database_without_a_schema_is_refused_with_its_cure(bare_store: Store) -> None:
    with pytest.raises(SchemaMismatch, match=r"has no schema of evertick yet; run `evertick migrate"):
        bare_store.check_schema()


def test_work_on_a_database_without_a_schema_is_told_its_cure(bare_store: Store) -> None:
    with pytest.raises(SchemaMismatch, match="run `evertick migrate`"):
        insert(bare_store, new_job())
    with pytest.raises(SchemaMismatch, match="run `evertick migrate`"):
        find(bare_store)


def test_a_database_of_a_newer_release_is_refused_and_left_alone(bare_store: Store) -> None:
    bare_store.migrate()
    set_version(bare_store, 99)

    for call in (bare_store.check_schema, bare_store.migrate):
        with pytest.raises(SchemaMismatch, match=r"version 99, .*knows versions up to \d+; .*upgrade"):
            call()


def test_an_older_database_is_refused_until_it_is_migrated(bare_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_store.migrate()
    insert(bare_store, new_job())
    more = extended(bare_store.dialect, "create table added (a integer);\ninsert into added values (1);")
    monkeypatch.setattr(schema, "steps", lambda _: more)

    with pytest.raises(SchemaMismatch, match=rf"needs version {len(more)}; run `evertick migrate"):
        bare_store.check_schema()
    assert bare_store.migrate() == [more[-1].name]
    bare_store.check_schema()
    assert bare_store.read(lambda tx: tx.connection.execute("select a from added").fetchall()) == [(1,)]
    assert find(bare_store) is not None


def test_a_step_that_fails_leaves_nothing_of_itself(bare_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_store.migrate()
    done, broken, mended = "create table done (a integer);", f"{BEGUN}\ninsert into no_such_table values (1);", BEGUN
    first, second = (extended(bare_store.dialect, done, text) for text in (broken, mended))
    monkeypatch.setattr(schema, "steps", lambda _: first)

    with pytest.raises(Exception, match="no_such_table"):
        bare_store.migrate()

    monkeypatch.setattr(schema, "steps", lambda _: second[:-1])
    bare_store.check_schema()
    assert bare_store.migrate() == [], "the step before it has been done"
    monkeypatch.setattr(schema, "steps", lambda _: second)
    assert bare_store.migrate() == [second[-1].name]


def test_a_new_database_gets_all_steps_or_none(bare_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are one transaction, so a program that is killed in its first second leaves the database as it was."""
    broken = extended(bare_store.dialect, f"{BEGUN}\ninsert into no_such_table values (1);")
    monkeypatch.setattr(schema, "steps", lambda _: broken)

    with pytest.raises(SchemaMismatch, match="no_such_table"):
        bare_store.migrate()

    tables = {
        "sqlite": "select name from sqlite_master",
        "postgres": "select tablename from pg_tables where schemaname = current_schema()",
    }[bare_store.dialect]
    assert bare_store.read(lambda tx: tx.connection.execute(tables).fetchall()) == []
    monkeypatch.undo()
    assert bare_store.migrate() == [step.name for step in schema.steps(bare_store.dialect)]
    bare_store.check_schema()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("kind", ["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_processes_that_migrate_at_once_do_it_once(kind: str, request: pytest.FixtureRequest, tmp_path) -> None:  # type: ignore[no-untyped-def]
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/evertick.db"
    started = [
        subprocess.Popen([sys.executable, "-c", MIGRATE, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    done = [json.loads(process.communicate(timeout=60)[0]) for process in started]

    assert [process.returncode for process in started] == [0, 0, 0]
    names = [step.name for step in schema.steps("postgres")]
    assert sorted(name for part in done for name in part) == names


def test_the_cure_is_a_command_that_can_be_run() -> None:
    """A masked password in it could not be."""
    none = schema.SchemaState(0, 0)

    with pytest.raises(SchemaMismatch, match=r"run `evertick migrate --db postgresql://ann@db/shop`$"):
        schema.require_usable("postgres", none, place="shop", url="postgresql://ann@db/shop")
    with pytest.raises(SchemaMismatch, match=r"run `evertick migrate`, with .* as postgresql://ann:\*\*\*@db/shop and"):
        schema.require_usable("postgres", none, place="shop", url="postgresql://ann:s3cret@db/shop")
