"""The filters of a list of schedules: what was typed and selected, as one query of `evertick schedule list`."""

import shlex
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from evertick.app.bodies import Body
from evertick.app.schedules.lists import parse_query
from evertick.app.schedules.queries import Where
from evertick.base.errors import EvertickError
from evertick.base.instants import Instant

NEXT_HOUR: Final = "next<1h"


def _or_none(given: object) -> object:
    return given or None


Select = Annotated[Annotated[str, Field(max_length=100)] | None, BeforeValidator(_or_none)]
"""A select of a form; an empty value means no choice."""


class Filters(Body):
    """The filters of a list, from the address."""

    q: str = Field("", max_length=500)
    kind: Select = None
    state: Select = None
    health: Select = None
    zone: Select = None

    @property
    def query(self) -> str:
        """All filters as one query, as on the command line."""
        selected = {"kind": self.kind, "state": self.state, "health": self.health, "zone": self.zone}
        terms = [f"{name}:{shlex.quote(value)}" for name, value in selected.items() if value is not None]
        return " ".join([self.q.strip(), *terms]).strip()

    def where(self, now: Instant) -> Where:
        """The parsed filters. Raises Misuse, InvalidSpec for invalid text."""
        return parse_query(self.query, now)


COLUMNS: Final = {
    "times": "Times",
    "type": "Type",
    "zone": "Zone",
    "function": "Calls",
    "next": "Next run",
    "last": "Last run",
    "strip": "Last 30",
    "note": "Note",
    "updated": "Changed",
}
"""Columns of the list after that of the schedule itself, in their order."""
USUAL_COLUMNS: Final = ("times", "next", "last", "strip")
SORTED: Final = frozenset({"next", "last"})
"""Columns by which the list can be sorted."""


def _columns(given: object) -> object:
    """The columns; `columns=times,next` and `columns=times&columns=next` are the same, and unknown ones are ignored."""
    words = (
        {word for each in given if isinstance(each, str) for word in each.split(",")} if isinstance(given, list) else ()
    )
    return [name for name in COLUMNS if name in words]


class Asked(Filters):
    """A page of the list."""

    columns: Annotated[list[str], BeforeValidator(_columns)] = Field(default_factory=list, max_length=100)
    sort: str = Field("next", pattern="^-?(id|next|last)$")
    limit: int = Field(100, ge=1, le=100)
    cursor: str | None = Field(None, max_length=2_000)
    tz: str | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the list, in their order."""
        return tuple(self.columns) or USUAL_COLUMNS

    @property
    def chosen_columns(self) -> str:
        """The columns in the form of the address; empty for the default ones."""
        return "" if self.shown == USUAL_COLUMNS else ",".join(self.shown)

    def order_of(self, column: str) -> str | None:
        """The sort order of a column as a value of `aria-sort`; None if the list is sorted by another column."""
        if self.sort.removeprefix("-") != column:
            return None
        return "descending" if self.sort.startswith("-") else "ascending"

    def next_order(self, column: str) -> str:
        """The order after a click on a column's header: ascending first, but descending for the last run."""
        first = "-last" if column == "last" else column
        other = first.removeprefix("-") if first.startswith("-") else f"-{first}"
        return other if self.sort == first else first


def chosen(filters: Filters, now: Instant) -> tuple[Where, str | None]:
    """The parsed filters, and the error of what was typed, None if there is none; with an error nothing is chosen."""
    try:
        return filters.where(now), None
    except EvertickError as error:
        return {}, str(error)
