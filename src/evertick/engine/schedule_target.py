"""Targets: what a schedule does when its time has come: call a function, with these arguments and options.

A job that runs an occurrence carries what its function may ask about it (`ctx.schedule`): the schedule, the nominal
time, the run's name, and what earlier runs left behind at the moment it was started.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from evertick.base.ids import JOB_PREFIX, JobId
from evertick.base.instants import Instant
from evertick.base.records import FunctionKind, NewJob
from evertick.base.schedule_records import ScheduleRow
from evertick.engine.finish import MakeId
from evertick.rules.plan import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function to call. `args` is the JSON object of its arguments, `workflow_id` the stem of its runs' names."""

    name: str
    kind: FunctionKind
    args: str
    retry: str | None = None
    workflow_id: str | None = None
    pool: str | None = None

    def to_text(self) -> str:
        """As it is kept with the schedule."""
        values = {"name": self.name, "kind": self.kind.value, "args": json.loads(self.args)}
        options = {"retry": self.retry, "workflow_id": self.workflow_id, "pool": self.pool}
        return json.dumps(values | {name: value for name, value in options.items() if value is not None})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The target of a schedule's row."""
        values: dict[str, Any] = json.loads(text)
        return cls(
            name=values["name"],
            kind=FunctionKind(values["kind"]),
            args=json.dumps(values["args"]),
            retry=values.get("retry"),
            workflow_id=values.get("workflow_id"),
            pool=values.get("pool"),
        )


def run_job(
    row: ScheduleRow,
    target: Target,
    start: Start,
    *,
    args: str | None,
    last_result: str | None,
    last_failure: str | None,
    now: Instant,
    make_id: MakeId,
) -> NewJob:
    """The job that runs an occurrence; `args` replaces the target's arguments where a trigger brought its own."""
    occurrence = start.occurrence
    about = {
        "id": row.id,
        "origin": occurrence.origin.value,
        "request": occurrence.request,
        "nominal_at": occurrence.nominal_at,
        "run_id": start.run_id,
        "last_result": last_result,
        "last_failure": last_failure,
    }
    return NewJob(
        id=JobId(make_id(JOB_PREFIX, now)),
        tenant=row.tenant,
        kind=target.kind,
        name=target.name,
        args=args or target.args,
        requested_at=occurrence.nominal_at,
        due_at=now,
        created_at=now,
        retry=target.retry,
        schedule=json.dumps(about),
    )
