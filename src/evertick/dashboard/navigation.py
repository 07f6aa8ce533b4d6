"""The pages that the rail names, in three groups. A place is named when its page exists."""

from typing import Final, NamedTuple

from evertick.base.records.access import Scope


class Place(NamedTuple):
    """A page in the rail: its name, its path below the tenant, and the key that follows `g`."""

    name: str
    path: str
    key: str = ""
    scope: Scope = Scope.READ
    of_scripts: bool = False
    """Whether it is there only if the app runs scripts."""


PLACES: Final[tuple[tuple[Place, ...], ...]] = (
    (
        Place("Overview", "", "o"),
        Place("Schedules", "schedules", "s"),
        Place("Functions", "functions", "f"),
        Place("Scripts", "scripts", "c", of_scripts=True),
        Place("Logs", "logs", "l"),
        Place("Workflows", "workflows", "w"),
        Place("Data", "data", "d"),
        Place("Gateways", "gateways"),
    ),
    (Place("Pools", "pools"), Place("Workers", "workers")),
    (Place("Audit", "audit"), Place("Settings", "settings")),
)
