"""SQLite files that are not Evertick's, or not to be written: what is refused, and that nothing is changed."""

import os
import pwd
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from evertick.base.errors import InvalidDatabaseUrl, SchemaMismatch, StorageFailed
from evertick.store.open import open_settled, open_store
from evertick.store.schema import steps
from evertick.store.sqlite import connecting
from evertick.store.store import Store
from tests.cli.desk import commands
from tests.store.rows import find, insert, new_job


def asked(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


@pytest.fixture(params=[-3, 1, 5, 8, 999])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file of a program that keeps a number of its own in `user_version`."""
    path = tmp_path / "notes.db"
    asked(path, "create table notes (text)")
    asked(path, f"pragma user_version = {request.param}")
    return path


def test_beside_another_program_evertick_has_its_prefix(foreign: Path) -> None:
    version = asked(foreign, "pragma user_version")

    with closing(open_settled(f"sqlite:///{foreign}")) as store:
        assert len(store.migrate()) == len(steps("sqlite"))
        insert(store, new_job())
    with closing(open_store(f"sqlite:///{foreign}?prefix=evertick_")) as named:
        named.check_schema()
        assert find(named) is not None

    assert asked(foreign, "pragma user_version") == version
    assert asked(foreign, "select count(*) from notes") == [(0,)]


def test_a_command_that_is_refused_leaves_the_journal_as_it_was(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = commands(capsys)("job", "list", "--db", f"sqlite:///{foreign}")

    assert (done.code != 0, done.out) == (True, "")
    assert "has no schema of evertick yet" in done.err
    assert asked(foreign, "pragma journal_mode") == [("delete",)]


def test_a_file_with_other_tables_and_no_number_may_become_evertick_s(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    asked(path, "create table orders (item)")

    with closing(open_store(f"sqlite:///{path}")) as store:
        with pytest.raises(SchemaMismatch, match="no schema of evertick yet"):
            store.check_schema()
        assert asked(path, "pragma journal_mode") == [("delete",)]
        store.migrate()
        store.check_schema()

    assert asked(path, "pragma journal_mode") == [("wal",)]


def test_a_schema_from_before_the_table_meta_is_evertick_s(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(steps("sqlite")[0].text)
        connection.execute("pragma user_version = 1")

    with closing(open_store(f"sqlite:///{path}")) as store:
        assert store.migrate() == [step.name for step in steps("sqlite")[1:]]
        store.check_schema()


@pytest.mark.parametrize("query", ["prefx=evertick_", "mode=ro&prefix=evertick_", "prefix=evertick_&mode=ro", ""])
def test_a_query_that_is_no_prefix_is_refused_and_creates_no_file(tmp_path: Path, query: str) -> None:
    suggestion = rf"example sqlite:///{tmp_path}/shop\.db\?prefix=evertick_"

    with pytest.raises(InvalidDatabaseUrl, match=suggestion):
        open_store(f"sqlite:///{tmp_path}/shop.db?{query}")

    assert list(tmp_path.iterdir()) == []


# -- files that cannot be written


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may look into; those of pytest are private."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextmanager
def reading_only(folder: Path) -> Iterator[None]:
    """No file of the folder, nor the folder, can be written by this process."""
    files = {each: each.stat().st_mode for each in (folder, *folder.iterdir())}
    for each in files:
        each.chmod(0o555 if each == folder else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(user)
        for each, mode in files.items():
            each.chmod(mode)


def migrated(path: Path, count: int = 1) -> Store:
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    for number in range(count):
        insert(store, new_job(number + 1))
    return store


def test_what_only_reads_needs_no_right_to_write(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, command = folder / "shop.db", commands(capsys)
    migrated(path).close()
    (folder / "app.py").write_text("from evertick import App\napp = App('shop')\n")
    questions = [
        (*words, "--db", f"sqlite:///{path}", "-o", "json")
        for words in (("job", "list"), ("schedule", "list"), ("status",), ("doctor", str(folder / "app.py")))
    ]

    wanted = [command(*each) for each in questions]
    with reading_only(folder):
        found = [command(*each) for each in questions]

    assert [each.code for each in found] == [each.code for each in wanted]
    assert [len(each.json) for each in found] == [len(each.json) for each in wanted]
    assert len(found[0].json) == 1


def test_a_user_who_may_only_read_makes_a_backup(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "shop.db"
    migrated(path).close()

    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        copy = Path(name) / "copy.db"
        with reading_only(folder):
            done = commands(capsys)("backup", str(copy), "--db", f"sqlite:///{path}")

        assert (done.code, done.err) == (0, "")
        assert asked(copy, "select count(*) from jobs") == [(1,)]


def test_a_backup_of_a_file_that_is_written_meanwhile_without_the_files_beside_it_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "shop.db"
    migrated(path).close()

    def backup(self: sqlite3.Connection, target: sqlite3.Connection, **options: Any) -> None:
        sqlite3.Connection.backup(self, target, **options)
        asked(path, "delete from jobs")

    monkeypatch.setattr(connecting, "_opened", connecting._frozen)  # as for a user who may only read
    monkeypatch.setattr(connecting.Connection, "backup", backup, raising=False)
    done = commands(capsys)("backup", str(folder / "copy.db"), "--db", f"sqlite:///{path}")

    assert (done.code, (folder / "copy.db").exists()) == (7, False)
    assert "was written by another program while it was copied" in done.err


def test_a_writer_s_changes_are_read_by_one_who_cannot_write(folder: Path) -> None:
    path = folder / "shop.db"
    writer = migrated(path)

    with reading_only(folder), closing(open_store(f"sqlite:///{path}")) as reader:
        assert find(reader) is not None

    writer.close()


def test_a_file_that_is_frozen_is_looked_at_anew(folder: Path) -> None:
    path = folder / "shop.db"
    migrated(path, 0).close()
    with reading_only(folder):
        reader = open_store(f"sqlite:///{path}")
        assert find(reader) is None
    migrated(path, 1).close()

    with reading_only(folder):
        assert find(reader) is not None
        reader.close()


def test_writing_says_which_right_is_missing(folder: Path) -> None:
    path = folder / "shop.db"
    migrated(path).close()

    with (
        reading_only(folder),
        closing(open_store(f"sqlite:///{path}")) as store,
        pytest.raises(StorageFailed, match=rf"{path} cannot be written .*the right to write the file and its folder"),
    ):
        insert(store, new_job(9))


def test_changes_that_cannot_be_read_without_writing_are_said_to_be_there(folder: Path) -> None:
    """A crash has left the log of the last changes, and a copy has left out the file that says what is in it."""
    path, copy = folder / "shop.db", folder / "copy.db"
    store = migrated(path)
    for ending in ("", "-wal"):
        (folder / f"copy.db{ending}").write_bytes((folder / f"shop.db{ending}").read_bytes())
    store.close()

    with reading_only(folder), pytest.raises(StorageFailed, match=r"the last changes are in copy\.db-wal, .*right to"):
        open_store(f"sqlite:///{copy}")


@pytest.mark.parametrize("count", [0, 1])
def test_canceling_in_a_file_that_cannot_be_written_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    path = folder / "shop.db"
    migrated(path, count).close()

    with reading_only(folder):
        done = commands(capsys)("job", "cancel-all", "--yes", "--db", f"sqlite:///{path}")

    assert done.code == 7
    assert "cannot be written" in done.err
