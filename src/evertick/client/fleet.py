"""`client.pools`, `client.tenants`, `client.tokens` and `client.audit_log`, as requests."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Unpack

from evertick.api.access import AuditPage, NewToken, TokenPage, TokenView
from evertick.api.doctor import FleetReport
from evertick.api.functions import FunctionView
from evertick.api.limits import TenantView
from evertick.api.status import StatusView, WorkerView
from evertick.app.access_control.audit_log import AuditWhere
from evertick.app.limits.tenants import TenantChanges
from evertick.base.options import takes
from evertick.base.records.access import Scope
from evertick.client.calls import ROOT, Call, Requests, given, part, read_as, sent, wire


class TenantRequests(Requests):
    """Requests about the limits of tenants."""

    @sent
    def get(self, name: str) -> Call[TenantView]:
        """A tenant's limits and its current usage."""
        return self._get(f"{self._home}/tenants/{part(name)}", TenantView)

    @sent
    def list(self, *, first: str = "", limit: int = 100, limited: bool = False) -> Call[Sequence[TenantView]]:
        """Tenants with stored data, by name, from `first` on; at most `limit`. With `limited`, only tenants with
        limits.
        """
        query = {"first": first, "limit": limit, "limited": limited}
        return self._get(f"{self._home}/tenants", list[TenantView], query)

    @sent
    @takes(TenantChanges, "a tenant")
    def set(self, changes: TenantChanges) -> Call[TenantView]:
        """Change some of a tenant's limits; None removes a limit. See `app.tenants.set`."""
        path = f"{self._home}/tenants/{part(changes.name)}"
        return Call(method="PATCH", path=path, body=changes.limits, read=TenantView.model_validate)


class TokenRequests(Requests):
    """Requests about the tokens of the tenant at `home`."""

    @sent
    def create(
        self,
        name: str,
        *,
        scope: Scope | str = Scope.READ,
        expires_after: float | timedelta | None = timedelta(days=90),
    ) -> Call[NewToken]:
        """Create a token for the client's tenant. Its `secret` is in the result, and is not stored.

        To create a token for all tenants, use `app.tokens.create` or `evertick token create`.
        """
        body = {"name": name, "scope": str(scope), "expires_after": wire(expires_after)}
        return self._post(f"{self._home}/tokens", NewToken, body)

    @sent
    def list(self, *, limit: int = 100, cursor: str | None = None) -> Call[TokenPage]:
        """A page of the tenant's tokens, oldest first. Revoked and expired tokens are included."""
        query = given({"limit": limit, "cursor": cursor})
        return self._get(f"{self._home}/tokens", TokenPage, query)

    @sent
    def revoke(self, token_id: str) -> Call[TokenView]:
        """Revoke a token at once; a revoked token stays revoked. Raises NotFound."""
        path = f"{self._home}/tokens/{part(token_id)}/revoke"
        return self._post(path, TokenView, {})

    @sent
    def rotate(self, token_id: str) -> Call[NewToken]:
        """Replace a token by a new one with the same name, scope and lifetime; the old one is revoked at once.
        Raises NotFound.
        """
        path = f"{self._home}/tokens/{part(token_id)}/rotate"
        return self._post(path, NewToken, {})


class AuditRequests(Requests):
    """Requests about the audit log of the tenant at `home`."""

    @sent
    def list(self, *, limit: int = 100, cursor: str | None = None, **where: Unpack[AuditWhere]) -> Call[AuditPage]:
        """A page of the changes to the tenant's data, newest first, each with who made it.

        The filters are those of `app.audit_log.list`.
        """
        query = given({"limit": limit, "cursor": cursor, **where})
        return self._get(f"{self._home}/audit-log", AuditPage, query)


def status_call(home: str) -> Call[StatusView]:
    """The request for the state of the tenant at `home`, or of all tenants."""
    return Call(method="GET", path=f"{home}/status", read=StatusView.model_validate)


def own_token_call(home: str) -> Call[TokenView]:
    """The request for the token with which it is sent."""
    return Call(method="GET", path=f"{home}/me", read=TokenView.model_validate)


def doctor_call(tenant: str | None) -> Call[FleetReport]:
    """The request for the problems that keep workers from running scheduled work; None means the work of all
    tenants.
    """
    return Call(method="GET", path=f"{ROOT}/doctor", query=given({"tenant": tenant}), read=FleetReport.model_validate)


def workers_call() -> Call[Sequence[WorkerView]]:
    """The request for the workers of the database."""
    return Call(method="GET", path=f"{ROOT}/workers", read=read_as(list[WorkerView]))


def functions_call(home: str) -> Call[Sequence[FunctionView]]:
    """The request for the functions that can be called."""
    return Call(method="GET", path=f"{home}/functions", read=read_as(list[FunctionView]))
