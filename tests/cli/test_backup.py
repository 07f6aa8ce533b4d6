"""`evertick backup`: a whole copy of one moment, whatever goes on meanwhile."""

import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evertick import App, MutationCtx
from evertick.app.functions.function import Mutation
from tests.cli.desk import Command

PAIR = 2


@pytest.fixture
def shop(command: Command) -> Iterator[tuple[App, Mutation[[int], None]]]:
    """An app whose mutation writes two documents at a time."""
    app = App("shop")

    @app.mutation(name="shop.pair")
    def pair(ctx: MutationCtx, n: int) -> None:
        for _ in range(PAIR):
            ctx.db.insert("pairs", {"n": n, "text": "x" * 2_000})

    app.open()
    yield app, pair
    app.close()


def rows_in(file: Path) -> int:
    """How many documents a copy has."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        [[count]] = connection.execute("select count(*) from evertick_documents")
        return int(count)


def test_a_copy_is_of_one_moment_while_others_write(
    shop: tuple[App, Mutation[[int], None]], command: Command, tmp_path: Path
) -> None:
    app, pair = shop
    for n in range(50):
        app.call(pair, n)
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            app.call(pair, n)
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [command("backup", str(tmp_path / f"copy{n}.db"), "-o", "json") for n in range(5)]
    finally:
        stop.set()
        writer.join()

    counts = [rows_in(tmp_path / f"copy{n}.db") for n in range(5)]
    assert [each.code for each in found] == [0] * 5
    assert all(count % PAIR == 0 for count in counts)
    assert counts == sorted(counts) and counts[0] >= 50 * PAIR
    assert found[0].json["bytes"] == (tmp_path / "copy0.db").stat().st_size
    assert sorted(each.name for each in tmp_path.glob("*copy*")) == [f"copy{n}.db" for n in range(5)]


def test_a_copy_is_readable_by_its_owner_alone_and_can_be_used(
    shop: tuple[App, Mutation[[int], None]], command: Command, tmp_path: Path
) -> None:
    app, pair = shop
    job_id = app.scheduler.run_after(60, pair, 1)
    copy = tmp_path / "copy.db"
    assert command("backup", str(copy)).code == 0

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    listed = command("job", "list", "--db", f"sqlite:///{copy}", "-o", "json").json
    assert [each["id"] for each in listed] == [job_id]


def test_a_file_that_is_there_is_replaced_only_if_that_is_asked_for(
    shop: tuple[App, Mutation[[int], None]], command: Command, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("mine")

    refused = command("backup", str(copy))
    assert (refused.code, copy.read_text()) == (2, "mine")
    assert "--force" in refused.err
    assert command("backup", str(copy), "--force").code == 0
    assert rows_in(copy) == 0


def test_what_cannot_be_copied_is_refused(
    shop: tuple[App, Mutation[[int], None]], command: Command, tmp_path: Path
) -> None:
    itself = command("backup", ".evertick/shop.db", "--force")
    assert (itself.code, "the database itself" in itself.err) == (2, True)
    postgres = command("backup", str(tmp_path / "x"), "--db", "postgresql://me:secret@localhost/shop")
    assert (postgres.code, "pg_dump" in postgres.err, "secret" in postgres.err) == (2, True, False)
    nowhere = command("backup", str(tmp_path / "no" / "x"))
    assert (nowhere.code, "cannot write to" in nowhere.err) == (7, True)
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database at all" * 100)
    assert command("backup", str(tmp_path / "y"), "--db", f"sqlite:///{broken}").code == 7
    assert not (tmp_path / "y").exists()
    assert list(tmp_path.glob(".y.*")) == []


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", ".engine", ".waiting"])
@pytest.mark.parametrize("way", ["plain", "upper case", "relative", "symlink", "hard link"])
def test_no_file_of_the_database_is_replaced(
    shop: tuple[App, Mutation[[int], None]],
    command: Command,
    tmp_path: Path,
    suffix: str,
    way: str,
) -> None:
    app, pair = shop
    job_id = app.scheduler.run_after(60, pair, 1)
    source = Path(".evertick/shop.db").absolute()
    theirs = source.with_name(source.name + suffix)
    theirs.touch()
    before = theirs.stat().st_ino
    file = {"upper case": theirs.with_name(source.name + suffix.upper())}.get(way, theirs)
    if way == "relative":
        (source.parent / "folder").mkdir()
        file = Path(".evertick/folder/..") / theirs.name
    elif way.endswith("link"):
        file = tmp_path / "link"
        file.hardlink_to(theirs) if way == "hard link" else file.symlink_to(theirs)

    to = [["backup", "--force", str(file)], *([] if way.endswith("link") else [["copy", f"sqlite:///{file}"]])]
    for words in to:
        refused = command(*words, "--db", f"sqlite:///{source}")
        assert (refused.code, "belongs to the database" in refused.err) == (2, True), refused.err
    assert theirs.stat().st_ino == before
    assert app.jobs.get(job_id).id == job_id
