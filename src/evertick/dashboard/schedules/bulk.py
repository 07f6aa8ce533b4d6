"""Actions on many schedules: which schedules they change, and their progress.

A bulk action is done in portions, each in its own request. After each portion the page shows the progress and the form
for the next portion. So it can be watched and stopped, no request takes long, and failures are listed by name. The form
contains the whole state; nothing is stored on the server.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fastapi import HTTPException
from pydantic import Field

from evertick.api.schedules import ScheduleSummary
from evertick.app.bodies import Body
from evertick.app.schedules.api import AsyncSchedules
from evertick.app.schedules.lists import by_ids, parse_query
from evertick.base.errors import EvertickError
from evertick.base.instants import Instant
from evertick.dashboard.forms.form import Form

PORTION: Final = 50
"""Schedules per request."""
REPORTED_MAX: Final = 50
"""Failures that are listed by name."""

VERBS: Final = {
    "pause": ("Pause", "paused"),
    "resume": ("Resume", "resumed"),
    "trigger": ("Trigger", "triggered"),
    "delete": ("Delete", "deleted"),
}
"""Each action as a label of a button, and as a participle."""
WHYS: Final = {
    "pause": "not active",
    "resume": "not paused",
    "trigger": "not readable",
    "delete": "declared in code",
}
"""Why an action skips a schedule."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The schedules of a bulk action: by their ids, or all that match a query."""

    ids: tuple[str, ...]
    query: str | None

    @classmethod
    def of(cls, form: Form) -> "Chosen":
        """The choice in a form."""
        return cls(tuple(dict.fromkeys(form.all("row"))), form["query"] if form["all"] else None)

    @property
    def is_all(self) -> bool:
        """Whether a query selects the schedules."""
        return self.query is not None


class Selected(Body):
    """The choice in an address: ids, or with `all` those that match the query."""

    row: list[str] = Field(default_factory=list, max_length=100)
    all: str = ""
    query: str = Field("", max_length=1_000)

    @property
    def chosen(self) -> Chosen:
        """The choice."""
        return Chosen(tuple(self.row), self.query if self.all else None)


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of chosen schedules, and how many of them an action changes; `more` if there may be more."""

    chosen: int
    touched: int
    untouched_why: str
    more: bool = False

    @property
    def typed(self) -> str:
        """The text that confirms an action that cannot be undone: the count, or `all` if the count is not known."""
        return "all" if self.more else str(self.touched)


@dataclass(slots=True)
class Progress:
    """The progress of a bulk action. `after` is where the next portion begins; None at the end."""

    done: int = 0
    left_alone: int = 0
    failed: int = 0
    reported: list[tuple[str, str]] = field(default_factory=list)
    after: str | None = ""

    @classmethod
    def of(cls, form: Form) -> "Progress":
        """The progress in a form; the beginning if it cannot be read."""
        try:
            done, left_alone, failed, reported, after = json.loads(form["progress"] or '[0,0,0,[],""]')
            return cls(int(done), int(left_alone), int(failed), [(str(a), str(b)) for a, b in reported], str(after))
        except (ValueError, TypeError, OverflowError, RecursionError):
            return cls()

    def text(self) -> str:
        """The progress as text for a form."""
        return json.dumps([self.done, self.left_alone, self.failed, self.reported, self.after])

    @property
    def seen(self) -> int:
        """The number of schedules that are processed."""
        return self.done + self.left_alone + self.failed


def touches(action: str, schedule: ScheduleSummary) -> bool:
    """Whether an action changes anything about a schedule."""
    if action == "pause":
        return schedule.status == "active"
    if action == "resume":
        return schedule.status == "paused"
    if action == "delete":
        return schedule.source != "code"
    return schedule.status != "unreadable"


@dataclass(frozen=True, slots=True)
class Bulk:
    """An action on the chosen schedules of a tenant."""

    schedules: AsyncSchedules
    now: Instant
    action: str
    chosen: Chosen

    async def extent(self) -> Extent:
        """The number of chosen and changed schedules. Raises Misuse for an invalid query."""
        why = WHYS[self.action]
        if self.chosen.query is None:
            found = await self.schedules.read(by_ids(self.schedules.operations, self.chosen.ids))
            touched = sum(touches(self.action, each) for each in found)
            return Extent(len(found), touched, why)
        where = parse_query(self.chosen.query, self.now)
        counts = (await self.schedules.counts(**where)).matching
        status = {"pause": "active", "resume": "paused"}.get(self.action)
        if status is None or where.get("status") == status:
            return Extent(counts.number, counts.number, why, counts.more)
        if "status" in where:
            return Extent(counts.number, 0, why, counts.more)
        where["status"] = status
        touched_count = (await self.schedules.counts(**where)).matching
        return Extent(counts.number, touched_count.number, why, touched_count.more)

    async def go_on(self, progress: Progress, do: Callable[[str], Awaitable[object]]) -> None:
        """Do the next portion: calls `do` with the id of each schedule to change, in the order of ids."""
        rows, progress.after = await self._portion(progress.after or None)
        for row in rows:
            if not touches(self.action, row):
                progress.left_alone += 1
                continue
            try:
                await do(row.id)
                progress.done += 1
            except (EvertickError, HTTPException) as error:
                progress.failed += 1
                if len(progress.reported) < REPORTED_MAX:
                    progress.reported.append((row.id, str(getattr(error, "detail", error))))

    async def _portion(self, after: str | None) -> tuple[Sequence[ScheduleSummary], str | None]:
        """The next schedules in the order of ids, and the start of the portion after them."""
        if self.chosen.query is None:
            ids = [each for each in sorted(self.chosen.ids) if each > (after or "")][:PORTION]
            rows = await self.schedules.read(by_ids(self.schedules.operations, ids))
            return rows, ids[-1] if len(ids) == PORTION else None
        found = await self.schedules.list(limit=PORTION, cursor=after, **parse_query(self.chosen.query, self.now))
        return found.schedules, found.cursor
