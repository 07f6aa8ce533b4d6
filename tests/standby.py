"""A PostgreSQL server with a streaming standby, for failovers.

with PostgresServer(settings=REPLICATED) as primary, Standby(primary) as standby:
    wait_for_copies(primary)        # from now on a commit is confirmed when the standby has it
    primary.kill()
    standby.promote()
"""

import time
from pathlib import Path
from typing import Final

import psycopg

from tests.postgres import START_SECONDS, PostgresServer
from tests.postgres_programs import PostgresFailure, run_unprivileged

REPLICATED: Final = {"max_wal_senders": "5", "wal_keep_size": "256MB", "wal_level": "replica"}
"""Settings of a server that has a standby, or is one."""


class Standby(PostgresServer):
    """A copy of a server that runs, which follows it until it is promoted."""

    def __init__(self, primary: PostgresServer, *, fsync: bool = False) -> None:
        super().__init__(fsync=fsync, settings=REPLICATED)
        self._primary = primary
        self._password = primary._password

    def promote(self) -> None:
        """Become a primary; returns when it accepts writes."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            assert connection.execute("select pg_promote(true, 60)").fetchone() == (True,)

    def _make_cluster(self, programs: Path) -> None:
        done = run_unprivileged(
            [
                str(programs / "pg_basebackup"),
                f"--dbname={self._primary.url()}",
                f"--pgdata={self.data_directory}",
                "--checkpoint=fast",
                "--no-sync",
                "--write-recovery-conf",
            ],
            directory=self.directory,
        )
        if done.returncode:
            raise PostgresFailure(f"pg_basebackup failed in {self.directory}:\n{done.stdout}{done.stderr}")
        with (self.data_directory / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")  # as a primary it has no standby yet


def wait_for_copies(primary: PostgresServer) -> None:
    """Let commits of a server wait for its standby; returns when that follows."""
    deadline = time.monotonic() + START_SECONDS
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        connection.execute("alter system set synchronous_standby_names = '*'")
        connection.execute("select pg_reload_conf()")
        while not connection.execute("select 1 from pg_stat_replication where sync_state = 'sync'").fetchall():
            if time.monotonic() > deadline:
                raise PostgresFailure(f"no standby follows; the log:\n{primary.log_text()}")
            time.sleep(0.02)
        connection.execute("checkpoint")  # by the process that tells the others of the standby, and has now read it


def url_of_both(one: PostgresServer, other: PostgresServer, database: str) -> str:
    """The address of a database that names two servers, of which the driver takes the primary."""
    return one.url(database).replace(f":{one.port}/", f":{one.port},127.0.0.1:{other.port}/")
