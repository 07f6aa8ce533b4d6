"""The platform's side for gateways that register: registration, heartbeats, rotation, and requests to fetch.

A gateway proves its identity with a secret; the database stores only its SHA-256. If two processes have the same name,
the one that registered or sent a heartbeat last is the gateway: the end of an older process removes nothing.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from evertick.api.gateway_fleet import (
    FetchedReply,
    FetchedRequest,
    Heartbeat,
    HeartbeatReply,
    RegisteredGateway,
    Registration,
)
from evertick.app.environment import Environment
from evertick.app.gateways.connections import access_token, check_address
from evertick.app.transacting import Transact
from evertick.base.errors import Conflict, Misuse, UnknownSecret
from evertick.base.escaping import shortened
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.options import check_options, text
from evertick.base.records.gateways import GatewayRow, StoredHeartbeat
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

GATEWAY_PREFIX: Final = "gw"
JOIN_PREFIX: Final = "evgj_"
SECRET_PREFIX: Final = "evgs_"  # noqa: S105
OVERLAP_MS: Final = 10 * MINUTE_MS
"""Milliseconds for which an old secret stays valid."""
WORDS: Final = text(200, printable=True)
LIST_MAX: Final = 100
"""Warnings, capabilities and commands of a gateway that are stored."""
WORD_CHARS_MAX: Final = 500


def hash_of(secret: str) -> str:
    """The hash that is stored of a secret."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def kept(words: Sequence[str]) -> str:
    """A list of untrusted words as it is stored: JSON, bounded, printable."""
    return json.dumps([shortened(word, WORD_CHARS_MAX) for word in words[:LIST_MAX]])


def new_join_token() -> str:
    """A new join token."""
    return JOIN_PREFIX + secrets.token_urlsafe(32)


