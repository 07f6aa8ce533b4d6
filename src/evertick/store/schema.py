"""Migrations: numbered files that take the schema from any earlier version to this one.

The database stores two numbers. Its *version* is that of the last step; a release needs at least the version of its own
last step, and otherwise tells the user to run `evertick migrate`. Its *oldest code* is the version of the oldest
release that may use it; an older one refuses, and tells the user to upgrade it.

So releases can overlap. A step that only *expands* the schema (a new table, a column with a default, an index) begins
with the line `-- oldest code: N` and lets code of version N run together with the new one. A step of a later release
*contracts* what that code needs, when N is no longer in use. A step without the line is for code of its own version or
later.

Statements below the line `-- afterwards:` of a file for PostgreSQL cannot run in a transaction: indexes built or
dropped `concurrently`, so that no one waits for them. The step's version is reached when they are done. If a process
dies between them, the next `migrate` continues there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from evertick.base.errors import SchemaMismatch
from evertick.base.escaping import shell_word
from evertick.store.addresses import shown

MIGRATE_CURE: Final = "run `evertick migrate`"
MISMATCH_CURE: Final = f"{MIGRATE_CURE}, or upgrade this installation if a newer release has migrated it"
VERSION_KEY: Final = "schema_version"
"""The key of the version in `meta`; on SQLite only in a shared file, otherwise it is the file's `user_version`."""
OLDEST_KEY: Final = "oldest_code"
"""The key of the oldest code in `meta`."""
BEGUN_KEY: Final = "begun_step"
"""The key of a step in `meta` of which only the statements afterwards are missing."""

_OLDEST: Final = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)
_AFTERWARDS: Final = re.compile(r"^-- afterwards:$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)
_INDEX: Final = re.compile(
    r"^\s*(?:create\s+(?:unique\s+)?|drop\s+)index\s+concurrently\s+(?:if\s+(?:not\s+)?exists\s+)?(\w+)", re.IGNORECASE
)
_ON: Final = re.compile(r"(\bon\s+)(\w+)", re.IGNORECASE)
"""The table of an index."""


def in_schema(statement: str, where: str) -> str:
    """A statement of `afterwards` with the schema before its table, or before the index that it drops."""
    if statement.lower().startswith("drop"):
        return _INDEX.sub(lambda found: f"{found[0].removesuffix(found[1])}{where}{found[1]}", statement)
    return _ON.sub(rf"\1{where}\2", statement, count=1)


@dataclass(frozen=True, slots=True)
class Step:
    """One migration: its number, its name, and its file's text."""

    number: int
    name: str
    text: str

    @property
    def oldest_code(self) -> int:
        """The version of the oldest code that may use a database at this step."""
        found = _OLDEST.search(self.text)
        return self.number if found is None else int(found.group(1))

    @property
    def body(self) -> str:
        """The statements of its transaction."""
        return _AFTERWARDS.split(self.text)[0]

    @property
    def afterwards(self) -> list[tuple[str, str]]:
        """The indexes to build or drop after the transaction, one by one, by name and statement."""
        _, *rest = _AFTERWARDS.split(self.text, maxsplit=1)
        found = []
        for statement in _COMMENT.sub("", "".join(rest)).split(";"):
            if statement.strip():
                index = _INDEX.match(statement)
                if index is None:
                    raise ValueError(f"{self.name}: only indexes are built or dropped afterwards, not {statement!r}")
                found.append((index.group(1), statement.strip()))
        return found


class OlderWorker(NamedTuple):
    """A worker that runs, and the version that its code knows."""

    id: str
    host: str
    pid: int
    code: int


class SchemaState(NamedTuple):
    """The migrations of a database so far."""

    version: int
    """The number of its last step; 0 without a schema."""
    oldest_code: int
    """The version of the oldest code that may use it."""
    begun: int = 0
    """The step whose transaction is committed while statements afterwards are missing; 0 if there is none."""


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


def code_version(dialect: str) -> int:
    """The version of this code: the number of its last step."""
    return steps(dialect)[-1].number


def pending(dialect: str, state: SchemaState, *, place: str) -> tuple[Step, ...]:
    """The steps that a database lacks for this code; `place` is the database, for messages.

    Raises SchemaMismatch if this code is too old for the database.
    """
    code = code_version(dialect)
    if code < state.oldest_code:
        needs = "" if state.oldest_code == state.version else f" and needs a release of version {state.oldest_code}"
        raise SchemaMismatch(
            f"the schema of {place} is version {state.version}{needs}, this evertick knows versions up to {code}; "
            "it was migrated by a newer release: upgrade this installation"
        )
    return tuple(step for step in steps(dialect) if step.number > state.version)


def require_usable(dialect: str, state: SchemaState, *, place: str, url: str) -> None:
    """Raise SchemaMismatch if this code cannot use the database: too old for it, or too new."""
    missing = pending(dialect, state, place=place)
    if missing and state.version == 0:
        raise SchemaMismatch(f"{place} has no schema of evertick yet; {_migrate(url)}")
    if missing:
        raise SchemaMismatch(
            f"the schema of {place} is version {state.version}, this evertick needs version {missing[-1].number}; "
            f"{_migrate(url)}"
        )


def _migrate(url: str) -> str:
    if shown(url) != url:  # a command with a masked password could not be run
        return f"run `evertick migrate`, with EVERTICK_DATABASE_URL or --db as {shown(url)} and its password"
    return f"run `evertick migrate --db {shell_word(url)}`"


def shuts_out(step: Step, state: SchemaState) -> bool:
    """Whether workers that cannot use the database after a step may run now."""
    return step.oldest_code > state.oldest_code and state.version > 0


def refuse_while_running(step: Step, older: Sequence[OlderWorker], *, place: str) -> None:
    """Raise SchemaMismatch if workers run that cannot use the database after a step."""
    if older:
        shown = ", ".join(f"{each.id} (process {each.pid} on {each.host}, version {each.code})" for each in older[:3])
        raise SchemaMismatch(
            f"{step.name} is for releases of version {step.oldest_code} or later, and {len(older)} older "
            f"worker{' runs' if len(older) == 1 else 's run'} on {place}: {shown}; "
            "upgrade them first, then migrate again"
        )


def number_of(text: str, *, place: str) -> int:
    """The version in a database's `meta`. Raises SchemaMismatch if it is no number."""
    if not text.isdecimal():
        raise SchemaMismatch(f"{place} says that its schema is version {text!r}, which is none; restore a copy of it")
    return int(text)


def oldest_text(oldest_code: int, version: int) -> str:
    """The oldest code as `meta` stores it, with the schema's version."""
    return f"{oldest_code} at {version}"


def oldest_of(text: str | None, version: int) -> int:
    """The oldest code of a database: the stored one if it is for this version, else the version itself."""
    oldest, _, said_for = (text or "").partition(" at ")
    return int(oldest) if oldest.isdecimal() and said_for == str(version) else version


def foreign_tables(place: str, step: Step, why: str) -> SchemaMismatch:
    """The error of a step that meets tables of other programs."""
    return SchemaMismatch(
        f"{place} holds tables that evertick did not make ({step.name}: {why}); nothing was changed, "
        "give evertick a database or schema of its own"
    )
