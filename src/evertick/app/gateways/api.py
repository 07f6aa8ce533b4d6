"""`app.gateways`: gateways of a tenant and their crons, and schedules that run commands of gateways.

The crons belong to the gateways. Lists show a copy, with the time when it was current. A change is made at the gateway
during the call. If the gateway is offline, nothing is changed and nothing is queued.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, Unpack

from pydantic import BaseModel, ValidationError

from evertick.api.gateway_fleet import FleetCron, FleetCrons, GatewayView, JoinToken
from evertick.api.gateways import RUNS_MAX, CronChanges, GatewayCron, GatewayCronChange, GatewayRun, NewGatewayCron
from evertick.app.environment import Environment
from evertick.app.functions.explaining import problems_of
from evertick.app.functions.function import Action, FunctionCall
from evertick.app.gateways.commands import OFFLINE, command_function
from evertick.app.gateways.connections import client_of, health_of, require_online
from evertick.app.gateways.joining import WORDS, Joining, hash_of, new_join_token
from evertick.app.gateways.syncing import SYNC_MS, sync
from evertick.app.operations import InThread
from evertick.app.registry import Registry
from evertick.app.transacting import Audited, Transact, Work, unaudited
from evertick.base.errors import (
    CronNotFound,
    EvertickError,
    GatewayNotFound,
    GatewayUnreachable,
    InvalidCron,
    Misuse,
    OutcomeUnknown,
)
from evertick.base.ids import TenantId
from evertick.base.instants import MINUTE_MS, SECOND_MS, Instant, to_datetime, to_datetime_or_none
from evertick.base.options import TEXT, check_options, number, one_of, shown, shown_options, whole
from evertick.base.paging import decode_cursor, encode_cursor, wrong_cursor
from evertick.base.records.gateways import GatewayCronRow, GatewayRow
from evertick.base.suggested_commands import did_you_mean
from evertick.gateway_client import GatewayClient, check_name
from evertick.store.transaction.transaction import Transaction

S = TypeVar("S", bound=BaseModel)
T = TypeVar("T")

LIST_MAX: Final = 1_000
JOIN_S: Final = 3_600
SECONDS: Final = number(1, 30 * 24 * 3_600)
OVERDUE_MS: Final = MINUTE_MS
FIRST: Final = (Instant(-(2**53)), "", "")


class Access(Protocol):
    """The attributes of `app.tenant(...)` that this module uses."""

    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def _ways(self) -> tuple[Transact, Transact]: ...


class AppAccess(Access, Protocol):
    """The attributes of an app that this module uses."""

    @property
    def name(self) -> str: ...
    @property
    def functions(self) -> Registry: ...


class TenantGateways:
    """The gateways of one tenant."""

    def __init__(self, access: Access, function: Callable[[], Action[..., Any]], audited: Audited = unaudited) -> None:
        self._access = access
        self._function = function
        self._audited = audited

    def audited_by(self, audited: Audited) -> "TenantGateways":
        """The same gateways; changes through the result are recorded in the audit log."""
        return TenantGateways(self._access, self._function, audited)

    @property
    def aio(self) -> "AsyncGateways":
        """The same methods for an event loop: every call is awaited."""
        return AsyncGateways(self)

    @property
    def joining(self) -> Joining:
        """Requests of gateways to the platform, for all tenants."""
        return Joining(self._access.environment, self._access._ways[1])

    # -- gateways

    def join_token(self, name: str, *, expires_in: float = JOIN_S) -> JoinToken:
        """A token with which a gateway registers once, under `name`, within `expires_in` seconds.

        A gateway that is already registered under this name keeps its crons here. Its old secret becomes invalid when
        the new process has registered.
        """
        check_options({"expires_in": SECONDS}, {"expires_in": expires_in})
        check_name(name)
        tenant, token = self._access.tenant_id, new_join_token()

        def work(transaction: Transaction) -> JoinToken:
            now = self._now()
            until = Instant(now + int(expires_in * SECOND_MS))
            transaction.add_join_token(hash_of(token), tenant=tenant, name=name, now=now, until=until)
            return JoinToken(token="", name=name, expires_at=to_datetime(until))  # for the audit log

        made = self._write(self._audited(work, "gateway.join_token", name))
        return made.model_copy(update={"token": token})

    def list(self, *, after: str = "", limit: int = 100) -> Sequence[GatewayView]:
        """Gateways by name, after the name `after`."""
        check_options({"limit": whole(1, LIST_MAX), "after": TEXT}, {"limit": limit, "after": after})
        now = self._now()
        rows = self._read(
            lambda transaction: transaction.list_gateways(self._access.tenant_id, after=after, limit=limit)
        )
        return [_view(row, now) for row in rows]

    def get(self, name: str) -> GatewayView:
        """One gateway. Raises GatewayNotFound."""
        return _view(self._row(name), self._now())

    def remove(self, name: str) -> None:
        """Remove a gateway and the copies of its crons; the gateway continues to run them. Raises GatewayNotFound."""

        def work(transaction: Transaction) -> None:
            transaction.delete_gateway(self._found(transaction, name).id)

        self._write(self._audited(work, "gateway.remove", name))

    def rotate(self, name: str) -> None:
        """Make a gateway fetch a new secret and a new token at its next heartbeat. Raises GatewayNotFound."""

        def work(transaction: Transaction) -> None:
            transaction.save_gateway(self._found(transaction, name)._replace(rotates=1))

        self._write(self._audited(work, "gateway.rotate", name))

    def check(self, name: str) -> GatewayView:
        """Sync with a gateway now: its health, and its crons if they have changed. Raises GatewayNotFound."""
        self._sync(self._row(name))
        return self.get(name)

    # -- crons

    def crons(self, gateway: str | None = None, *, after: str | None = None, limit: int = 100) -> FleetCrons:
        """Copies of crons, in order of their next times: those of one gateway, or of all if None.
        Raises GatewayNotFound.
        """
        check_options({"limit": whole(1, LIST_MAX)}, {"limit": limit})
        tenant, now, place = self._access.tenant_id, self._now(), _place(after)

        def work(transaction: Transaction) -> FleetCrons:
            gateways = {row.id: row for row in every_gateway(transaction, tenant)}
            if gateway is None:
                rows = transaction.list_gateway_crons(tenant, after=place, limit=limit + 1)
            else:
                found = transaction.list_crons_of_gateway(self._found(transaction, gateway).id)
                rows = sorted(
                    (row for row in found if (row.next_run_at, row.gateway_id, row.cron_id) > place),
                    key=lambda row: (row.next_run_at, row.cron_id),
                )[: limit + 1]
            shown = rows[:limit]
            crons = [cron_view(row, gateways[row.gateway_id], now) for row in shown if row.gateway_id in gateways]
            return FleetCrons(
                crons=tuple(crons), next=encode_cursor(_position(shown[-1])) if len(rows) > limit else None
            )

        return self._read(work)

    def cron(self, gateway: str, cron_id: str) -> FleetCron:
        """The copy of one cron, by its id or its key. Raises GatewayNotFound, CronNotFound."""
        now = self._now()

        def work(transaction: Transaction) -> FleetCron:
            row = self._found(transaction, gateway)
            copies = [cron_view(each, row, now) for each in transaction.list_crons_of_gateway(row.id)]
            found = [each for each in copies if each.cron.id == cron_id]
            found = found or [each for each in copies if each.cron.key == cron_id and each.removed_at is None]
            if not found:
                raise CronNotFound(f"the gateway {gateway} has no cron {cron_id!r} in its last synced list")
            return found[0]

        return self._read(work)

    def add_cron(
        self, gateway: str, key: str, *, schedule: Mapping[str, Any], action: Mapping[str, Any],
        name: str | None = None, enabled: bool | None = None,
    ) -> GatewayCron:  # fmt: skip
        """Add a cron to a gateway. If it has one with this key, all of that cron is replaced.

            app.gateways.add_cron("edge-1", "purge", schedule={"type": "cron", "expression": "0 3 * * *"},
                                  action={"type": "builtin", "name": "purge_cache"})

        Raises InvalidCron, IntervalTooShort, UnknownCommand, GatewayUnreachable, OutcomeUnknown, GatewayNotFound.
        """
        given = {"key": key, "schedule": schedule, "action": action, "name": name, "enabled": enabled}
        new = _validated(NewGatewayCron, {each: value for each, value in given.items() if value is not None})
        return self._change(gateway, lambda client, _: client.add(new)[0], "add", key)

    @shown_options
    def update_cron(
        self, gateway: str, cron_id: str, *, revision: str | None = None, **changes: Unpack[CronChanges]
    ) -> GatewayCron:
        """Change a cron, given by its id or its key: `schedule`, `action`, `name`, `enabled`; others stay unchanged.

        With `revision` the cron is changed only if it still has this revision. Raises RevisionConflict, CronNotFound,
        NotManaged, and the errors of `add_cron`.
        """
        change = _validated(GatewayCronChange, dict(changes))
        return self._change(
            gateway, lambda client, found: client.change(found, change, revision=revision), "update", cron_id
        )

    def remove_cron(self, gateway: str, cron_id: str, *, revision: str | None = None) -> None:
        """Remove a cron of a gateway. Raises the same errors as `update_cron`."""
        self._change(gateway, lambda client, found: client.remove(found, revision=revision), "remove", cron_id)

    def run_cron(self, gateway: str, cron_id: str, *, key: str | None = None) -> str:
        """Run a cron now; returns the run's id, the same one for the same `key`. Raises the errors of `update_cron`."""
        once = key or secrets.token_hex(16)
        return self._change(gateway, lambda client, found: client.run(found, key=once), "run", cron_id)

    def runs(self, gateway: str, cron_id: str, *, run_id: str | None = None, limit: int = 20) -> Sequence[GatewayRun]:
        """Runs of a cron, newest first, as the gateway has them now. `output` is text that must not be trusted.

        Raises GatewayUnreachable, CronNotFound, GatewayNotFound.
        """
        check_options({"limit": whole(1, RUNS_MAX)}, {"limit": limit})
        row = self._row(gateway)
        return self._client(row).runs(self._id_of(row, cron_id), run_id=run_id, limit=limit)

    # -- schedules

    def command(
        self, gateway: str, command: str, arguments: Mapping[str, str] | None = None,
        *, offline: Literal["fail", "skip"] = "fail",
    ) -> FunctionCall:  # fmt: skip
        """A call of a command that the gateway lists, for schedules and `scheduler.run_after_many`.

            app.schedules.create("purge", when="every day at 3:00", do=app.gateways.command("edge-1", "purge_cache"))

        If the gateway is offline, the run fails, and is retried if the function's retry policy says so. With
        `offline="skip"` the run is canceled, and its log says why.
        """
        rules = {"gateway": WORDS, "command": WORDS, "offline": one_of(OFFLINE)}
        check_options(rules, {"gateway": gateway, "command": command, "offline": offline})
        if arguments is not None and not isinstance(arguments, Mapping):
            raise Misuse(f"arguments is a mapping of names to texts, not {shown(arguments)}")
        given = None if arguments is None else dict(arguments)
        return self._function().with_args(gateway=gateway, command=command, arguments=given, offline=offline)

    # -- helpers

    def _change(self, gateway: str, do: Callable[[GatewayClient, str], T], action: str, target: str) -> T:
        row = self._row(gateway)
        outcome: str | None = ""
        is_silent = False
        try:
            return do(self._client(row), self._id_of(row, target))
        except OutcomeUnknown:
            outcome = " (its outcome is unknown)"
            raise
        except EvertickError as error:
            outcome = None
            is_silent = isinstance(error, GatewayUnreachable)
            raise
        finally:
            if outcome is not None:
                words = f"{gateway}/{target}{outcome}"
                self._write(self._audited(lambda transaction: None, f"gateway.cron.{action}", words))
            if not is_silent:
                self._sync(row)

    def _id_of(self, row: GatewayRow, cron_id: str) -> str:
        """The id of the cron with this key; without one, `cron_id` itself."""
        check_options({"cron": TEXT}, {"cron": cron_id})
        copies = self._read(lambda transaction: transaction.list_crons_of_gateway(row.id))
        if any(each.cron_id == cron_id for each in copies):
            return cron_id
        crons = [GatewayCron.model_validate_json(each.item) for each in copies if each.removed_at is None]
        return next((each.id for each in crons if each.key == cron_id), cron_id)

    def _client(self, row: GatewayRow) -> GatewayClient:
        require_online(row, self._now())
        return client_of(self._access.environment, row)

    def _sync(self, row: GatewayRow) -> None:
        until = Instant(self._now() + SYNC_MS)
        claimed = self._write(lambda transaction: transaction.claim_gateway(row.id, until=until))
        if claimed is not None:
            sync(self._access.environment, claimed)

    def _row(self, name: str) -> GatewayRow:
        return self._read(lambda transaction: self._found(transaction, name))

    def _found(self, transaction: Transaction, name: str) -> GatewayRow:
        check_options({"name": TEXT}, {"name": name})
        row = transaction.get_gateway(name, tenant=self._access.tenant_id)
        if row is None:
            names = [each.name for each in every_gateway(transaction, self._access.tenant_id)]
            raise GatewayNotFound(f"no gateway {name!r}; {did_you_mean(name, names)}".rstrip("; "))
        return row

    def _now(self) -> Instant:
        return self._access.environment.clock.now()

    def _read(self, work: Work[T]) -> T:
        return self._access._ways[0](work)

    def _write(self, work: Work[T]) -> T:
        return self._access._ways[1](work)


