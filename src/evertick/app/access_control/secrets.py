"""Secrets of tokens: how they are made, read and compared.

A token reads `evt_<28 hex digits>_<43 letters and digits><6 letters and digits>`: the digits of its id, 256 bits of
chance, and a checksum. The prefix lets scanners for leaked secrets find it, the checksum tells a mistyped token from a
wrong one without the database. The form follows GitHub's tokens.
"""

import hashlib
import hmac
import re
import secrets
import zlib
from typing import Final, NamedTuple

from evertick.base.ids import TOKEN_PREFIX

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_CHARS: Final = 43
"""62 ** 43 is more than 2 ** 256."""
_CHECK_CHARS: Final = 6
_TOKEN: Final = re.compile(rf"evt_([0-9a-f]{{28}})_([0-9A-Za-z]{{{_SECRET_CHARS}}})([0-9A-Za-z]{{{_CHECK_CHARS}}})")


class Presented(NamedTuple):
    """A token as a client sent it."""

    id: str
    digest: str


def new_secret(token_id: str) -> tuple[str, str]:
    """The text of a new token, and the digest that is kept of it."""
    secret = _base62(secrets.randbits(256), _SECRET_CHARS)
    stem = f"evt_{token_id.removeprefix(f'{TOKEN_PREFIX}_')}_{secret}"
    return stem + _check(stem), _digest(secret)


def presented(text: str) -> Presented | None:
    """What a client sent, taken apart; None if it is not a token, or was mistyped."""
    match = _TOKEN.fullmatch(text)
    if match is None or _check(text[:-_CHECK_CHARS]) != match[3]:
        return None
    return Presented(f"{TOKEN_PREFIX}_{match[1]}", _digest(match[2]))


def is_same(digest: str, other: str) -> bool:
    """Whether two digests are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(digest, other)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _check(stem: str) -> str:
    return _base62(zlib.crc32(stem.encode()), _CHECK_CHARS)


def _base62(number: int, chars: int) -> str:
    text = ""
    for _ in range(chars):
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text
