"""Ids: a type for each kind of id, and the code that creates them.

An id has the form `<table>_<28 hex digits>`: 12 digits of milliseconds, 3 of a sequence inside the millisecond, 13
random ones. So an id contains its table. Ids of one process sort in the order of creation, which is the creation order
of documents and keeps index writes close together. Two machines never create the same id.
"""

import hashlib
import math
import os
import random
import re
import threading
import unicodedata
import weakref
from functools import lru_cache
from typing import Final, NewType, Protocol

from evertick.base.errors import InvalidTenant, Misuse
from evertick.base.instants import Instant
from evertick.base.options import shown

JobId = NewType("JobId", str)
"""A job: a document of the system table `_scheduled_functions`."""

WorkerId = NewType("WorkerId", str)
"""One start of a worker: random, because host names and process ids are reused."""

ScheduleId = NewType("ScheduleId", str)
TenantId = NewType("TenantId", str)
QueueId = NewType("QueueId", int)
"""The jobs of one function in one pool: see `queue_of`."""

DEFAULT_TENANT: Final = TenantId("default")
DOTS: Final = (".", "..")
"""No id that is part of a URL can be one of these: programs resolve them as path segments, also as `%2E`."""
OWN_TENANT: Final = "~"
"""In paths of the HTTP API: the tenant of the token, or the default one. No tenant can have this name."""
DEFAULT_POOL: Final = "default"
"""The pool of functions without a `pool=`."""
POOL_SEPARATOR: Final = "/"
"""Separates app and pool in a pool's full name; no app's name contains it."""
TENANT_CHARS_MAX: Final = 128
POOL_CHARS_MAX: Final = 100
JOB_PREFIX: Final = "job"
WORKER_PREFIX: Final = "worker"
HISTORY_PREFIX: Final = "history"
TOKEN_PREFIX: Final = "token"  # noqa: S105
AUDIT_PREFIX: Final = "audit"
VIEW_PREFIX: Final = "view"

_POOL: Final = re.compile(f"[A-Za-z0-9._-]{{1,{POOL_CHARS_MAX}}}")
_ID: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})_([0-9a-f]{28})")
_SEQUENCE_MAX: Final = 0xFFF
_QUEUE_BITS: Final = (1 << 62) - 1


class Entropy(Protocol):
    """A source of random numbers. `random.Random` is one; simulations pass a seeded one."""

    def getrandbits(self, k: int, /) -> int:
        """A non-negative integer of `k` random bits."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


_seeded_by_system: Final = weakref.WeakSet[random.Random]()


def system_entropy() -> Entropy:
    """Random numbers from a seed of the operating system. Ids need to be unique, not secret.

    A forked child gets a seed of its own. Otherwise a web server's workers, forked from a process that has imported the
    app, would create the same ids in the same millisecond.
    """
    entropy = random.Random()
    _seeded_by_system.add(entropy)
    return entropy


def _seed_again() -> None:
    for entropy in _seeded_by_system:
        entropy.seed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_seed_again)


class IdMaker:
    """Creates ascending ids, also when the clock stands still or is set back."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._lock = threading.Lock()
        self._last_ms = 0
        self._sequence = 0

    def make(self, prefix: str, now: Instant) -> str:
        """Create an id for a row of the table `prefix`, greater than every earlier id of this maker."""
        with self._lock:
            if now > self._last_ms:
                self._last_ms, self._sequence = now, 0
            elif self._sequence < _SEQUENCE_MAX:
                self._sequence += 1
            else:
                self._last_ms, self._sequence = self._last_ms + 1, 0
            return f"{prefix}_{self._last_ms:012x}{self._sequence:03x}{self._entropy.getrandbits(52):013x}"


def check_addressable(name: object, what: str, error: type[Misuse] = Misuse) -> None:
    """Raise `error` for a name that no URL path can contain; `what` begins its message: "a pool"."""
    if name in DOTS:
        raise error(f"{what} cannot be called {name!r}: addresses of the HTTP API cannot contain this name")


