"""A real pgbouncer in transaction mode before a server.

It is a package of the system: as root, where apt is, it is installed; otherwise tests that want it are skipped.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.postgres import START_SECONDS, free_port
from tests.postgres_programs import PostgresFailure, account_arguments, unprivileged_account

WHERE: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))


def program() -> str:
    """Where pgbouncer is. Skips the test if it cannot be had."""
    if shutil.which("pgbouncer", path=WHERE) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "pgbouncer"]):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    found = shutil.which("pgbouncer", path=WHERE)
    if found is None:
        pytest.skip("pgbouncer is not installed, and this user cannot install it: apt-get install pgbouncer")
    return found


class Pgbouncer:
    """A pooler before the server of an address."""

    def __init__(self, url: str, *, pool_size: int = 10, ignores_options: bool = False, mode: str = "transaction"):
        """`ignores_options` is what users often write: it then drops the settings of sessions without a word."""
        self.port = 0
        self._server = urlsplit(url)
        self._pool_size = pool_size
        self._ignored = "extra_float_digits, options" if ignores_options else "extra_float_digits"
        self._mode = mode
        self._folder = Path(tempfile.mkdtemp(prefix="evertick-pgbouncer-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.port = free_port()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, **parameters: str) -> str:
        """The same database through the pooler."""
        more = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://any@127.0.0.1:{self.port}{self._server.path}" + (f"?{more}" if more else "")

    @property
    def listen(self) -> str:
        """HOST:PORT of the server itself."""
        return f"{self._server.hostname}:{self._server.port}"

    def start(self) -> None:
        """Start it; returns when it accepts connections."""
        server = self._server
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(f"""
[databases]
* = host={server.hostname} port={server.port} user={server.username} password={server.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {self._mode}
default_pool_size = {self._pool_size}
max_client_conn = 500
ignore_startup_parameters = {self._ignored}
server_login_retry = 0
""")
        account = unprivileged_account()
        if account is not None:
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program(), str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **account_arguments(),
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    said = (self._folder / "log").read_text()
                    raise PostgresFailure(f"pgbouncer did not start ({error}); its log:\n{said}") from error
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, as a crash would do."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
