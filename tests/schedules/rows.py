"""Schedules for tests below the public API: a row and a target with sensible values, and a request's author."""

import json
from collections.abc import Mapping
from typing import Any

from evertick.base.ids import DEFAULT_TENANT, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records import FunctionKind
from evertick.base.schedule_records import ScheduleRow
from evertick.engine.schedule_target import Target
from evertick.rules.schedule import Pause, Policies, new_state
from evertick.rules.state_text import to_text

EVERY_MINUTE: Mapping[str, Any] = {"intervals": [{"every": "1m"}]}


def schedule_row(
    schedule_id: str,
    *,
    now: Instant,
    spec: Mapping[str, Any] = EVERY_MINUTE,
    function: str = "run",
    kind: FunctionKind = FunctionKind.MUTATION,
    args: Mapping[str, Any] | None = None,
    retry: str | None = None,
    policies: Policies | None = None,
    run_id_template: str = "run-{nominal}",
    remaining: int | None = None,
    pause: Pause | None = None,
    tenant: TenantId = DEFAULT_TENANT,
) -> ScheduleRow:
    """A schedule as it is created at `now`."""
    state = new_state(now=now, policies=policies, run_id_template=run_id_template, remaining=remaining, pause=pause)
    target = Target(name=function, kind=kind, args=json.dumps(args or {}), retry=retry)
    return ScheduleRow(
        tenant=tenant,
        id=ScheduleId(schedule_id),
        kind="schedule",
        spec=json.dumps(spec),
        target=target.to_text(),
        function=function,
        state=to_text(state),
        status="active",
        note="",
        memo="{}",
        seen_until=now,
        wake_at=now,
        next_at=None,
        last_at=None,
        last_result=None,
        last_failure=None,
        version=1,
        revision=1,
        created_at=now,
        updated_at=now,
    )
