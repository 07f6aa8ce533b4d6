"""The schemas of scripts, their versions and their runs."""

from collections.abc import Sequence
from typing import Any, Final, TypedDict

from evertick.api.jobs import JobLogLine
from evertick.api.schema import Moment, Schema
from evertick.base.ids import JobId, ScheduleId
from evertick.base.instants import SECOND_MS

NAMED_MISFITS: Final = 10
"""Schedules that a sentence names which do not fit."""


def named(schedules: Sequence[ScheduleId]) -> str:
    """The first of some schedules, and how many more there are."""
    more = len(schedules) - NAMED_MISFITS
    return ", ".join(schedules[:NAMED_MISFITS]) + (f" and {more:,} more" if more > 0 else "")


class ScriptSummary(Schema):
    """A script of a tenant in a list.

    `published` is the version that runs, None before the first one; `is_changed` says whether the draft differs from
    it. `revision` is another one after each change, for `if_revision`.
    """

    name: str
    language: str
    note: str
    published: int | None
    versions: int
    is_changed: bool
    revision: int
    created: Moment
    updated: Moment


class ScriptView(ScriptSummary):
    """A script of a tenant. `source`, `parameters` (a JSON schema, or None) and `note` are its draft."""

    source: str
    parameters: dict[str, Any] | None


class ScriptVersionSummary(Schema):
    """A version of a script in a list. `sha256` is the hash of its source."""

    script: str
    version: int
    language: str
    sha256: str
    note: str
    created: Moment


class ScriptVersionView(ScriptVersionSummary):
    """A version of a script, which never changes."""

    source: str
    parameters: dict[str, Any] | None


class PublishedScript(ScriptVersionView):
    """The version of a script that runs from now on. `misfits` are schedules whose input its parameters refuse."""

    misfits: tuple[ScheduleId, ...]

    @property
    def sentence(self) -> str:
        """What was done, and which schedules need another input, for people."""
        done = f"version {self.version} of {self.script} runs from now on"
        if not self.misfits:
            return done
        return f"{done}; its parameters refuse the input of {named(self.misfits)}: update these schedules, or roll back"


class ScriptErrorView(Schema):
    """An error of a script, or a sentence about a limit. Lines and columns begin at 1."""

    name: str
    message: str
    stack: str = ""
    line: int | None = None
    column: int | None = None


class ScriptLogLine(Schema):
    """A line that a test has logged, `at_ms` after its start."""

    at_ms: int
    level: str
    text: str


class ScriptRunLine(JobLogLine):
    """A line that a run has logged."""

    job_id: JobId


class DeletedScript(Schema):
    """A script that was deleted."""

    name: str


class ScriptRunView(Schema):
    """One attempt at a run.

    `outcome` is ok, error, timeout, memory, output, limit, violation, crash, killed or internal; `exceeded` names the
    limit that was exceeded. `deaths` is how many attempts before this one ended with their instance: they have no view
    of their own, and nothing of them has happened. `host_calls` are counts by name, `staged` is how many writes were
    committed with the end. The result and the logs are those of the job.
    """

    job_id: JobId
    attempt: int
    script: str
    version: int | None
    schedule_id: ScheduleId | None
    deaths: int
    outcome: str
    exceeded: str | None
    error: ScriptErrorView | None
    ended: Moment
    waited_ms: int
    cpu_ms: int
    wall_ms: int
    rss_kb: int
    host_calls: dict[str, int]
    staged: int
    isolation: str
    engine: str


class ScriptActivityView(Schema):
    """What a script has done: its last attempt, how many ended since a moment, and the schedules that run it."""

    script: str
    last: ScriptRunView | None
    runs: int
    schedules: tuple[ScheduleId, ...]


class ScriptTestView(Schema):
    """The result of testing a script. Nothing was written.

    `staged` has what a run would have written, a dict each: `kind` is insert, update or delete for documents, kv.set or
    kv.delete for values, and the name of the call for others.
    """

    outcome: str
    exceeded: str | None
    result: Any
    error: ScriptErrorView | None
    logs: tuple[ScriptLogLine, ...]
    logs_cut: bool
    staged: tuple[dict[str, Any], ...]
    host_calls: dict[str, int]
    cpu_ms: int
    wall_ms: int
    rss_kb: int
    isolation: str
    engine: str


class IsolationView(Schema):
    """How well scripts are walled in: `full`, `partial` or `none`. `reason` says why it is not full."""

    level: str
    reason: str


class ScriptLimits(TypedDict, total=False):
    """Limits of a tenant that change; None takes one back to the app's plan. See `ScriptPlan`."""

    cpu_ms: int | None
    wall_ms: int | None
    memory_bytes: int | None
    result_bytes: int | None
    log_bytes: int | None
    argument_bytes: int | None
    host_calls: int | None
    reads: int | None
    writes: int | None
    source_bytes: int | None
    scripts: int | None
    schedules: int | None
    keys: int | None
    interval_ms: int | None
    runs_per_hour: int | None
    cpu_s_per_hour: int | None
    hosts: Sequence[str] | None


class ScriptPlanView(Schema):
    """What the scripts of a tenant may use (see `ScriptPlan`), and what they use. `own` names its own limits.

    `misfits` are schedules that were written before `interval_ms` was raised, and whose times are closer.
    """

    limits: dict[str, Any]
    own: tuple[str, ...]
    scripts: int
    schedules: int
    runs_last_hour: int
    cpu_ms_last_hour: int
    misfits: tuple[ScheduleId, ...]

    @property
    def warning(self) -> str:
        """A sentence about the schedules that break the limits of the plan; empty if there are none."""
        if not self.misfits:
            return ""
        seconds = f"{self.limits['interval_ms'] / SECOND_MS:g} s"
        return (
            f"the times of {named(self.misfits)} are less than {seconds} apart (interval_ms): they run on as before; "
            "change them, or lower the limit"
        )
