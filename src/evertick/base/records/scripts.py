"""Records of scripts, their versions and runs."""

from typing import NamedTuple

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant


class ScriptRow(NamedTuple):
    """A script of a tenant. `source`, `parameters` and `note` are the draft; `published` is the version that runs."""

    tenant: TenantId
    name: str
    language: str
    source: str
    parameters: str | None
    note: str
    published: int | None
    versions: int
    created_at: Instant
    updated_at: Instant


class ScriptVersionRow(NamedTuple):
    """A version of a script. It never changes."""

    tenant: TenantId
    script: str
    version: int
    language: str
    source: str
    digest: str
    parameters: str | None
    note: str
    created_at: Instant


class ScriptRunRow(NamedTuple):
    """The resources that one attempt at a run used, and its outcome.

    An attempt whose instance died has no row of its own: `deaths` of the next one counts it. Attempt 0 is a test, which
    has no job. `started` is 1 if the script was started, 0 if it was refused. `error` is a JobError as JSON text,
    `host_calls` a JSON object. `paused` is 1 if the run paused its schedule.
    """

    job_id: JobId
    attempt: int
    tenant: TenantId
    script: str
    version: int | None
    schedule_id: ScheduleId | None
    deaths: int
    outcome: str
    exceeded: str | None
    error: str | None
    started: int
    ended_at: Instant
    waited_ms: int
    cpu_ms: int
    wall_ms: int
    rss_kb: int
    host_calls: str
    staged: int
    isolation: str
    engine: str
    paused: int


class ScriptUsage(NamedTuple):
    """The usage of a tenant's scripts in a span of time."""

    runs: int
    cpu_ms: int
