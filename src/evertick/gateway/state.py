"""What a gateway keeps of its registration: its own secret, and the hashes of the tokens with which it is asked.

It is one small JSON file that only its owner may read. It is replaced whole, so a kill leaves the old or the new one.
"""

import contextlib
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from evertick.base.errors import Misuse

OVERLAP_S: Final = 600
"""How long the tokens before a rotation are valid after it."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Under which id and secret the gateway is registered at a platform."""

    platform: str
    gateway_id: str
    secret: str


@dataclass(frozen=True, slots=True)
class KnownToken:
    """The hash of a token that callers may bring, and until when (seconds since the epoch; None is without end)."""

    sha256: str
    until: float | None = None


class State:
    """The file, as it was read and as it is written. `local_token` is that of local callers, if there is one."""

    def __init__(self, file: Path, local_token: str | None = None) -> None:
        """Raises Misuse for a file that others may read, or that is damaged."""
        self._file = file
        self._local = None if local_token is None else hash_of(local_token)
        self.registration: Registration | None = None
        self.tokens: tuple[KnownToken, ...] = ()
        text = read_secret(file)
        if text is not None:
            try:
                found = json.loads(text)
                self.registration = None if found["registration"] is None else Registration(**found["registration"])
                self.tokens = tuple(KnownToken(**each) for each in found["tokens"])
            except (ValueError, KeyError, TypeError) as error:
                raise Misuse(f"{file} is damaged; remove it and register again with a new join token") from error

    def registered(self, registration: Registration, access_token: str | None) -> None:
        """Keep a registration. Tokens of one before it are not valid any more."""
        self.tokens = ()
        self.rotated(registration, access_token, 0.0)

    def rotated(self, registration: Registration, access_token: str | None, now: float) -> None:
        """Keep what a rotation has brought. Tokens that were valid until now stay so for OVERLAP_S."""
        ends = now + OVERLAP_S
        kept = [each for each in self.tokens if each.until is None or each.until > now]
        self.tokens = tuple(KnownToken(each.sha256, min(each.until or ends, ends)) for each in kept)
        if access_token is not None:
            self.tokens = (KnownToken(hash_of(access_token)), *self.tokens)
        self.registration = registration
        self._write()

    def is_token(self, token: str, now: float) -> bool:
        """Whether a token is valid."""
        known = {each.sha256 for each in self.tokens if each.until is None or each.until > now}
        return hash_of(token) in known | {self._local}

    def _write(self) -> None:
        registration = None if self.registration is None else asdict(self.registration)
        write_secret(self._file, json.dumps({"registration": registration, "tokens": [*map(asdict, self.tokens)]}))


def hash_of(token: str) -> str:
    """The hash of a token, as it is kept."""
    return sha256(token.encode()).hexdigest()


def read_secret(file: Path) -> str | None:
    """The text of a file with a secret; None if there is none. Raises Misuse for one that others may read."""
    try:
        with file.open() as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise Misuse(f"{file} holds a secret and others may read it; run: chmod 600 {file}")
            return opened.read(1 << 20)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise Misuse(f"{file} cannot be read: {error}") from None


def write_secret(file: Path, text: str) -> None:
    """Replace a file with a secret; only its owner may read it."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise Misuse(f"{file} cannot be written: {error.strerror}") from None


def local_token(file: Path | None) -> str | None:
    """The token of local callers; it is made if its file does not exist. Raises Misuse."""
    if file is None:
        return None
    if (found := read_secret(file)) is None:
        found = f"evl_{secrets.token_urlsafe(32)}"
        write_secret(file, found + "\n")
    if len(found.strip()) < 20:
        raise Misuse(f"{file} has a token of less than 20 characters, which can be guessed; remove it for a new one")
    return found.strip()