def tenant_named(name: str) -> TenantId:
    """The id of the tenant called `name`. Names are compared character by character.

    Raises InvalidTenant unless it is printable text of 1 to 128 characters, in Unicode's composed form (NFC), without
    a space at either end: two tenants must not look alike in a log. "~" is invalid: in the HTTP API it means the tenant
    of a request's token. "." and ".." are invalid too, because no URL path can contain them.
    """
    check_addressable(name, "a tenant", InvalidTenant)
    if name == OWN_TENANT:
        raise InvalidTenant(f"a tenant cannot be called {OWN_TENANT!r}: in the HTTP API this is the token's own tenant")
    if isinstance(name, str) and 1 <= len(name) <= TENANT_CHARS_MAX and name.isprintable() and name.strip() == name:
        if name.isascii() or unicodedata.is_normalized("NFC", name):
            return TenantId(name)
        raise InvalidTenant(f"the tenant's name {name!r} is not in Unicode's composed form; normalize it to NFC first")
    raise InvalidTenant(
        f"{shown(name)} cannot be a tenant's name: it is printable text of 1 to {TENANT_CHARS_MAX} characters, "
        "without a space at either end"
    )


def table_of(value: str) -> str | None:
    """The table in an id, or None if `value` is not an id."""
    match = _ID.fullmatch(value)
    return match.group(1) if match else None


def after_foreign_ids(prefix: str, foreign: str, *, descending: bool) -> str:
    """The position from which to continue a scan for ids `<prefix><28 hex digits>` after it has found the id `foreign`.

    `foreign` is an id of another table whose name starts with the same text. The position is behind all ids that start
    as `foreign` does.
    """
    suffix = foreign[len(prefix) :]
    digits = len(suffix) - len(suffix.lstrip("0123456789abcdef"))
    return prefix + suffix[: min(digits, 27) + 1] + ("!" if descending else "\x7f")


def creation_time_ms(value: str) -> float:
    """The creation time of an id: milliseconds since the epoch, with the sequence as a fraction (exact in a float)."""
    return int(value[-28:-16], 16) + int(value[-16:-13], 16) / 4096


def first_id_from(table: str, time_ms: float) -> str:
    """A lower bound of the ids of `table` that were created at `time_ms` or later; all earlier ids are below it."""
    sequence_max = 16**15 - 1
    if time_ms * 4096 > sequence_max:
        return f"{table}_\x7f"
    return f"{table}_{max(0, math.ceil(time_ms * 4096)):015x}"


def check_pool(name: str) -> None:
    """Raise Misuse unless `name` can be the name of a pool: letters, digits and `-_.`, up to POOL_CHARS_MAX."""
    check_addressable(name, "a pool")
    if not isinstance(name, str) or not _POOL.fullmatch(name):
        raise Misuse(f"a pool's name is 1 to {POOL_CHARS_MAX} letters, digits, '-', '_' and '.', not {shown(name)}")


def full_pool(app: str, pool: str) -> str:
    """The name of an app's pool in a database that several apps share: `shop/mail`."""
    return f"{app}{POOL_SEPARATOR}{pool}"


def app_of(pool: str) -> str | None:
    """The app to which a pool belongs; None for a pool without an app.

    Jobs without an app were written by a process without the app's code. Workers of every app that has the function run
    them.
    """
    app, separator, _ = pool.rpartition(POOL_SEPARATOR)
    return app if separator else None


def pool_name(pool: str) -> str:
    """A pool's name inside its app."""
    return pool.rpartition(POOL_SEPARATOR)[2]


@lru_cache(maxsize=4_096)
def queue_of(pool: str, function: str) -> QueueId:
    """The id of the queue of a function in a pool, by its full name.

    It is computed, so that writing a job needs no query. A release that writes jobs in a newer format computes other
    queues for them, so that workers of earlier releases do not claim them. With 10,000 queues in a database, the
    chance that two share an id is 1 in 90 billion.
    """
    digest = hashlib.sha256(f"{pool}\n{function}".encode()).digest()
    return QueueId(int.from_bytes(digest[:8], "big") & _QUEUE_BITS)
