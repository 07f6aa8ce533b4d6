"""`app.tokens`: tokens of the HTTP API.

token = app.tokens.create("billing service", scope="edit", tenant="acme")
print(token.secret)    # shown this once
app.tokens.revoke(token.id)
"""

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from evertick.api.access import NewToken, TokenPage, TokenView
from evertick.app.operations import Awaited, Blocking, reads, writes
from evertick.app.transacting import Work
from evertick.base.errors import Misuse, NotFound
from evertick.base.ids import TOKEN_PREFIX, TenantId, table_of, tenant_named
from evertick.base.instants import MINUTE_MS, Instant, duration_ms
from evertick.base.paging import check_limit
from evertick.base.records.access import AccessToken, Scope
from evertick.store.transaction.transaction import Transaction

# -- Secrets of tokens: how they are generated, parsed and compared.
#
# A token reads `evt_<28 hex digits>_<43 letters and digits><6 letters and digits>`: the digits of its id, 256 random
# bits, and a checksum. The prefix lets scanners for leaked secrets find it. The checksum detects mistyped tokens
# without the database. The form follows GitHub's tokens.

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
    """The text of a new token, and the digest that is stored."""
    secret = _base62(secrets.randbits(256), _SECRET_CHARS)
    stem = f"evt_{token_id.removeprefix(f'{TOKEN_PREFIX}_')}_{secret}"
    return stem + _check(stem), _digest(secret)


def presented(text: str) -> Presented | None:
    """The parsed token that a client sent; None if it is not a token, or was mistyped."""
    match = _TOKEN.fullmatch(text)
    if match is None or _check(text[:-_CHECK_CHARS]) != match[3]:
        return None
    return Presented(f"{TOKEN_PREFIX}_{match[1]}", _digest(match[2]))


def is_same(digest: str, other: str) -> bool:
    """Whether two digests are equal, in a time that does not reveal where they differ."""
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


NAME_CHARS_MAX: Final = 200
PAGE_MAX: Final = 1_000
EXPIRES_AFTER: Final = timedelta(days=90)
EXPIRES_MAX_MS: Final = 10 * 366 * 24 * 60 * MINUTE_MS