class Joining:
    """Requests of gateways to the platform."""

    def __init__(self, environment: Environment, write: Transact) -> None:
        self._e, self._write = environment, write

    def register(self, said: Registration) -> RegisteredGateway:
        """Register a gateway under the name of its join token. The token can be used once.

        Raises UnknownSecret for a token that is unknown, used, expired or of another name; Misuse for an invalid
        address, for one at a host that is not allowed, or without the platform's key.
        """
        check_options({"name": WORDS, "instance_id": WORDS, "runtime": WORDS}, {
            "name": said.name, "instance_id": said.instance_id, "runtime": said.runtime,
        })  # fmt: skip
        if said.url is not None:
            check_address(said.url)
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)

        def work(transaction: Transaction) -> RegisteredGateway:
            now = self._e.clock.now()
            found = transaction.take_join_token(hash_of(said.join_token))
            if found is None or found[2] <= now:
                raise UnknownSecret(
                    "this join token is unknown, used or expired; make one: evertick gateway join-token NAME"
                )
            tenant, name, _ = found
            if name != said.name:
                raise UnknownSecret(f"this join token belongs to another gateway name, not to {said.name!r}")
            before = transaction.get_gateway(name, tenant=tenant)
            row = GatewayRow(
                id=self._e.ids.make(GATEWAY_PREFIX, now) if before is None else before.id,
                tenant=tenant,
                name=name,
                secret=hash_of(secret),
                old_secret=None,
                old_until=Instant(0),
                generation=1 if before is None else before.generation + 1,
                rotates=0,
                url=said.url,
                runtime=said.runtime,
                version=said.version[:WORD_CHARS_MAX],
                instance_id=said.instance_id,
                former_id="" if before is None else before.instance_id,
                status="healthy",
                warnings="[]",
                capabilities=kept(said.capabilities),
                commands="[]",
                registered_at=now if before is None else before.registered_at,
                last_seen_at=now,
                digest="",
                copied_digest="" if before is None else before.copied_digest,
                copied_at=None if before is None else before.copied_at,
                error=None,
                sync_at=now,
                syncs=0 if before is None else before.syncs + 1,
            )
            token = None if said.url is None else access_token(row.id, row.generation)
            transaction.save_gateway(row)
            return RegisteredGateway(gateway_id=row.id, secret=secret, access_token=token)

        return self._write(work)

    def heartbeat(self, secret: str, said: Heartbeat) -> HeartbeatReply:
        """Record the state of a gateway. Raises UnknownSecret."""
        beat = StoredHeartbeat(said.status, kept(said.warnings), said.version[:200], said.digest[:200])

        def work(transaction: Transaction, row: GatewayRow, now: Instant) -> HeartbeatReply:
            if _present(transaction, row, said.instance_id) is None:
                return HeartbeatReply(rotate=False, superseded=True)
            rotates, _ = transaction.beat_gateway(row.id, beat, now=now)
            return HeartbeatReply(rotate=rotates or hash_of(secret) != row.secret)

        return self._as(secret, work)

    def rotate(self, secret: str) -> RegisteredGateway:
        """A new secret and a new token for a gateway; the secret that it used stays valid for OVERLAP_MS.

        So a gateway that did not receive the reply can ask again. Raises UnknownSecret.
        """
        fresh = SECRET_PREFIX + secrets.token_urlsafe(32)

        def work(transaction: Transaction, row: GatewayRow, now: Instant) -> RegisteredGateway:
            is_old = hash_of(secret) != row.secret
            row = row._replace(
                secret=hash_of(fresh),
                old_secret=row.old_secret if is_old else row.secret,
                old_until=row.old_until if is_old else Instant(now + OVERLAP_MS),
                generation=row.generation + 1,
                rotates=0,
            )
            token = None if row.url is None else access_token(row.id, row.generation)
            transaction.save_gateway(row)
            return RegisteredGateway(gateway_id=row.id, secret=fresh, access_token=token)

        return self._as(secret, work)

    def deregister(self, secret: str, instance_id: str) -> bool:
        """Record the end of a process: the gateway is offline at once, and stays registered for its next process.

        Returns False, and changes nothing, if a later process is now the gateway. Raises UnknownSecret.
        """

        def work(transaction: Transaction, row: GatewayRow, now: Instant) -> bool:
            if row.instance_id != instance_id:
                return False
            transaction.save_gateway(row._replace(instance_id="", former_id=instance_id))
            return True

        return self._as(secret, work)

    def fetch(self, secret: str, instance_id: str, replies: Sequence[FetchedReply]) -> tuple[str, list[FetchedRequest]]:
        """Store the replies of a gateway that dials out; returns its id and its new requests.

        Raises UnknownSecret, Conflict for a process that a later one has replaced.
        """

        def work(transaction: Transaction, row: GatewayRow, now: Instant) -> tuple[str, list[FetchedRequest]]:
            if row.url is not None:
                raise Misuse(f"the gateway {row.name} has an address, so the platform calls it there")
            if _present(transaction, row, instance_id) is None:
                raise Conflict(f"a later process of the gateway {row.name} fetches its requests; stop this one")
            for each in replies:
                transaction.reply_to_request(each.id, row.id, status=each.status, reply=each.body, now=now)
            found = transaction.take_gateway_requests(row.id, now=now)
            return row.id, [FetchedRequest(id=request_id, **json.loads(request)) for request_id, request in found]

        return self._as(secret, work)

    def _as(self, secret: str, work: Callable[[Transaction, GatewayRow, Instant], T]) -> T:
        def found(transaction: Transaction) -> T:
            now = self._e.clock.now()
            row = transaction.gateway_by_secret(hash_of(secret), now=now)
            if row is None:
                raise UnknownSecret("no gateway has this secret; it was removed or its secret replaced: register again")
            return work(transaction, row, now)

        return self._write(found)


def _present(transaction: Transaction, row: GatewayRow, instance_id: str) -> GatewayRow | None:
    """The gateway with this process recorded; None for a process that a later one has replaced."""
    if instance_id == row.instance_id:
        return row
    if instance_id == row.former_id:
        return None
    row = row._replace(instance_id=instance_id[:200], former_id=row.instance_id or row.former_id)
    transaction.save_gateway(row)
    return row
