"""Reading files of schedules: every entry with its place, every problem with its line."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import InvalidSpec, Misuse
from evertick.base.escaping import printable, reason
from evertick.cli.schedule.files.forms import CRONS, SCHEDULES, Parsed, Place, Unreadable, read_json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from evertick.app.schedules.bodies import WrittenSchedule


# -- Errors of the entries of files, with their lines.


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in an entry, and its place."""

    where: str
    words: str


def write_problems(problems: Sequence[Problem]) -> None:
    """Write each problem as a line on stderr."""
    for each in problems:
        click.echo(f"{each.where}: {printable(each.words)}", err=True)


def refuse_problems(problems: Sequence[Problem]) -> None:
    """Raise Misuse if there are problems. The caller has written them."""
    if problems:
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        raise Misuse(f"{count} in what is to be applied; nothing was changed")


BYTES_MAX: Final = 64 * 1024 * 1024
UNREAD_TIMES: Final = "@daily"
"""Stands for times that cannot be read, while the rest of their entry is compared."""


WORDS: Final = {
    "missing": "it is missing",
    "extra_forbidden": "a schedule has no such member",
    "model_type": "a schedule is a mapping of its members",
}
"""Problems in our words, by pydantic's types."""
CHOICES: Final = {
    "when": "it is a cron line, a sentence, a mapping of a spec, or a list of these",
    "except": "it is a list of dates such as 2026-12-24, pairs of dates, and mappings of specs",
    "paused": "it is true, false, or the moment until which it is paused, such as 2027-01-01T00:00:00Z",
}
"""Members that may be of several kinds: what they may be, instead of what is wrong with each kind."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule of a file, and its place. Invalid members are omitted here and reported as problems.

    The other members are compared nevertheless, so that all mistakes of a file are reported at once.
    """

    where: str
    schedule: "WrittenSchedule"


@dataclass(frozen=True, slots=True)
class Declared:
    """The contents of all files: the schedules in their order, the problems, and the number of crons of code."""

    entries: Sequence[Entry]
    problems: Sequence[Problem]
    crons: int


def read_files(files: Sequence[str]) -> Declared:
    """Read the files; `-` is standard input. Raises Misuse for a file that cannot be read at all."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    crons = 0
    for file in files:
        parsed = _parsed(file)
        top = parsed.value
        if not isinstance(top, dict) or not isinstance(top.get(SCHEDULES), list):
            raise Misuse(f"{parsed.where()}: a file of schedules has a list `schedules:`; `schedule export` writes one")
        problems += [
            Problem(parsed.where((key,)), f"there is no {key!r}{meant_of(key, (SCHEDULES, CRONS))}")
            for key in top
            if key not in (SCHEDULES, CRONS)
        ]
        crons += len(top.get(CRONS) or ())
        for index, value in enumerate(top[SCHEDULES]):
            place = (SCHEDULES, index)
            entry, wrong = _entry(parsed, place, value)
            problems += wrong
            if entry is not None:
                entries.append(entry)
    problems += _twice(entries)
    return Declared(entries, problems, crons)


def _parsed(file: str) -> Parsed:
    text, name = (sys.stdin.read(), "stdin") if file == "-" else (_text(Path(file)), file)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return read_json(text, name)
        except Unreadable:
            if Path(file).suffix == ".json":
                raise  # else it may be YAML that begins with a bracket
    try:
        from evertick.cli.schedule.files.forms import read_yaml
    except ModuleNotFoundError:
        raise Misuse(f"{name} is not JSON, and YAML needs the extra: pip install 'evertick[yaml]'") from None
    return read_yaml(text, name)


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > BYTES_MAX:
            raise Misuse(f"{file} has more than {BYTES_MAX:,} bytes")
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"{file} cannot be read: {reason(problem)}") from None


def _entry(parsed: Parsed, place: Place, value: Any) -> tuple[Entry | None, list[Problem]]:
    """The schedule of an entry without its invalid members, and the problems; None if too little remains."""
    from pydantic import ValidationError

    from evertick.app.schedules.bodies import WrittenSchedule, when_of
    from evertick.app.schedules.definition import union

    problems: list[Problem] = []
    schedule: WrittenSchedule | None = None
    try:
        schedule = WrittenSchedule.model_validate(value)
    except ValidationError as error:
        name, found = _name(value), dict(_problem(each) for each in error.errors())
        problems = [
            Problem(parsed.where((*place, *loc)), f"{name}{'.'.join(map(str, loc))}: {words}".removeprefix(": "))
            for loc, words in found.items()
        ]
        wrong = {str(loc[0]) for loc in found if loc}
        if wrong and isinstance(value, dict):
            left = {key: each for key, each in value.items() if key not in wrong}
            with suppress(ValidationError):  # without an id or a function there is nothing to compare
                schedule = WrittenSchedule.model_validate(left | ({"when": UNREAD_TIMES} if "when" in wrong else {}))
    if schedule is None:
        return None, problems
    try:
        union(when_of(schedule.when))
    except InvalidSpec as error:
        problems.append(Problem(parsed.where((*place, "when")), f"{schedule.id}: when: {error}"))
        schedule = schedule.model_copy(update={"when": UNREAD_TIMES})
    return Entry(parsed.where(place), schedule), problems


def _name(value: Any) -> str:
    """The prefix of messages about a schedule."""
    return f"{value['id']}: " if isinstance(value, dict) and isinstance(value.get("id"), str) else ""


def _problem(error: "ErrorDetails") -> tuple[tuple[int | str, ...], str]:
    """The place of an error that pydantic has found, and the message in Evertick's words."""
    place = error["loc"]
    if len(place) > 1 and (words := CHOICES.get(str(place[0]))) is not None:
        # What follows names a kind, or an item and then a kind.
        return place[: 2 if isinstance(place[1], int) else 1], words
    return place, _words(error)


def _words(error: "ErrorDetails") -> str:
    """An error that pydantic has found, in Evertick's words."""
    from evertick.app.schedules.bodies import WrittenSchedule

    words, place = WORDS.get(error["type"], error["msg"].removeprefix("Value error, ")), error["loc"]
    if error["type"] != "extra_forbidden" or len(place) != 1:
        return words
    return words + meant_of(str(place[0]), [each.alias or name for name, each in WrittenSchedule.model_fields.items()])


def meant_of(name: str, known: Sequence[str]) -> str:
    """A hint for an unknown name: the similar known names."""
    near = get_close_matches(name[:60], known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _twice(entries: Sequence[Entry]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for each in entries:
        if (first := seen.setdefault(each.schedule.id, each.where)) != each.where:
            yield Problem(each.where, f"{each.schedule.id}: it is there twice, first at {first}")
