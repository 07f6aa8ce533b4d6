"""Addresses of PostgreSQL: the settings that Evertick adds for the driver, and its own parameters.

`pgbouncer=true` or `false` is whether each transaction may get another session; without it the first connection
finds out. `listen=HOST:PORT` is the server itself behind such a pooler, for LISTEN, which needs a session that
lasts. `schema` is for statements (`store/location.py`).
"""

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from evertick.base.errors import InvalidDatabaseUrl
from evertick.store.addresses import postgres_parts, shown

CONNECT_TIMEOUT_S: Final = 5
CONNECT_TIMEOUT_OF_MANY_S: Final = 2
"""For each of several hosts: one that is gone and says nothing must not hold up the way to the next."""
SESSION: Final[Mapping[str, str]] = {
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "enable_seqscan": "off",
    "jit": "off",
    "statement_timeout": "0",
    "client_min_messages": "notice",
}
"""Settings of every session, unless the address says otherwise; those of the role and of the database do not count.

* A sequential scan of a small table makes a SERIALIZABLE transaction conflict with every writer of that table: eight
  threads that changed each its own of 20 documents met 2,359 conflicts in 1,200 transactions with it, and 3 without.
  What is scanned all the same looks so expensive that it would be compiled first (`jit`).
* A function's own time limit ends its statements; migrations and reads of large tables take as long as they take.
* A notice reports a commit that did not wait for its standby."""
REQUIRED: Final[Mapping[str, str]] = {
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "standard_conforming_strings": "on",
}
"""Settings that the code relies on, whatever the address, the environment, the role or the database says. Through a
pooler, which knows no options of sessions, they are compared with those of the role (`Connections.connect`).

* Statements that commit by themselves (claims, leases) lock the rows that they change, and are not serializable.
* A deferrable read would wait for other transactions before it begins.
* Texts in statements contain backslashes.

Not set: `TimeZone`, `DateStyle`, `IntervalStyle`, `bytea_output`, `extra_float_digits` (no Evertick statement depends
on them, and those of functions may), `search_path` and `role` (the place of the tables, and the rights that count),
`default_transaction_read_only` (a server that is to be read only must not be written to), `synchronous_commit`."""
ENCODING: Final = {"client_encoding": "UTF8"}
"""A parameter of the connection, which poolers know, too. Other encodings can neither write nor read every text."""
_RELAXED: Final = {"synchronous_commit": "off", "plan_cache_mode": "force_generic_plan"}
"""Claims alone are made there: their plans do not depend on what they ask for, and planning is most of their cost."""
_OWN: Final = ("pgbouncer", "listen", "schema")
_WORDS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class PostgresAddress:
    """An address `postgresql://...`, read."""

    def __init__(self, url: str) -> None:
        """Raises InvalidDatabaseUrl if it is not such an address."""
        self._parts = postgres_parts(url)
        # As libpq reads it: a + is no space, and what is empty is given all the same.
        query = dict(parse_qsl(self._parts.query.replace("+", "%2B"), keep_blank_values=True))
        self.is_pooled = _is_pooled(query.get("pgbouncer"), url)
        """Whether it says that there is a pooler, or that there is none; None if it says nothing."""
        self.listens_at = query.get("listen") or None
        """HOST:PORT for LISTEN, if that is another than for everything else."""
        self._query = {name: value for name, value in query.items() if name not in _OWN}
        self.hosts = self._hosts()

    def conninfo(self, *, pooled: bool, relaxed: bool = False) -> str:
        """The address for the driver. A pooler knows no options of sessions; with `relaxed` commits do not wait for
        the disk.
        """
        query = dict(self._query)
        if not pooled:
            usual = _options({**SESSION, **(_RELAXED if relaxed else {})})
            query["options"] = f"{usual} {query.get('options', '')} {_options(REQUIRED)}"  # the last one counts
        return self._merged(query, self._parts.netloc)

    def conninfo_to_listen(self) -> str:
        """The address of the server itself, with the user and password of the address."""
        user, separator, _ = self._parts.netloc.rpartition("@")
        query = {name: value for name, value in self._query.items() if name not in ("host", "port", "hostaddr")}
        return self._merged(query, f"{user}{separator}{self.listens_at}")

    def _merged(self, query: Mapping[str, str], netloc: str) -> str:
        timeout_s = CONNECT_TIMEOUT_OF_MANY_S if len(self.hosts) > 1 else CONNECT_TIMEOUT_S
        defaults = {
            # The library's own variable counts: written here, a default would win over it.
            "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", str(timeout_s)),
            "application_name": "evertick",
            "target_session_attrs": "read-write",
            "tcp_user_timeout": "10000",
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "3",
        }
        merged = urlencode({**defaults, **query, **ENCODING}, quote_via=quote)
        # By hand: `urlunsplit` drops the slashes of an address without a host, which means the local socket.
        return f"{self._parts.scheme}://{netloc}{self._parts.path}?{merged}"

    def _hosts(self) -> list[dict[str, str]]:
        """The servers that it names, each as the driver's parameters; empty if the driver would refuse the address."""
        bare = (
            f"{self._parts.scheme}://{self._parts.netloc}{self._parts.path}?{urlencode(self._query, quote_via=quote)}"
        )
        try:
            found = conninfo_to_dict(bare)
        except psycopg.ProgrammingError:
            return []  # connecting says what is wrong with it
        lists = {name: str(found[name]).split(",") for name in ("host", "hostaddr", "port") if found.get(name)}
        count = max((len(values) for values in lists.values()), default=0)
        return [
            {name: values[place if len(values) > 1 else 0] for name, values in lists.items()} for place in range(count)
        ]


def _options(settings: Mapping[str, str]) -> str:
    """Settings as the command line of a session."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())


def _is_pooled(word: str | None, url: str) -> bool | None:
    if word is None:
        return None
    if word.lower() not in _WORDS:
        raise InvalidDatabaseUrl(f"{shown(url)}: pgbouncer={word} is neither true nor false")
    return _WORDS[word.lower()]
