"""`client.gateways`, as requests."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from evertick.api.gateway_fleet import FleetCron, FleetCrons, GatewayView, JoinToken
from evertick.api.gateways import CronChanges, GatewayCron, GatewayRun
from evertick.client.calls import Call, Requests, given, new_key, nothing, part, sent, wire

GATEWAY_S = 60.0
"""What a request may take that the server passes on to a gateway."""


class GatewayRequests(Requests):
    """Requests about the gateways of the tenant at `home`."""

    @sent
    def join_token(self, name: str, *, expires_in: float = 3_600) -> Call[JoinToken]:
        """Create a token with which a gateway can register once, under `name`, within `expires_in` seconds.

        See `app.gateways.join_token`.
        """
        body = {"name": name, "expires_in": expires_in}
        return self._post(f"{self._home}/gateway-join-tokens", JoinToken, body)

    @sent
    def list(self, *, after: str = "", limit: int = 100) -> Call[Sequence[GatewayView]]:
        """Gateways by name, after the name `after`; at most `limit`."""
        return self._get(f"{self._home}/gateways", tuple[GatewayView, ...], {"after": after, "limit": limit})

    @sent
    def get(self, name: str) -> Call[GatewayView]:
        """One gateway. Raises GatewayNotFound."""
        return self._get(self._of(name), GatewayView)

    @sent
    def remove(self, name: str) -> Call[None]:
        """Remove a gateway and the copies of its crons; the gateway continues to run them. Raises GatewayNotFound."""
        return Call(method="DELETE", path=self._of(name), read=nothing)

    @sent
    def rotate(self, name: str) -> Call[None]:
        """Make a gateway fetch a new secret and a new token at its next heartbeat. Raises GatewayNotFound."""
        return Call(method="POST", path=f"{self._of(name)}/rotate", read=nothing)

    @sent
    def check(self, name: str) -> Call[GatewayView]:
        """Sync with a gateway now: its health, and its crons if they have changed. Raises GatewayNotFound."""
        read = GatewayView.model_validate
        return Call(method="POST", path=f"{self._of(name)}/check", read=read, wait_s=GATEWAY_S)

    @sent
    def crons(self, gateway: str | None = None, *, after: str | None = None, limit: int = 100) -> Call[FleetCrons]:
        """Copies of crons, in order of their next times: those of one gateway, or of all if None.
        Raises GatewayNotFound.
        """
        query = given({"gateway": gateway, "after": after, "limit": limit})
        return self._get(f"{self._home}/gateway-crons", FleetCrons, query)

    @sent
    def cron(self, gateway: str, cron_id: str) -> Call[FleetCron]:
        """The copy of one cron, by its id or its key. Raises GatewayNotFound, CronNotFound."""
        return self._get(self._cron(gateway, cron_id), FleetCron)

    @sent
    def add_cron(
        self, gateway: str, key: str, *, schedule: Mapping[str, Any], action: Mapping[str, Any],
        name: str | None = None, enabled: bool | None = None,
    ) -> Call[GatewayCron]:  # fmt: skip
        """Add a cron to a gateway. If the gateway has a cron with this key, that cron is replaced.

        See `app.gateways.add_cron`.
        """
        body = given({"key": key, "name": name, "enabled": enabled})
        body |= {"schedule": wire(schedule), "action": wire(action)}
        read = GatewayCron.model_validate
        return Call(method="POST", path=f"{self._of(gateway)}/crons", body=body, read=read, wait_s=GATEWAY_S)

    @sent
    def update_cron(
        self, gateway: str, cron_id: str, *, revision: str | None = None, **changes: Unpack[CronChanges]
    ) -> Call[GatewayCron]:
        """Change a cron of a gateway; options that are not given stay unchanged. See `app.gateways.update_cron`."""
        path, read = self._cron(gateway, cron_id), GatewayCron.model_validate
        return Call(method="PATCH", path=path, body=wire(changes), if_version=revision, read=read, wait_s=GATEWAY_S)

    @sent
    def remove_cron(self, gateway: str, cron_id: str, *, revision: str | None = None) -> Call[None]:
        """Remove a cron of a gateway. Raises CronNotFound, NotManaged, RevisionConflict, GatewayUnreachable."""
        path = self._cron(gateway, cron_id)
        return Call(method="DELETE", path=path, if_version=revision, read=nothing, wait_s=GATEWAY_S)

    @sent
    def run_cron(self, gateway: str, cron_id: str, *, key: str | None = None) -> Call[str]:
        """Run a cron now; returns the run's id, the same one for the same `key`. See `app.gateways.run_cron`."""
        path = f"{self._cron(gateway, cron_id)}/run"
        return Call(method="POST", path=path, key=key or new_key(), read=_run_id, wait_s=GATEWAY_S)

    @sent
    def runs(
        self, gateway: str, cron_id: str, *, run_id: str | None = None, limit: int = 20
    ) -> Call[Sequence[GatewayRun]]:
        """Runs of a cron, newest first, as the gateway has them now. `output` is text that must not be trusted."""
        query = given({"run_id": run_id, "limit": limit})
        return self._get(f"{self._cron(gateway, cron_id)}/runs", tuple[GatewayRun, ...], query)

    def _of(self, name: str) -> str:
        return f"{self._home}/gateways/{part(name)}"

    def _cron(self, gateway: str, cron_id: str) -> str:
        return f"{self._of(gateway)}/crons/{part(cron_id)}"


def _run_id(found: Any) -> str:
    return str(found["run_id"])
