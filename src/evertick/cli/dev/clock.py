"""The simulated clock of `evertick dev --at TIME --speed N`: everything runs as if it were that time.

A simulation has a database of its own, so that no times that never were get among real data: it is new each time, in
`.evertick/<app>.simulated.db`, unless `--db` names another file. Its clock is stored in a file next to it, so commands
on that database agree with it (`evertick.app.database_clock`). It stops with `evertick dev`. `evertick dev --db FILE`
without `--at` continues it where it stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evertick.base.clock import SystemClock
from evertick.base.errors import Misuse
from evertick.base.instants import Instant
from evertick.cli.core.databases import sqlite_file

if TYPE_CHECKING:
    from evertick.app.database_clock import Simulation

SPEED_MIN: Final = 0.001
SPEED_MAX: Final = 3_600.0
"""An hour a second: faster than that, the time that the machine needs for its work would count as an outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks for: from when on, and how fast."""

    start: Instant | None
    speed: float

    @classmethod
    def of(cls, at: str | None, speed: float | None) -> "Asked | None":
        """From the flags; None where neither is given. Raises InvalidSpec for a time without a zone."""
        from evertick.recurrence.parse.moments import parse_instant

        if at is None and speed is None:
            return None
        start = None if at is None else Instant(parse_instant(at, "--at") * 1000)
        return cls(start=start, speed=1.0 if speed is None else speed)

    def to_json(self) -> dict[str, Any]:
        """For the child process."""
        return {"start": self.start, "speed": self.speed}

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> "Asked | None":
        """From the parent process."""
        return None if values is None else cls(start=values["start"], speed=values["speed"])


def database_for(asked: Asked | None, own: str, given: str | None, usual: str, *, first: bool) -> str:
    """The database to run on: `given` by --db, else `own`, that of simulations, else the `usual` one.

    At the first start a simulation begins: its default database is emptied, and its clock stands at the start until
    `continued`. Raises Misuse for a database that must not
    be simulated on, DatabaseLocked if another engine runs on it.
    """
    from evertick.app.database_clock import Simulation, clock_path, simulation_of, write_simulation
    from evertick.store.sqlite.address import make_folder_of

    if asked is None:
        return given or usual
    url = given or own
    if not first:
        return url
    file = sqlite_file(url)
    if file is None or clock_path(url) is None:
        raise Misuse("a simulated clock needs a database of its own, which is a SQLite file: --db sqlite:///FILE")
    if given is None:
        emptied(url, file)
    elif file.exists():
        how = "it is real" if simulation_of(url) is None else "to continue it leave out --at and --speed"
        raise Misuse(f"{file} exists already: {how}; give --at a file that does not exist, or leave out --db")
    make_folder_of(url)
    start = SystemClock().now() if asked.start is None else asked.start
    write_simulation(url, Simulation(start=start, real_start=start, speed=asked.speed, stopped=start))
    return url


def continued(url: str) -> "Simulation | None":
    """The simulation of a database, running: one that stopped goes on where it stood. None for a real database."""
    from evertick.app.database_clock import simulation_of, write_simulation

    simulation = simulation_of(url)
    if simulation is None or simulation.stopped is None:
        return simulation
    simulation = simulation.go_on()
    write_simulation(url, simulation)
    return simulation


def stop(url: str) -> None:
    """Let the clock of a simulation stand still; nothing for a real database."""
    from evertick.app.database_clock import simulation_of, write_simulation

    simulation = simulation_of(url)
    if simulation is not None and simulation.stopped is None:
        write_simulation(url, simulation.stop())


def emptied(url: str, file: Path) -> None:
    """Remove the simulation of last time, unless it is still running."""
    from evertick.app.database_clock import remove_simulation
    from evertick.store.open import open_settled

    if not file.exists():
        return
    store = open_settled(url)
    try:
        store.lock_engine()
    finally:
        store.close()
    remove_simulation(url)