class AsyncGateways:
    """`app.aio.gateways`: like `TenantGateways`, but every call is awaited."""

    def __init__(self, blocking: TenantGateways) -> None:
        self.blocking = blocking
        self.executors = blocking._access.environment.executors

    def command(
        self, gateway: str, command: str, arguments: Mapping[str, str] | None = None,
        *, offline: Literal["fail", "skip"] = "fail",
    ) -> FunctionCall:  # fmt: skip
        """A call of a command that the gateway lists; see `TenantGateways.command`. It is not awaited."""
        return self.blocking.command(gateway, command, arguments, offline=offline)

    join_token = InThread(TenantGateways.join_token)
    list = InThread(TenantGateways.list)
    get = InThread(TenantGateways.get)
    remove = InThread(TenantGateways.remove)
    rotate = InThread(TenantGateways.rotate)
    check = InThread(TenantGateways.check)
    crons = InThread(TenantGateways.crons)
    cron = InThread(TenantGateways.cron)
    add_cron = InThread(TenantGateways.add_cron)
    update_cron = InThread(TenantGateways.update_cron)
    remove_cron = InThread(TenantGateways.remove_cron)
    run_cron = InThread(TenantGateways.run_cron)
    runs = InThread(TenantGateways.runs)


class Gateways(TenantGateways):
    """`app.gateways`: the gateways of the default tenant. Its first use registers the function that runs commands of
    gateways, so an app whose schedules run commands must use it in the module that defines the app.
    """

    def __init__(self, app: AppAccess) -> None:
        self.function = command_function(app.name, lambda: app.environment)
        app.functions.add(self.function)
        super().__init__(app, lambda: self.function)


