"""Schemas of views of lists that people have saved."""

from typing import Self

from evertick.api.reading import RowReading
from evertick.api.schema import Moment, Schema
from evertick.base.instants import to_datetime
from evertick.base.records.views import SavedViewRow


class SavedView(Schema):
    """A saved view of a list.

    `page` is the list: `schedules`, `jobs` or `workflows`. `params` are filters, order and columns, as the address of
    the list has them. Everybody of the tenant sees a view that is `shared`, others only the token that made them.
    """

    id: str
    page: str
    name: str
    shared: bool
    params: dict[str, str]
    created_by: str
    created: Moment
    updated: Moment

    @classmethod
    def of(cls, row: SavedViewRow) -> Self:
        """The view of a row."""
        return cls(
            id=row.id,
            page=row.page,
            name=row.name,
            shared=not row.owner,
            params={
                name: value
                for name, value in RowReading().object("params", row.params).items()
                if isinstance(value, str)
            },
            created_by=row.created_by,
            created=to_datetime(row.created_at),
            updated=to_datetime(row.updated_at),
        )
