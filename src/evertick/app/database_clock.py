"""The clock of a database: the machine's clock, or for a simulation the clock in a file next to the database.

`evertick dev --at ...` simulates on its own SQLite file and writes `<file>.clock` next to it. Every program and command
that opens that database uses this clock. So all of them agree, and none writes real times into a simulation. When the
simulation ends, its clock stops, and shows that time until the simulation is continued.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from evertick.base.clock import Clock, ManualClock, ScaledClock, SystemClock, synchronize
from evertick.base.errors import DatabaseUnavailable
from evertick.base.instants import Instant
from evertick.store.sqlite.address import path_of
from evertick.store.store import Store

SUFFIX: Final = ".clock"


class Simulation(NamedTuple):
    """A simulated clock: it showed `start` when the machine's showed `real_start`; `stopped` is its time if stopped."""

    start: Instant
    real_start: Instant
    speed: float
    stopped: Instant | None = None

    @property
    def clock(self) -> Clock:
        """The clock."""
        if self.stopped is not None:
            return ManualClock(self.stopped)
        return ScaledClock(self.start, real_start=self.real_start, speed=self.speed)

    def stop(self) -> "Simulation":
        """The simulation with its clock stopped now."""
        return self._replace(stopped=self.clock.now())

    def go_on(self) -> "Simulation":
        """The simulation with its clock running, from the time it shows."""
        return Simulation(start=self.clock.now(), real_start=SystemClock().now(), speed=self.speed)


class Pace:
    """The speed of a simulation that runs in this process; it can be changed while the simulation runs.

    The file next to the database changes with it, so that commands agree.
    """

    def __init__(self, url: str, clock: ScaledClock) -> None:
        self._url = url
        self._clock = clock

    @property
    def speed(self) -> float:
        """The speed relative to the machine's clock; 0 while it is stopped."""
        return self._clock.speed

    @property
    def now(self) -> Instant:
        """The time in the simulation."""
        return self._clock.now()

    def change(self, speed: float) -> None:
        """Continue at another speed; 0 stops the clock."""
        simulation = Simulation(start=self._clock.now(), real_start=SystemClock().now(), speed=speed)
        self._clock.run(simulation.start, real_start=simulation.real_start, speed=speed)
        write_simulation(self._url, simulation)


def pace_of(url: str, clock: Clock) -> Pace | None:
    """The pace of a database's clock if it is a simulated one that runs in this process, otherwise None."""
    return Pace(url, clock) if isinstance(clock, ScaledClock) else None


def clock_of(store: Store) -> Clock:
    """The clock for a database: a simulated one, or the machine's clock corrected to the database's.

    Raises DatabaseUnavailable if the file of a simulated clock cannot be read.
    """
    simulation = simulation_of(store.url)
    if simulation is not None:
        return simulation.clock
    clock = SystemClock()
    synchronize(clock, store.database_now)
    return clock


def simulation_of(url: str) -> Simulation | None:
    """The simulation of a database, or None if it has none. Raises DatabaseUnavailable if its file cannot be read."""
    path = clock_path(url)
    if path is None:
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Simulation(
            start=Instant(values["start"]),
            real_start=Instant(values["real_start"]),
            speed=float(values["speed"]),
            stopped=None if values["stopped"] is None else Instant(values["stopped"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatabaseUnavailable(
            f"{path} has no valid time of the simulation: {type(error).__name__}: {error}; "
            "remove it together with its database"
        ) from error


def write_simulation(url: str, simulation: Simulation) -> None:
    """Write the clock of a simulated database atomically: readers see the old one or the new one."""
    path = clock_path(url)
    assert path is not None, "a simulation is on a file"  # noqa: S101
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(simulation._asdict()), encoding="utf-8")
    fresh.replace(path)


def remove_simulation(url: str) -> None:
    """Remove a simulated database with everything that belongs to it."""
    path = clock_path(url)
    assert path is not None, "a simulation is on a file"  # noqa: S101
    database = path.with_name(path.name.removesuffix(SUFFIX))
    for suffix in ("", "-wal", "-shm", SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + suffix).unlink()


def clock_path(url: str) -> Path | None:
    """The file for the clock of a database; None if the database is not a file."""
    path = path_of(url) if url.startswith("sqlite:") else None
    return None if path is None else path.with_name(path.name + SUFFIX)
