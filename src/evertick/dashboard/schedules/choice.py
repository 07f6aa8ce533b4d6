"""Which schedules a list shows: what was typed and what was selected, as one query of `evertick schedule list`."""

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
"""A select of a form: nothing is chosen where it is empty."""


class Filters(Body):
    """The filters of a list, as the address has them."""

    q: str = Field("", max_length=500)
    kind: Select = None
    state: Select = None
    health: Select = None
    zone: Select = None

    @property
    def query(self) -> str:
        """All of them as one query, as the command line takes it."""
        selected = {"kind": self.kind, "state": self.state, "health": self.health, "zone": self.zone}
        terms = [f"{name}:{shlex.quote(value)}" for name, value in selected.items() if value is not None]
        return " ".join([self.q.strip(), *terms]).strip()

    def where(self, now: Instant) -> Where:
        """What they choose. Raises Misuse, InvalidSpec for what is typed and is no filter."""
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
"""Columns of the list beside that of the schedule itself, in their order."""
USUAL_COLUMNS: Final = ("times", "next", "last", "strip")
SORTED: Final = frozenset({"next", "last"})
"""Columns by which the list can be sorted."""


def _columns(given: object) -> object:
    """`columns=times,next` and `columns=times&columns=next` are the same; unknown ones are left out."""
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
        """The columns as the address has them; nothing for the usual ones."""
        return "" if self.shown == USUAL_COLUMNS else ",".join(self.shown)

    def order_of(self, column: str) -> str | None:
        """How the list is sorted by a column, as `aria-sort` says it; None if it is sorted by another."""
        if self.sort.removeprefix("-") != column:
            return None
        return "descending" if self.sort.startswith("-") else "ascending"

    def next_order(self, column: str) -> str:
        """The order that a click on a column's head asks for: upwards first, but the last runs downwards."""
        first = "-last" if column == "last" else column
        other = first.removeprefix("-") if first.startswith("-") else f"-{first}"
        return other if self.sort == first else first


def chosen(filters: Filters, now: Instant) -> tuple[Where, str | None]:
    """What the filters choose, and what is wrong with what was typed, if anything is; nothing is chosen then."""
    try:
        return filters.where(now), None
    except EvertickError as error:
        return {}, str(error)
