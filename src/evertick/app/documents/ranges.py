"""Ranges: which part of an index a query reads.

`eq` on leading fields, then bounds on the next one. Every declared index ends, after its own fields, with
`_creation_time`, and two indexes are built in: `by_creation_time` and `by_id`. An id holds its document's creation
time, so a range of either is a range of ids: all that is needed beside a range of keys.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, Self

from evertick.app.documents.tables import Index
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import first_id_from, table_of
from evertick.store.transaction.index_keys import HIGHEST, MISSING, after_prefix, encode_key


class Unset:
    """The type of `UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""No value. In `insert`, `patch` and `replace`: a field that the document shall not have. In an index's range: the
value of a field that a document does not have, before None. In an update of a schedule: lift what was set.
"""

HIGHEST_ID: Final = "\x7f"
"""Above every id."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Keys from `low` on and before `high`, of documents whose ids lie strictly between `above` and `below`."""

    low: bytes = b""
    high: bytes = HIGHEST
    above: str = ""
    below: str = HIGHEST_ID


EVERYTHING: Final = Bounds()


class IndexRange:
    """Which part of an index to read: `eq` on leading fields, then bounds on the next one."""

    def __init__(self, index: Index, id_prefix: str) -> None:
        self._index = index
        self._id_prefix = id_prefix
        self._fields = index.fields if index.built_in else (*index.fields, "_creation_time")
        self._prefix: list[Any] = []
        self._keys: dict[str, bytes] = {}
        self._ids: dict[str, str] = {}

    def eq(self, field: str, value: Any) -> Self:
        """The field equals `value`. Fields come in the index's order, before any bound."""
        self._expect(field)
        if self._keys or self._ids:
            raise Misuse(f"index {self._index.name}: eq({field!r}) cannot follow a bound")
        if field.startswith("_"):
            return self.gte(field, value).lte(field, value)
        self._prefix.append(_known(value))
        return self

    def gt(self, field: str, value: Any) -> Self:
        """The field is greater than `value`."""
        return self._limit("lower", field, value, beyond=True)

    def gte(self, field: str, value: Any) -> Self:
        """The field is at least `value`."""
        return self._limit("lower", field, value, beyond=False)

    def lt(self, field: str, value: Any) -> Self:
        """The field is less than `value`."""
        return self._limit("upper", field, value, beyond=False)

    def lte(self, field: str, value: Any) -> Self:
        """The field is at most `value`."""
        return self._limit("upper", field, value, beyond=True)

    def bounds(self) -> Bounds:
        """The range as it is read."""
        prefix = encode_key(self._prefix)
        high = self._keys.get("upper") or (after_prefix(prefix) if prefix else HIGHEST)
        low, above = self._keys.get("lower") or prefix, self._ids.get("lower", "")
        return Bounds(low, high, above, self._ids.get("upper", HIGHEST_ID))

    def _limit(self, side: str, field: str, value: Any, *, beyond: bool) -> Self:
        """Begin (`lower`) or end (`upper`) at `value`, or just beyond it."""
        self._expect(field)
        if side in self._keys or side in self._ids:
            article = "an" if side == "upper" else "a"
            raise Misuse(f"index {self._index.name}: {field!r} has {article} {side} bound already")
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
        """Just below every id that has `value` in this field, or just above them."""
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
        raise InvalidArguments(f"_id is compared with an id; {value!r} is not one")
    return value
