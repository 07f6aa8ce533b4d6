"""Rows of views that people have saved."""

from typing import NamedTuple

from evertick.base.ids import TenantId
from evertick.base.instants import Instant


class SavedViewRow(NamedTuple):
    """A saved view of a list: `params` are filters, order and columns, as JSON text.

    `owner` is the id of the token whose view it is, empty for one that everybody of the tenant sees.
    """

    id: str
    tenant: TenantId
    page: str
    name: str
    owner: str
    params: str
    created_by: str
    created_at: Instant
    updated_at: Instant
