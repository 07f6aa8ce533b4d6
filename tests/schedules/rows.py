"""Schedules for tests below the public API: a row and a target with sensible values, and a request's author."""

import json
from collections.abc import Mapping
from typing import Any

from evertick.base.ids import DEFAULT_TENANT, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, RetryPolicy
from evertick.rules.schedules.metadata import ScheduleMetadata, Target
from evertick.rules.schedules.policies import Policies
from evertick.rules.schedules.state import Pause, new_state
from evertick.store.records.schedule import Schedule, StoredSpec

EVERY_MINUTE: Mapping[str, Any] = {"intervals": [{"every": "1m"}]}


def schedule_row(
    schedule_id: str,
    *,
    now: Instant,
    spec: Mapping[str, Any] = EVERY_MINUTE,
    function: str = "run",
    kind: FunctionKind = FunctionKind.MUTATION,
    args: Mapping[str, Any] | None = None,
    retry: RetryPolicy | None = None,
    policies: Policies | None = None,
    run_id_template: str = "run-{nominal}",
    remaining: int | None = None,
    pause: Pause | None = None,
    tenant: TenantId = DEFAULT_TENANT,
) -> Schedule:
    """A schedule as it is created at `now`."""
    state = new_state(now=now, policies=policies, run_id_template=run_id_template, remaining=remaining, pause=pause)
    target = Target(name=function, kind=kind, args=json.dumps(args or {}), retry=retry)
    row = Schedule.new(
        tenant,
        ScheduleId(schedule_id),
        spec=StoredSpec(json.dumps(spec)),
        target=target,
        state=state,
        metadata=ScheduleMetadata(),
    )
    return row._replace(wake_at=now)
