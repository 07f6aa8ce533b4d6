"""Jitter: a pseudo-random but constant delay, so that many schedules with the same time do not start at once.

The delay of an occurrence is a hash of the schedule's seed and the occurrence's nominal time, scaled into [0, jitter)
and always before the next nominal time. So a retry or a second computation gets the same time, and the order of
occurrences does not change. The hash is Temporal's (FarmHash's Fingerprint32 over Go's binary form of the time), so
that schedules migrated from Temporal keep their times.
"""

import struct
from typing import Final

_GO_EPOCH: Final = 62_135_596_800
"""Seconds from 0001-01-01, Go's epoch, to 1970-01-01."""
_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


def jitter_ms(seed: str, nominal: int, following: int | None, jitter_limit_ms: int) -> int:
    """The delay in milliseconds that jitter adds to the occurrence at the instant `nominal`.

    It depends only on the arguments. `following` is the next nominal time of the same spec or None; the delay stays
    below the gap to it. `seed` identifies the schedule: its id.
    """
    limit = min(jitter_limit_ms, _MASK)
    if following is not None:
        limit = min(limit, (following - nominal) * 1000)
    if limit <= 0:
        return 0
    key = struct.pack(">BqiH", 1, nominal + _GO_EPOCH, 0, 0xFFFF) + seed.encode()
    return fingerprint32(key) * limit >> 32


def fingerprint32(data: bytes) -> int:
    """FarmHash's 32-bit fingerprint (farmhashmk::Hash32) of at least 13 bytes, the same on every machine."""
    size = len(data)
    if size < 13:
        raise ValueError("fingerprint32 is written for 13 bytes and more")
    return _short(data, size) if size <= 24 else _long(data, size)


def _short(data: bytes, size: int) -> int:
    """13 to 24 bytes."""
    half = size >> 1
    a, b, c = _word(data, half - 4), _word(data, 4), _word(data, size - 8)
    d, e, f = _word(data, half), _word(data, 0), _word(data, size - 4)
    h = (d * _C1 + size) & _MASK
    a = (_rotate(a, 12) + f) & _MASK
    h = (_mur(c, h) + a) & _MASK
    a = (_rotate(a, 3) + c) & _MASK
    h = (_mur(e, h) + a) & _MASK
    a = (_rotate(a + f & _MASK, 12) + d) & _MASK
    h = (_mur(b, h) + a) & _MASK
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _long(data: bytes, size: int) -> int:
    """More than 24 bytes, in blocks of 20 after the tail has been mixed in."""
    tail = [_rotate(_word(data, size - back) * _C1 & _MASK, 17) * _C2 & _MASK for back in (4, 8, 16, 12, 20)]
    h = _turn(_turn(size ^ tail[0]) ^ tail[2])
    g = _turn(_turn(_C1 * size & _MASK ^ tail[1]) ^ tail[3])
    f = (_rotate((_C1 * size + tail[4]) & _MASK, 19) + 113) & _MASK
    for at in range(0, (size - 1) // 20 * 20, 20):
        a, b, c, d, e = struct.unpack_from("<5I", data, at)
        h, g, f = h + a & _MASK, g + b & _MASK, f + c & _MASK
        h = (_mur(d, h) + e) & _MASK
        g = (_mur(c, g) + a) & _MASK
        f = (_mur((b + e * _C1) & _MASK, f) + d) & _MASK
        f = (f + g) & _MASK
        g = (g + f) & _MASK
    g = _rotate(_rotate(g, 11) * _C1 & _MASK, 17) * _C1 & _MASK
    f = _rotate(_rotate(f, 11) * _C1 & _MASK, 17) * _C1 & _MASK
    for other in (g, f):
        h = _rotate(_turn((h + other) & _MASK), 17) * _C1 & _MASK
    return h


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotate(value: int, bits: int) -> int:
    return (value >> bits | value << 32 - bits) & _MASK


def _turn(h: int) -> int:
    return (_rotate(h, 19) * 5 + 0xE6546B64) & _MASK


def _mur(a: int, h: int) -> int:
    return _turn(h ^ _rotate(a * _C1 & _MASK, 17) * _C2 & _MASK)
