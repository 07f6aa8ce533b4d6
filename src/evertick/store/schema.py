"""Migrations: numbered files that take the schema from any earlier version to this one.

The version is the number of the last step, kept in the table `meta`. A worker never changes the schema by itself in
a fleet: it refuses to run and says what to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from evertick.base.errors import SchemaMismatch


@dataclass(frozen=True, slots=True)
class Step:
    """One migration: its number, its name, and its SQL."""

    number: int
    name: str
    text: str


@cache
def steps(dialect: str) -> tuple[Step, ...]:
    """Every migration of a dialect, in order."""
    folder = files("evertick.store") / "migrations" / dialect
    found = []
    for entry in folder.iterdir():
        if entry.name.endswith(".sql"):
            number, _, _ = entry.name.partition("_")
            found.append(Step(int(number), entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda step: step.number))


MIGRATE_CURE: Final = "run `evertick migrate`"


def pending(dialect: str, version: int, *, place: str) -> tuple[Step, ...]:
    """The steps from `version` to this code's version; `place` is the database, for words.

    Raises SchemaMismatch if the database is ahead of this code.
    """
    newest = steps(dialect)[-1].number
    if version > newest:
        raise SchemaMismatch(
            f"the schema of {place} is version {version}, this evertick knows versions up to {newest}; "
            "it was migrated by a newer release: upgrade this installation"
        )
    return tuple(step for step in steps(dialect) if step.number > version)


def require_current(dialect: str, version: int, *, place: str) -> None:
    """Raise SchemaMismatch unless the database is at this code's version."""
    missing = pending(dialect, version, place=place)
    if missing and version == 0:
        raise SchemaMismatch(f"{place} has no schema of evertick yet; {MIGRATE_CURE}")
    if missing:
        raise SchemaMismatch(
            f"the schema of {place} is version {version}, this evertick needs version {missing[-1].number}; "
            f"{MIGRATE_CURE}"
        )


def migrate(dialect: str, version: int, apply: Callable[[Step], bool], *, place: str) -> list[str]:
    """Apply every missing step; returns the names of those that this call applied."""
    return [step.name for step in pending(dialect, version, place=place) if apply(step)]


def number_of(text: str, *, place: str) -> int:
    """The version that a database says it has. Raises SchemaMismatch if that is no number."""
    if not text.isdecimal():
        raise SchemaMismatch(f"{place} says that its schema is version {text!r}, which is none; restore a copy of it")
    return int(text)


def not_ours(place: str, step: Step, why: str) -> SchemaMismatch:
    """What is there already stands in the way of a step."""
    return SchemaMismatch(
        f"{place} holds tables that evertick did not make ({step.name}: {why}); nothing was changed, "
        "give evertick a database or schema of its own"
    )
