"""The peers' environments: which there are, what each needs, and how it is built.

Each peer has a virtual environment of its own under `.venv-peers/<name>`, built the first time it is wanted
and again when its line here changes. The versions are pinned, so that figures of different days speak of the
same code.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers.common import Database

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".venv-peers"
INSTALL_SECONDS: Final = 900


class NoEnvironment(RuntimeError):
    """A peer cannot be measured on this machine; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One peer: its name, what to install, the databases it is measured on, and the oldest Python it runs on.

    `requirements` is empty for evertick itself, which is measured in the environment that runs this program.
    """

    name: str
    requirements: tuple[str, ...]
    databases: tuple[Database, ...]
    python_min: tuple[int, int] = (3, 11)

    @property
    def module(self) -> str:
        """The module of this package that speaks for the peer."""
        return f"peer_{self.name}"


ENVIRONMENTS: Final = (
    Environment(name="evertick", requirements=(), databases=("sqlite", "postgres")),
    Environment(name="huey", requirements=("huey==3.5.4",), databases=("sqlite",)),
    Environment(name="unhinged", requirements=("unhinged==0.2.0",), databases=("sqlite",)),
    Environment(
        name="procrastinate",
        requirements=("procrastinate==3.10.0", "psycopg[binary,pool]>=3.2"),
        databases=("postgres",),
    ),
    Environment(name="pgqueuer", requirements=("pgqueuer[asyncpg]==1.6.0", "uvloop>=0.21"), databases=("postgres",)),
    Environment(
        name="oban",
        requirements=("oban==0.7.0", "psycopg[binary,pool]>=3.2", "uvloop>=0.21"),
        databases=("postgres",),
        python_min=(3, 12),
    ),
    Environment(name="dbos", requirements=("dbos==3.4.0", "psycopg[binary]>=3.2"), databases=("postgres", "sqlite")),
    Environment(name="absurd", requirements=("absurd-sdk==0.5.1", "absurdctl==0.5.1"), databases=("postgres",)),
    Environment(name="flexiq", requirements=("flexiq==2.1.0",), databases=("sqlite",)),
    Environment(name="apscheduler", requirements=("APScheduler==3.11.3", "sqlalchemy>=2.0"), databases=("sqlite",)),
)


def python_of(environment: Environment) -> Path:
    """The interpreter of the peer's environment, which is built if need be.

    Raises NoEnvironment if it cannot be: no Python that is new enough, or an installation that fails.
    """
    if not environment.requirements:
        if not (Path(__file__).parent / f"{environment.module}.py").exists():
            raise NoEnvironment(f"there is no benchmarks/peers/{environment.module}.py")
        return Path(sys.executable)
    folder = FOLDER / environment.name
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    base = base_python(environment.python_min)
    wanted = "\n".join((base, *environment.requirements))
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{environment.name}: building {folder.relative_to(ROOT)} ...", flush=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([base, "-m", "venv", str(folder)], [*pip, *environment.requirements, "psutil>=6.0"]):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode:
            raise NoEnvironment(f"installing failed: {' '.join(command)}\n{done.stdout}{done.stderr}".strip())
    stamp.write_text(wanted)
    return python


def base_python(oldest: tuple[int, int]) -> str:
    """A Python that is new enough: this one, or $PYTHON312, or one from PATH or pyenv."""
    if sys.version_info[:2] >= oldest:
        return sys.executable
    names = [f"python{oldest[0]}.{minor}" for minor in range(oldest[1], oldest[1] + 4)]
    candidates = [os.environ.get("PYTHON312", ""), *(shutil.which(name) or "" for name in names)]
    for minor in range(oldest[1], oldest[1] + 4):
        found = Path.home().glob(f".pyenv/versions/{oldest[0]}.{minor}.*/bin/python")
        candidates += [str(path) for path in sorted(found)]
    for candidate in filter(None, candidates):
        if answers(candidate, oldest):
            return candidate
    version = ".".join(map(str, oldest))
    raise NoEnvironment(f"needs Python {version} or newer, and there is none here; name one in $PYTHON312")


def answers(python: str, oldest: tuple[int, int]) -> bool:
    """Does this interpreter start, and is it new enough? (A shim of pyenv may be neither.)"""
    try:
        test = f"import sys; sys.exit(sys.version_info[:2] < {oldest!r})"
        return subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
