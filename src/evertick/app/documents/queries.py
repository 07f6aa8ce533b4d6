"""Queries: the chain `query(t).with_index(...).filter(...).order(...)` and the ways to end it.

A chain only describes; nothing is read before `first`, `unique`, `take`, `collect`, `paginate` or iteration. The
order is that of creation, or that of the index, ascending unless told otherwise; a filter runs after the index's
range, so what it drops was still read.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from evertick.app.documents.ranges import EVERYTHING, Bounds, IndexRange
from evertick.app.documents.tables import Index
from evertick.base.errors import InvalidArguments, Misuse, NotUnique
from evertick.base.ids import table_of

Document = dict[str, Any]
"""A document as it is read: its fields, `_id` and `_creation_time` (milliseconds since 1970)."""

Predicate = Callable[[Document], bool]
PAGE_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its documents, whether it is the last, and where the next begins."""

    page: list[Document]
    is_done: bool
    continue_cursor: str


class Source(Protocol):
    """Where documents come from, in order."""

    def read(
        self, index: Index | None, bounds: Bounds, after: list[str] | None, descending: bool, page: int
    ) -> Iterator[tuple[list[str], Document]]:
        """Documents with their positions, by creation time or in the order of `index` within `bounds`, beyond
        `after`; at most about `page` are fetched ahead.
        """
        ...

    def index(self, name: str) -> Index:
        """The index of that name, declared or built in."""
        ...

    @property
    def name(self) -> str:
        """The table's name."""
        ...

    @property
    def id_prefix(self) -> str:
        """What the ids of its documents begin with."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """A chain that describes which documents to read."""

    _source: Source
    _index: Index | None = None
    _bounds: Bounds = EVERYTHING
    _filters: tuple[Predicate, ...] = ()
    _order: str | None = None

    def with_index(
        self, name: str, where: Callable[[IndexRange], IndexRange] | None = None, /, **equals: Any
    ) -> "DocumentQuery":
        """Read in the order of an index: a declared one, or the built in `by_creation_time` and `by_id`.

        `with_index("by_author", author="ada")` takes the documents whose leading fields equal the values;
        `with_index("by_score", lambda r: r.eq("author", "ada").gte("score", 5))` takes a range. After its own fields
        every index has `_creation_time`.

        Raises Misuse if the index is not declared or the range does not follow its fields.
        """
        if self._index is not None:
            raise Misuse("a query reads one index")
        index = self._source.index(name)
        chosen = IndexRange(index, self._source.id_prefix)
        fields = index.fields if index.built_in else (*index.fields, "_creation_time")
        for field in fields[: len(equals)]:
            if field not in equals:
                raise Misuse(f"index {index.name} is over ({', '.join(index.fields)}): {field!r} must be given first")
            chosen = chosen.eq(field, equals[field])
        unknown = equals.keys() - set(fields)
        if unknown:
            raise Misuse(f"index {index.name} has no field {sorted(unknown)[0]!r}")
        if where is not None:
            if not callable(where):
                raise Misuse(f"the range of index {index.name} is a function, lambda r: r.eq(...), not {where!r}")
            chosen = where(chosen)
            if not isinstance(chosen, IndexRange):
                raise Misuse(f"the range of index {index.name} must be returned: lambda r: r.eq(...), not {chosen!r}")
        return replace(self, _index=index, _bounds=chosen.bounds())

    def filter(self, predicate: Predicate) -> "DocumentQuery":
        """Keep only documents for which `predicate(document)` is true."""
        if not callable(predicate):
            raise Misuse(f"filter() takes a function of a document, lambda d: ..., not {predicate!r}")
        return replace(self, _filters=(*self._filters, predicate))

    def order(self, direction: str) -> "DocumentQuery":
        """`"asc"` or `"desc"`, once."""
        if self._order is not None:
            raise Misuse("a query is ordered once")
        if direction not in ("asc", "desc"):
            raise Misuse(f"order is 'asc' or 'desc', not {direction!r}")
        return replace(self, _order=direction)

    def __iter__(self) -> Iterator[Document]:
        for _, document in self._read(None, 256):
            yield document

    def first(self) -> Document | None:
        """The first document, or None."""
        for _, document in self._read(None, 1 if not self._filters else 64):
            return document
        return None

    def unique(self) -> Document | None:
        """The only document, or None if there is none.

        Raises NotUnique, with their ids, if there are more.
        """
        found = self.take(2)
        if len(found) > 1:
            ids = ", ".join(str(document["_id"]) for document in found)
            raise NotUnique(f"unique() on table {self._source.name!r} found more than one document: {ids}")
        return found[0] if found else None

    def take(self, n: int) -> list[Document]:
        """The first `n` documents."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise Misuse(f"take() needs a number of documents from 0, not {n!r}")
        found: list[Document] = []
        if n:
            for _, document in self._read(None, min(n, 256)):
                found.append(document)
                if len(found) == n:
                    break
        return found

    def collect(self) -> list[Document]:
        """All documents. Bounded by the limit of documents one function may read."""
        return list(self)

    def paginate(self, *, num_items: int, cursor: str | None = None) -> Page:
        """One page of `num_items` documents, from the start or from the cursor of the page before.

        Raises InvalidArguments for a cursor of another query.
        """
        if isinstance(num_items, bool) or not isinstance(num_items, int) or not 1 <= num_items <= PAGE_MAX:
            raise Misuse(f"num_items must be from 1 to {PAGE_MAX}, not {num_items!r}")
        position = None if cursor is None else self._position_of(cursor)
        page: list[Document] = []
        for place, document in self._read(position, min(num_items + 1, 256)):
            if len(page) == num_items:
                return Page(page, False, self._cursor_of(position))
            page.append(document)
            position = place
        return Page(page, True, self._cursor_of(position))

    def _read(self, after: list[str] | None, page: int) -> Iterator[tuple[list[str], Document]]:
        descending = self._order == "desc"
        for position, document in self._source.read(self._index, self._bounds, after, descending, page):
            if all(keep(document) for keep in self._filters):
                yield position, document

    @property
    def _identity(self) -> str:
        """What a cursor is good for: this table, index, range and order. Filters are not seen."""
        chosen = "" if self._index is None else f"{self._index.name}:{_digest(self._bounds)}"
        return f"{self._source.name}/{chosen}/{self._order or 'asc'}"

    def _cursor_of(self, position: list[str] | None) -> str:
        text = json.dumps([self._identity, position])
        return base64.urlsafe_b64encode(text.encode()).decode()

    def _position_of(self, cursor: str) -> list[str] | None:
        try:
            identity, position = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidArguments(f"{cursor!r} is not a cursor of a page") from error
        if identity != self._identity:
            raise InvalidArguments(f"this cursor belongs to another query ({identity}), not to {self._identity}")
        if position is not None and not self._is_position(position):
            raise InvalidArguments(f"{cursor!r} is not a cursor of a page")
        return position  # type: ignore[no-any-return]

    def _is_position(self, position: Any) -> bool:
        if not isinstance(position, list) or not all(isinstance(part, str) for part in position):
            return False
        if not position or table_of(position[-1]) != self._source.id_prefix:
            return False
        if self._index is None or self._index.built_in:
            return len(position) == 1
        return len(position) == 2 and len(position[0]) % 2 == 0 and set(position[0]) <= set("0123456789abcdef")


def _digest(bounds: Bounds) -> str:
    return hashlib.sha256(repr(bounds).encode()).hexdigest()[:16]
