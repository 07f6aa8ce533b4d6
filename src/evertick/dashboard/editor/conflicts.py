"""Two editors at once: what another one changed since a form was opened, beside what was typed into it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evertick.api.schedules import ScheduleDescription
from evertick.app.schedules.views import sentence
from evertick.base.errors import InvalidSpec
from evertick.dashboard.editor.drafts import OF_SPEC, Draft, differing
from evertick.dashboard.editor.words import MEMBERS
from evertick.dashboard.markup.templates import json_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A member that another editor changed: what it was, what it is now, and what was typed here.

    `both` says that it was changed here as well, so that one of the two is lost.
    """

    name: str
    label: str
    before: str
    theirs: str
    mine: str
    both: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """What another editor changed, and who it was."""

    schedule: ScheduleDescription
    differences: Sequence[Difference]
    by: str = ""


def differences(before: Draft, theirs: Draft, mine: Draft) -> list[Difference]:
    """What another editor changed since `before`, where it is not what was typed anyway."""
    changed_here = differing(before, mine)
    return [
        Difference(
            name=name,
            label=MEMBERS[name],
            before=_words(before, name),
            theirs=_words(theirs, name),
            mine=_words(mine, name),
            both=name in changed_here,
        )
        for name in differing(before, theirs)
        if getattr(theirs, name) != getattr(mine, name)
    ]


def _words(draft: Draft, name: str) -> str:
    """A member of a draft as a line."""
    value = getattr(draft, name)
    if name == "sources":
        return _sentence(draft)
    if value in (None, "", [], {}):
        return "none" if name in OF_SPEC or name == "remaining_actions" else "default"
    return "; ".join(map(_line, value)) if isinstance(value, list) else _line(value)


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)


def _sentence(draft: Draft) -> str:
    try:
        return sentence(Draft(sources=draft.sources, time_zone=draft.time_zone, dialect=draft.dialect).spec())
    except InvalidSpec:
        return json_line(draft.sources)
