"""Records of documents and their indexes."""

from dataclasses import dataclass
from typing import NamedTuple

from evertick.base.ids import TenantId


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A stored document: its id and its JSON text, without the fields derived from the id."""

    id: str
    body: str


class TableCount(NamedTuple):
    """The counted documents of a table, `more` if the table has further ones, and the id of the newest."""

    number: int
    more: bool
    newest: str | None


IndexPosition = tuple[bytes, str]
"""A place in an index: the key, and the id of the document."""


class IndexPart(NamedTuple):
    """A part of an index: the entries of one tenant with keys in [low, high), in one direction."""

    tenant: TenantId
    index_name: str
    low: bytes
    high: bytes
    descending: bool = False
