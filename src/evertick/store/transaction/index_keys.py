"""Keys: field values as bytes whose order is the order of the values.

Declared indexes compare these bytes, so both databases sort alike, whatever their collation. The order of
types is: missing, None, numbers (integers and floats together), booleans, text, bytes, instants, lists, dicts.

Each value begins with a byte for its type. Text and bytes escape 0x00 as 0x00 0xFF and end with 0x00, so a prefix
sorts before the values it begins; lists end with 0x00 and dicts are lists of their sorted items.
"""

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from evertick.base.errors import InvalidArguments, ValueTooLarge

KEY_BYTES_MAX: Final = 2_000
"""Longest key. PostgreSQL's indexes hold entries up to about 2,700 bytes, id and names included."""

HIGHEST: Final = b"\xff"
"""Above every key."""

_MISSING, _NONE, _NUMBER, _BOOL, _TEXT, _BYTES, _INSTANT, _LIST, _DICT = (bytes([n]) for n in range(16, 25))
_SIGN_BIT: Final = 1 << 63
_ALL_BITS: Final = (1 << 64) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Missing:
    """The value of a field that a document does not have. It sorts before None."""


MISSING: Final = Missing()


def encode_key(values: Sequence[object]) -> bytes:
    """The key of a sequence of values. A shorter sequence sorts before every longer one it begins.

    Raises ValueTooLarge above KEY_BYTES_MAX, InvalidArguments for a value that has no place in the order.
    """
    key = b"".join(map(_encode, values))
    if len(key) > KEY_BYTES_MAX:
        raise ValueTooLarge(f"an index key of {len(key)} bytes; the limit is {KEY_BYTES_MAX}")
    return key


def after_prefix(prefix: bytes) -> bytes:
    """The smallest key above every key that begins with `prefix`."""
    return prefix + HIGHEST


def _encode(value: object) -> bytes:
    # Booleans are integers to isinstance, so they are checked first.
    if isinstance(value, bool):
        return _BOOL + (b"\x01" if value else b"\x00")
    if isinstance(value, str):
        return _TEXT + _ended(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, int | float):
        return _NUMBER + _number(value)
    if value is None:
        return _NONE
    if isinstance(value, bytes):
        return _BYTES + _ended(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidArguments(f"{value} has no time zone; add one, for example tzinfo=UTC")
        return _INSTANT + struct.pack(">Q", (value - _EPOCH) // _MICROSECOND + _SIGN_BIT)
    if isinstance(value, Missing):
        return _MISSING
    if isinstance(value, list | tuple):
        return _LIST + b"".join(map(_encode, value)) + b"\x00"
    if isinstance(value, dict):
        items = sorted(value.items())
        return _DICT + b"".join(_encode(part) for item in items for part in item) + b"\x00"
    raise InvalidArguments(f"{type(value).__name__} has no place in the order of an index")


def _ended(raw: bytes) -> bytes:
    return raw.replace(b"\x00", b"\x00\xff") + b"\x00"


def _number(value: float) -> bytes:
    """A number by its nearest float, then by the difference of an integer beyond 2**53 from that float."""
    try:
        nearest = float(value)
    except OverflowError:
        raise ValueTooLarge("an integer beyond 1.8e308 cannot stand in an index") from None
    if math.isnan(nearest):
        bits = _ALL_BITS  # NaN sorts last among numbers, and equals itself
    else:
        bits = struct.unpack(">Q", struct.pack(">d", nearest + 0.0))[0]  # + 0.0 makes -0.0 equal to 0.0
        bits = bits ^ _ALL_BITS if bits & _SIGN_BIT else bits | _SIGN_BIT
    rest = value - int(nearest) if isinstance(value, int) else 0
    if rest == 0:
        return struct.pack(">Q", bits) + b"\x80"
    size = (rest.bit_length() + 8) // 8
    body = (rest + (1 << (8 * size - 1))).to_bytes(size, "big")
    return struct.pack(">Q", bits) + (bytes([0x80 + size]) if rest > 0 else bytes([0x80 - size])) + body
