"""Schedules that run commands of gateways: the jobs of the function `evertick.gateway`.

The key of a run at the gateway consists of the job's id and a number. If a worker dies between the request and the
result, the job runs again with the same key, and finds the run that it has begun.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from evertick.api.gateways import GatewayRun
from evertick.app.environment import Environment
from evertick.app.execution.contexts import SyncActionCtx
from evertick.app.functions.function import Action
from evertick.app.functions.options import ApplicationError
from evertick.app.gateways.connections import client_of, read
from evertick.base.errors import GatewayNotFound, GatewayUnreachable, OutcomeUnknown, UnknownCommand
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.gateways import GatewayRow
from evertick.base.records.jobs import GATEWAY_FUNCTION
from evertick.gateway_client import GatewayClient
from evertick.recurrence.spec.spec import Spec
from evertick.store.transaction.transaction import Transaction

OFFLINE: Final = ("fail", "skip")
"""What to do with a run whose gateway is offline: fail it, so that its retry policy decides, or cancel it."""
ASK_S: Final = (0.2, 2.0)
"""Seconds to wait before asking for the state of a run again: at first, and at most."""
LOST_S: Final = 120.0
"""Seconds for which a gateway that has begun a run may be unreachable."""
TRIES: Final = 3
FAILED: Final = ("failed", "unknown")
SHOWN: Final = 1_000
"""Characters of an error, and of the end of an output, that are stored with a failed run."""


def command_function(app_name: str, environment: Callable[[], Environment]) -> Action[..., Any]:
    """The function `evertick.gateway` of an app."""

    def run_command(
        ctx: SyncActionCtx, gateway: str, command: str, arguments: dict[str, str] | None = None, offline: str = "fail"
    ) -> Any:
        """Runs a command of a gateway and returns its output; `app.gateways.command` creates its calls."""
        e = environment()
        row = read(e, lambda transaction: _gateway(transaction, ctx.tenant, gateway))
        try:
            # Try it even if its heartbeats are old: after an outage of the platform there were none.
            client = client_of(e, row)
            run = _run(ctx, client, command, arguments)
        except GatewayUnreachable as error:
            if offline == "skip" and ctx.job_id is not None:
                ctx.log.warning("skipped: %s", error)
                ctx.scheduler.cancel(ctx.job_id)
            raise
        if run.status in FAILED:
            words = run.error or f"it ended as {run.status}"
            data = {
                "command": command,
                "run_id": run.run_id,
                "error": words[:SHOWN],
                "output": (run.output or "")[-SHOWN:],
            }
            raise ApplicationError(data)
        return {"run_id": run.run_id, "status": run.status, "output": run.output}

    function: Action[..., Any] = Action(
        run_command, name=GATEWAY_FUNCTION, internal=False, timeout_ms=None, app_name=app_name
    )
    function.check_schedule = check_target
    return function


def check_target(
    transaction: Transaction, tenant: TenantId, schedule_id: ScheduleId, arguments: str, spec: Spec, now: Instant
) -> None:
    """Check the arguments of a schedule that runs a command. Raises the errors of `check_command`."""
    check_command(transaction, tenant, json.loads(arguments))


def check_command(transaction: Transaction, tenant: TenantId, given: Mapping[str, Any]) -> None:
    """Check the arguments of a run. Raises GatewayNotFound, and UnknownCommand if the gateway did not list the command
    at the last sync.
    """
    row = _gateway(transaction, tenant, given.get("gateway"))
    commands = json.loads(row.commands)
    if row.copied_at is not None and given.get("command") not in commands:
        listed = ", ".join(commands) or "none"
        raise UnknownCommand(f"the gateway {row.name} has no command {given.get('command')!r}; it lists {listed}")


def _gateway(transaction: Transaction, tenant: TenantId, name: object) -> GatewayRow:
    row = transaction.get_gateway(str(name), tenant=tenant)
    if row is None:
        raise GatewayNotFound(f"the tenant {tenant} has no gateway {name!r}")
    return row


def _run(ctx: SyncActionCtx, client: GatewayClient, command: str, arguments: Mapping[str, str] | None) -> GatewayRun:
    """The run of this attempt, after it has ended.

    The keys of earlier attempts are tried first: a run that one of them began is this attempt's run, unless it has
    failed. So a command whose reply was lost does not run twice.
    """
    number = 1
    while True:
        run = _ended(client, _started(client, command, arguments, f"{ctx.job_id}.{number}"))
        if number >= ctx.attempt or run.status not in FAILED:
            return run
        number += 1


def _started(client: GatewayClient, command: str, arguments: Mapping[str, str] | None, key: str) -> str:
    """Start a run and return its id. After an unknown outcome the same key is sent again, because it starts one run."""
    for number in range(TRIES):
        try:
            return client.run_command(command, arguments, key=key)
        except OutcomeUnknown:
            if number + 1 == TRIES:
                raise
    raise AssertionError


def _ended(client: GatewayClient, run_id: str) -> GatewayRun:
    """Wait for the end of a run. Raises OutcomeUnknown if the gateway is unreachable for LOST_S."""
    pause_s, seen_at = ASK_S[0], time.monotonic()
    while True:
        try:
            run = client.run_of(run_id)
        except GatewayUnreachable as error:
            if time.monotonic() - seen_at > LOST_S:
                raise OutcomeUnknown(f"the run {run_id} has begun, but its result is unknown: {error}") from error
        else:
            seen_at = time.monotonic()
            if run.status != "running":
                return run
        time.sleep(pause_s)
        pause_s = min(ASK_S[1], 2 * pause_s)
