"""Addresses of databases: how they are shown, and the errors of malformed ones."""

import re
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from evertick.base.errors import InvalidDatabaseUrl

_KIND: Final = r"(?:(?:postgres(?:ql)?|sqlite):/{0,2}|[\w+.-]+://)"
_USER: Final = re.compile(rf"\A((?:{_KIND}|(?!{_KIND}))/*[^:@/?#]*:).*(?=@)", re.DOTALL)
"""The text between the first colon after the kind and the last @ is a password, whatever characters it has."""
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The parameters of libpq that contain a secret; its other ones are names of files, servers and methods."""
_NAMES: Final = "|".join("".join(f"(?:{sign}|%{ord(sign):02x})" for sign in each) for each in _SECRETS)
"""Each character may be percent-encoded."""
_PARAMETER: Final = re.compile(rf"((?<![\w%])(?:{_NAMES})\s*=).*?(?=[\s&]\s*[\w%]+\s*=|\Z)", re.DOTALL | re.IGNORECASE)
_NEEDS_ESCAPE: Final = re.compile(r"[@\s]|%(?![0-9A-Fa-f]{2})")


def shown(url: str) -> str:
    """The address as it may be printed: without the password, even if that makes the address invalid."""
    return _PARAMETER.sub(r"\1***", _USER.sub(r"\1***", url))


def postgres_parts(url: str) -> SplitResult:
    """The parts of `postgresql://...`.

    Raises InvalidDatabaseUrl if it is not such an address, or if user or password have characters that need an escape:
    the driver's error would quote the password.
    """
    try:
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
    except ValueError as error:
        raise InvalidDatabaseUrl(f"{shown(url)} is no PostgreSQL address: {error}") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise InvalidDatabaseUrl(f"{shown(url)} is no PostgreSQL address; write postgresql://USER@HOST/DATABASE")
    if parts.fragment or "@" in parts.path + parts.query or _NEEDS_ESCAPE.search(user):
        raise InvalidDatabaseUrl(
            f"{shown(url)} is no PostgreSQL address: in names and passwords write %23 for #, %25 for %, %2F for /, "
            "%3F for ?, %40 for @ and %20 for a space"
        )
    return parts


def servers_in(url: str) -> int:
    """The number of servers in an address; with more than one, a failover can be followed."""
    if not url.startswith(("postgresql:", "postgres:")):
        return 1
    parts = postgres_parts(url)
    query = parse_qs(parts.query)
    named = query.get("host") or query.get("hostaddr") or [parts.netloc.rpartition("@")[2]]
    return named[0].count(",") + 1
