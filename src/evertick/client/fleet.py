"""`client.pools`, `client.tenants`, `client.tokens` and `client.audit_log`, as requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Unpack

from evertick.api.access import AuditPage, NewToken, TokenPage, TokenView
from evertick.api.fleet import FleetReport
from evertick.api.functions import FunctionView
from evertick.api.pools import PoolView
from evertick.api.status import StatusView, WorkerView
from evertick.api.tenants import TenantView
from evertick.app.access_control.audit_log import AuditWhere
from evertick.app.limits.tenants import Limits as TenantLimits
from evertick.app.limits.values import Limits as PoolLimits
from evertick.base.records.access import Scope
from evertick.client.calls import Call, given, part, sent, wire

ROOT = "/api/v1"


@dataclass(frozen=True, slots=True)
class PoolRequests:
    """What may be done with pools."""

    def get(self, name: str) -> Call[PoolView]:
        """A pool's limits, and what it has to do."""
        return Call(method="GET", path=f"{ROOT}/pools/{part(name)}", read=PoolView.model_validate)

    def list(self) -> Call[Sequence[PoolView]]:
        """All pools that are known."""
        return Call(method="GET", path=f"{ROOT}/pools", read=_pools)

    def set(self, name: str, **limits: Unpack[PoolLimits]) -> Call[PoolView]:
        """Change some of a pool's limits; None removes one."""
        path = f"{ROOT}/pools/{part(name)}"
        return Call(method="PATCH", path=path, body=dict(limits), read=PoolView.model_validate)

    def pause(self, name: str, note: str = "") -> Call[PoolView]:
        """Let no job of a pool start, and say why."""
        body, path = {"note": note}, f"{ROOT}/pools/{part(name)}/pause"
        return Call(method="POST", path=path, body=body, read=PoolView.model_validate)

    def resume(self, name: str) -> Call[PoolView]:
        """Let the jobs of a paused pool start again."""
        return Call(method="POST", path=f"{ROOT}/pools/{part(name)}/resume", body={}, read=PoolView.model_validate)

    def delete(self, name: str, *, force: bool = False) -> Call[PoolView]:
        """Delete a pool's settings; as `app.pools.delete`. Raises NotFound, Conflict."""
        path, query = f"{ROOT}/pools/{part(name)}", {"force": force}
        return Call(method="DELETE", path=path, query=query, read=PoolView.model_validate)


class PoolOperations:
    """The operations of a surface."""

    get = sent(PoolRequests.get)
    set = sent(PoolRequests.set)
    pause = sent(PoolRequests.pause)
    resume = sent(PoolRequests.resume)
    delete = sent(PoolRequests.delete)
    list = sent(PoolRequests.list)


@dataclass(frozen=True, slots=True)
class TenantRequests:
    """What may be done with the limits of tenants."""

    def get(self, name: str) -> Call[TenantView]:
        """A tenant's limits, and what it uses."""
        return Call(method="GET", path=f"{ROOT}/tenants/{part(name)}", read=TenantView.model_validate)

    def list(self, *, first: str = "", limit: int = 100, limited: bool = False) -> Call[Sequence[TenantView]]:
        """Tenants of which anything is kept, by name, from `first` on; with `limited` those with limits alone."""
        query = {"first": first, "limit": limit, "limited": limited}
        return Call(method="GET", path=f"{ROOT}/tenants", query=query, read=_tenants)

    def set(self, name: str, **limits: Unpack[TenantLimits]) -> Call[TenantView]:
        """Change some of a tenant's limits; None removes one."""
        path = f"{ROOT}/tenants/{part(name)}"
        return Call(method="PATCH", path=path, body=dict(limits), read=TenantView.model_validate)


class TenantOperations:
    """The operations of a surface."""

    get = sent(TenantRequests.get)
    set = sent(TenantRequests.set)
    list = sent(TenantRequests.list)


@dataclass(frozen=True, slots=True)
class TokenRequests:
    """What may be done with the tokens below `home`."""

    home: str

    def create(
        self,
        name: str,
        *,
        scope: Scope | str = Scope.READ,
        expires_after: float | timedelta | None = timedelta(days=90),
    ) -> Call[NewToken]:
        """Make a token of the client's tenant, or of all if it has none; its `secret` is shown this once."""
        body = {"name": name, "scope": str(scope), "expires_after": wire(expires_after)}
        return Call(method="POST", path=f"{self.home}/tokens", body=body, read=NewToken.model_validate)

    def list(self, *, limit: int = 100, cursor: str | None = None) -> Call[TokenPage]:
        """A page of tokens, the oldest first."""
        query = given({"limit": limit, "cursor": cursor})
        return Call(method="GET", path=f"{self.home}/tokens", query=query, read=TokenPage.model_validate)

    def revoke(self, token_id: str) -> Call[TokenView]:
        """End a token at once. Raises NotFound."""
        path = f"{self.home}/tokens/{part(token_id)}/revoke"
        return Call(method="POST", path=path, body={}, read=TokenView.model_validate)

    def rotate(self, token_id: str) -> Call[NewToken]:
        """Replace a token by a new one like it. Raises NotFound."""
        path = f"{self.home}/tokens/{part(token_id)}/rotate"
        return Call(method="POST", path=path, body={}, read=NewToken.model_validate)


class TokenOperations:
    """The operations of a surface."""

    create = sent(TokenRequests.create)
    revoke = sent(TokenRequests.revoke)
    rotate = sent(TokenRequests.rotate)
    list = sent(TokenRequests.list)


@dataclass(frozen=True, slots=True)
class AuditRequests:
    """What may be read of the audit log below `home`."""

    home: str

    def list(self, *, limit: int = 100, cursor: str | None = None, **where: Unpack[AuditWhere]) -> Call[AuditPage]:
        """Who changed what, the newest first; filters as those of `app.audit_log.list`."""
        query = given({"limit": limit, "cursor": cursor, **where})
        return Call(method="GET", path=f"{self.home}/audit-log", query=query, read=AuditPage.model_validate)


class AuditOperations:
    """The operations of a surface."""

    list = sent(AuditRequests.list)


def status_call(home: str) -> Call[StatusView]:
    """Who works, what waits and what failed, below `home`."""
    return Call(method="GET", path=f"{home}/status", read=StatusView.model_validate)


def own_token_call(home: str) -> Call[TokenView]:
    """The token of the request."""
    return Call(method="GET", path=f"{home}/me", read=TokenView.model_validate)


def doctor_call(tenant: str | None) -> Call[FleetReport]:
    """What keeps workers from doing what is scheduled."""
    return Call(method="GET", path=f"{ROOT}/doctor", query=given({"tenant": tenant}), read=FleetReport.model_validate)


def workers_call() -> Call[Sequence[WorkerView]]:
    """The workers of the database."""
    return Call(method="GET", path=f"{ROOT}/workers", read=_workers)


def functions_call(home: str) -> Call[Sequence[FunctionView]]:
    """The functions that can be called."""
    return Call(method="GET", path=f"{home}/functions", read=_functions)


def _workers(found: Any) -> Sequence[WorkerView]:
    return [WorkerView.model_validate(each) for each in found]


def _functions(found: Any) -> Sequence[FunctionView]:
    return [FunctionView.model_validate(each) for each in found]


def _pools(found: Any) -> Sequence[PoolView]:
    return [PoolView.model_validate(each) for each in found]


def _tenants(found: Any) -> Sequence[TenantView]:
    return [TenantView.model_validate(each) for each in found]
