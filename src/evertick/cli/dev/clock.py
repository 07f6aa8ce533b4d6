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
    """The simulation that the command line requests: its start time, and its speed."""

    start: Instant | None
    speed: float

    @classmethod
    def of(cls, at: str | None, speed: float | None) -> "Asked | None":
        """The request in the flags; None if neither is given. Raises InvalidSpec for a time without a zone."""
        from evertick.recurrence.parse.moments import parse_instant

        if at is None and speed is None:
            return None
        start = None if at is None else Instant(parse_instant(at, "--at") * 1000)
        return cls(start=start, speed=1.0 if speed is None else speed)

    def to_json(self) -> dict[str, Any]:
        """The request as JSON, for the child process."""
        return {"start": self.start, "speed": self.speed}

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> "Asked | None":
        """The request that `to_json` wrote, in the child process."""
        return None if values is None else cls(start=values["start"], speed=values["speed"])


def database_for(asked: Asked | None, own: str, given: str | None, usual: str, *, first: bool) -> str:
    """The database to run on. Without a simulation: `given` by --db, or else the app's `usual` one.

    With a simulation: `given`, or else `own`, the default database of simulations. If `first`, the simulation begins:
    the default database is emptied, and the clock stands at the start until `continued`.

    Raises Misuse for a database that must not be simulated on, DatabaseLocked if another engine runs on it.
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
    """Start the clock of a database's simulation where it stopped; return the simulation, None for a real database."""
    from evertick.app.database_clock import simulation_of, write_simulation

    simulation = simulation_of(url)
    if simulation is None or simulation.stopped is None:
        return simulation
    simulation = simulation.go_on()
    write_simulation(url, simulation)
    return simulation


def stop(url: str) -> None:
    """Stop the clock of a simulation; do nothing for a real database."""
    from evertick.app.database_clock import simulation_of, write_simulation

    simulation = simulation_of(url)
    if simulation is not None and simulation.stopped is None:
        write_simulation(url, simulation.stop())


def emptied(url: str, file: Path) -> None:
    """Delete the database of the last simulation, unless that is still running."""
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