@dataclass(slots=True, eq=False, repr=False)
class TokenOperations:
    """Operations on tokens, as work for a transaction; `actor` is recorded as their creator."""

    _actor: str
    _now: Callable[[], Instant]
    _make_id: Callable[[str, Instant], str]

    @writes
    def create(
        self,
        name: str,
        *,
        scope: Scope | str = Scope.READ,
        tenant: str | None = None,
        expires_after: float | timedelta | None = EXPIRES_AFTER,
    ) -> Work[NewToken]:
        """Create a token. Its `secret` is in the result, and is not stored.

        `scope`: read, operate, edit or admin; each includes those before it. `tenant`: the tenant whose data it can
        access; with None all tenants, and what belongs to no tenant, such as pools. `expires_after`: seconds or a
        timedelta, by default 90 days; with None it does not expire.

        Raises Misuse for another scope or a name that is not printable text of 1 to 200 characters, InvalidTenant.
        """
        if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name.strip()) <= NAME_CHARS_MAX:
            raise Misuse(f"a token's name must be printable text of 1 to {NAME_CHARS_MAX} characters, not {name!r}")
        chosen, whose = _scope(scope), None if tenant is None else tenant_named(tenant)
        lasts_ms = None if expires_after is None else duration_ms(expires_after, name="expires_after")
        if lasts_ms is not None and not 0 < lasts_ms <= EXPIRES_MAX_MS:
            raise Misuse("expires_after= must be a time of up to ten years, or None for a token that does not expire")

        def work(transaction: Transaction) -> NewToken:
            now = self._now()
            expires_at = None if lasts_ms is None else Instant(now + lasts_ms)
            return self._make(transaction, AccessToken("", whose, name, chosen, "", now, self._actor, expires_at))

        return work

    @reads
    def get(self, token_id: str) -> Work[TokenView]:
        """A token, without its secret. Raises NotFound."""
        return lambda transaction: TokenView.of(_found(transaction, token_id))

    @reads
    def list(self, *, tenant: str | None = None, limit: int = 100, cursor: str | None = None) -> Work[TokenPage]:
        """Tokens of a tenant, or all tokens if it is None, oldest first; at most `limit`, up to 1,000.

        Revoked and expired tokens are included. Raises LimitExceeded, InvalidTenant.
        """
        whose = None if tenant is None else tenant_named(tenant)
        check_limit(limit, PAGE_MAX)
        if cursor is not None and table_of(cursor) != TOKEN_PREFIX:
            raise Misuse(f"{cursor!r} is not the cursor of a list of tokens")

        def work(transaction: Transaction) -> TokenPage:
            found = transaction.list_tokens(whose, after=cursor or "", limit=limit + 1)
            page = found[:limit]
            return TokenPage(
                tokens=tuple(TokenView.of(token) for token in page),
                cursor=page[-1].id if len(found) > limit else None,
            )

        return work

    @writes
    def revoke(self, token_id: str) -> Work[TokenView]:
        """Revoke a token at once; a revoked token stays revoked. Raises NotFound."""

        def work(transaction: Transaction) -> TokenView:
            _found(transaction, token_id)
            transaction.revoke_token(token_id, now=self._now())
            return TokenView.of(_found(transaction, token_id))

        return work

    @writes
    def rotate(self, token_id: str) -> Work[NewToken]:
        """Replace a token by a new one with the same name, scope, tenant and lifetime; the old one is revoked at once.

        The new token gets the saved views of the old one. Raises NotFound, Misuse for a revoked token.
        """

        def work(transaction: Transaction) -> NewToken:
            old, now = _found(transaction, token_id), self._now()
            if not transaction.revoke_token(token_id, now=now):
                raise Misuse(f"the token {token_id} was revoked; create a new one")
            lasts_ms = None if old.expires_at is None else old.expires_at - old.created_at
            fresh = old._replace(
                created_at=now,
                created_by=self._actor,
                expires_at=None if lasts_ms is None else Instant(now + lasts_ms),
                revoked_at=None,
                last_used_at=None,
            )
            made = self._make(transaction, fresh)
            transaction.transfer_views(token_id, to=made.id)
            return made

        return work

    def _make(self, transaction: Transaction, token: AccessToken) -> NewToken:
        token_id = self._make_id(TOKEN_PREFIX, token.created_at)
        secret, digest = new_secret(token_id)
        made = token._replace(id=token_id, digest=digest)
        transaction.add_token(made)
        return NewToken.with_secret(made, secret)


class Tokens(Blocking[TokenOperations], TokenOperations):
    """Creates, lists, rotates and revokes tokens of the HTTP API (`app.tokens`). Each call is its own transaction."""


class AsyncTokens(Awaited[TokenOperations], TokenOperations):
    """`app.aio.tokens`: like `Tokens`, but every call is awaited."""


def verified(text: str, now: Instant) -> Work[AccessToken | None]:
    """The token that a client presents; None if it is unknown, revoked or expired."""
    given = presented(text)

    def work(transaction: Transaction) -> AccessToken | None:
        token = None if given is None else transaction.get_token(given.id)
        if token is None or given is None or not is_same(token.digest, given.digest):
            return None
        is_over = token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now)
        return None if is_over else token

    return work


def _found(transaction: Transaction, token_id: str) -> AccessToken:
    token = transaction.get_token(token_id)
    if token is None:
        raise no_token(token_id)
    return token


def no_token(token_id: str) -> NotFound:
    """The error for a token that does not exist or belongs to another tenant; both must read the same."""
    return NotFound(f"no token {token_id!r}; list them with `evertick token list`")


def _scope(given: Scope | str) -> Scope:
    try:
        return Scope(given)
    except ValueError:
        raise Misuse(f"{given!r} is not a scope of a token; use one of {', '.join(Scope)}") from None


def may_reach(token: AccessToken, tenant: TenantId | None) -> bool:
    """Whether a token can access a tenant's data; a tenant of None means what belongs to no tenant."""
    return token.tenant is None or token.tenant == tenant