def every_gateway(transaction: Transaction, tenant: TenantId) -> list[GatewayRow]:
    """All gateways of a tenant."""
    found: list[GatewayRow] = []
    while True:
        page = transaction.list_gateways(tenant, after=found[-1].name if found else "", limit=LIST_MAX)
        found += page
        if len(page) < LIST_MAX:
            return found


def _validated(kind: type[S], given: Mapping[str, Any]) -> S:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise InvalidCron(problems_of(error, "the cron")) from None


def _view(row: GatewayRow, now: Instant) -> GatewayView:
    health, reason = health_of(row, now)
    return GatewayView(
        name=row.name,
        id=row.id,
        health=health,  # type: ignore[arg-type]
        reason=reason,
        mode="dial_out" if row.url is None else "pull",
        url=row.url,
        runtime=row.runtime,
        version=row.version,
        capabilities=tuple(json.loads(row.capabilities)),
        commands=tuple(json.loads(row.commands)),
        warnings=tuple(json.loads(row.warnings)),
        registered_at=to_datetime(row.registered_at),
        last_seen_at=to_datetime(row.last_seen_at),
        crons_at=to_datetime_or_none(row.copied_at),
    )


def cron_view(row: GatewayCronRow, gateway: GatewayRow, now: Instant) -> FleetCron:
    """The view of a cron's copy."""
    cron = GatewayCron.model_validate_json(row.item)
    return FleetCron(
        gateway=gateway.name,
        health=health_of(gateway, now)[0],  # type: ignore[arg-type]
        as_of=to_datetime_or_none(gateway.copied_at),
        removed_at=to_datetime_or_none(row.removed_at),
        overdue=row.next_run_at + OVERDUE_MS < now,
        cron=cron,
    )


def _position(row: GatewayCronRow) -> list[Any]:
    return [row.next_run_at, row.gateway_id, row.cron_id]


def _place(after: str | None) -> tuple[Instant, str, str]:
    """The position in a cursor. Raises InvalidArguments."""
    if after is None:
        return FIRST
    at, gateway_id, cron_id = decode_cursor(after, len(FIRST))
    if type(at) is not int or not isinstance(gateway_id, str) or not isinstance(cron_id, str):
        raise wrong_cursor()
    return Instant(at), gateway_id, cron_id
