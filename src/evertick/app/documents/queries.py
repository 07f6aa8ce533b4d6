"""Queries: the chain `query(t).with_index(...).filter(...).order(...)` and the ways to end it.

A chain only describes the query; nothing is read before `first`, `unique`, `take`, `collect`, `paginate` or iteration.
The order is that of creation, or that of the index, ascending by default. A filter runs after the index's range:
documents that it drops were still read, and count against the limit.
"""

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

from evertick.app.documents.tables import Index
from evertick.base.errors import InvalidArguments, Misuse, NotUnique
from evertick.base.ids import first_id_from, table_of
from evertick.store.transaction.index_keys import HIGHEST, MISSING, after_prefix, encode_key

# -- Ranges: which part of an index a query reads.
#
# `eq` on leading fields, then bounds on the next one. Every declared index ends, after its own fields, with
# `_creation_time`, and two indexes are built in: `by_creation_time` and `by_id`. An id holds its document's creation
# time, so a range of either is a range of ids. Key ranges and id ranges therefore cover all indexes.


class Unset:
    """The type of `UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""No value. In `insert`, `patch` and `replace`: a field that the document shall not have. In an index's range: the
value of a field that a document does not have, before None.
"""

HIGHEST_ID: Final = "\x7f"
"""Above every id."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Keys from `low` up to but excluding `high`, of documents with ids strictly between `above` and `below`."""

    low: bytes = b""
    high: bytes = HIGHEST
    above: str = ""
    below: str = HIGHEST_ID


EVERYTHING: Final = Bounds()


class IndexRange:
    """Which part of an index to read: call `eq` for the leading fields, then give bounds for the next field."""

    def __init__(self, index: Index, id_prefix: str) -> None:
        self._index = index
        self._id_prefix = id_prefix
        self._fields = index.fields if index.built_in else (*index.fields, "_creation_time")
        self._prefix: list[Any] = []
        self._keys: dict[str, bytes] = {}
        self._ids: dict[str, str] = {}

    def eq(self, field: str, value: Any) -> Self:
        """Require that the field equals `value`. Call it in the order of the index's fields, before any bound."""
        self._expect(field)
        if self._keys or self._ids:
            raise Misuse(f"index {self._index.name}: eq({field!r}) cannot follow a bound")
        if field.startswith("_"):
            return self.gte(field, value).lte(field, value)
        self._prefix.append(_known(value))
        return self

    def gt(self, field: str, value: Any) -> Self:
        """Require that the field is greater than `value`."""
        return self._limit("lower", field, value, beyond=True)

    def gte(self, field: str, value: Any) -> Self:
        """Require that the field is at least `value`."""
        return self._limit("lower", field, value, beyond=False)

    def lt(self, field: str, value: Any) -> Self:
        """Require that the field is less than `value`."""
        return self._limit("upper", field, value, beyond=False)

    def lte(self, field: str, value: Any) -> Self:
        """Require that the field is at most `value`."""
        return self._limit("upper", field, value, beyond=True)

    def bounds(self) -> Bounds:
        """The range of keys and ids to read."""
        prefix = encode_key(self._prefix)
        high = self._keys.get("upper") or (after_prefix(prefix) if prefix else HIGHEST)
        low, above = self._keys.get("lower") or prefix, self._ids.get("lower", "")
        return Bounds(low, high, above, self._ids.get("upper", HIGHEST_ID))

    def _limit(self, side: str, field: str, value: Any, *, beyond: bool) -> Self:
        """Begin (`lower`) or end (`upper`) at `value`, or just beyond it."""
        self._expect(field)
        if side in self._keys or side in self._ids:
            article = "an" if side == "upper" else "a"
            raise Misuse(f"index {self._index.name}: {field!r} already has {article} {side} bound")
        if field.startswith("_"):
            self._ids[side] = self._place_in_ids(field, value, beyond=beyond)
        else:
            self._keys[side] = self._place(value, beyond=beyond)
        return self

    def _place(self, value: Any, *, beyond: bool) -> bytes:
        """The first key with `value` in the next field, or the first after all of them."""
        key = encode_key([*self._prefix, _known(value)])
        return after_prefix(key) if beyond else key

    def _place_in_ids(self, field: str, value: Any, *, beyond: bool) -> str:
        """An id just below every id that has `value` in this field, or just above them."""
        if field == "_creation_time":
            time_ms = _creation_time(value)
            return first_id_from(self._id_prefix, math.nextafter(time_ms, math.inf) if beyond else time_ms)
        document_id = _id(value)
        if beyond:
            return document_id + "!"  # above the id itself, below every greater one
        return document_id[:-1] + chr(ord(document_id[-1]) - 1) + HIGHEST_ID  # above every id that is less

    def _expect(self, field: str) -> None:
        place = len(self._prefix)
        expected = self._fields[place] if place < len(self._fields) else None
        if field != expected:
            order = ", ".join(self._index.fields)
            raise Misuse(f"index {self._index.name} is over ({order}): expected {expected!r} next, got {field!r}")


def _known(value: Any) -> Any:
    return MISSING if value is UNSET else value


def _creation_time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InvalidArguments(f"_creation_time is a number of milliseconds since the epoch, not {value!r}")
    return float(value)


def _id(value: Any) -> str:
    if not isinstance(value, str) or table_of(value) is None:
        raise InvalidArguments(f"_id must be compared with a document id, not with {value!r}")
    return value


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
        """Documents with their positions, by creation time or in the order of `index` within `bounds`, after
        `after`; at most about `page` are fetched ahead.
        """
        ...

    def index(self, name: str) -> Index:
        """The index with this name, declared or built in."""
        ...

    @property
    def name(self) -> str:
        """The table's name."""
        ...

    @property
    def id_prefix(self) -> str:
        """The prefix of its documents' ids."""
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
            raise Misuse("a query can use only one index; with_index was called twice")
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
                raise Misuse(f"the range of index {index.name} must be a function: lambda r: r.eq(...), not {where!r}")
            chosen = where(chosen)
            if not isinstance(chosen, IndexRange):
                raise Misuse(f"the range of index {index.name} must be returned: lambda r: r.eq(...), not {chosen!r}")
        return replace(self, _index=index, _bounds=chosen.bounds())

    def filter(self, predicate: Predicate) -> "DocumentQuery":
        """Keep only documents for which `predicate(document)` is true."""
        if not callable(predicate):
            raise Misuse(f"filter() takes a function of a document, such as lambda d: ..., not {predicate!r}")
        return replace(self, _filters=(*self._filters, predicate))

    def order(self, direction: str) -> "DocumentQuery":
        """Set the order, `"asc"` (the default) or `"desc"`. It can be set once."""
        if self._order is not None:
            raise Misuse("a query can be ordered only once")
        if direction not in ("asc", "desc"):
            raise Misuse(f"order must be 'asc' or 'desc', not {direction!r}")
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

        Raises NotUnique, with the ids found, if there are more.
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
        """All documents of the query. A function may read only a limited number of documents."""
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
        """What a cursor is valid for: this table, index, range and order. Filters are not part of it."""
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
