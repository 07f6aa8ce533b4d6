"""Schemas of scripts, their versions and their runs."""

from collections.abc import Sequence
from typing import Any, Final, TypedDict

from evertick.api.jobs import JobLogLine
from evertick.api.schema import Moment, Schema
from evertick.base.ids import JobId, ScheduleId
from evertick.base.instants import SECOND_MS

NAMED_MISFITS: Final = 10
"""Schedules that a sentence lists by name."""


def named(schedules: Sequence[ScheduleId]) -> str:
    """The names of the first few schedules, and how many more there are."""
    more = len(schedules) - NAMED_MISFITS
    return ", ".join(schedules[:NAMED_MISFITS]) + (f" and {more:,} more" if more > 0 else "")


class ScriptSummary(Schema):
    """A script of a tenant in a list.

    `published` is the number of the version that runs, None if no version was published. `versions` is the number of
    versions. `is_changed` is True if the draft differs from the published version. `revision` changes with each change
    of the script; pass it as `if_revision`.
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
    """A script of a tenant with its draft.

    `source`, `parameters` and `note` are those of the draft. `parameters` is a JSON schema, None if there is none.
    """

    source: str
    parameters: dict[str, Any] | None


class ScriptVersionSummary(Schema):
    """A version of a script in a list. `sha256` is the SHA-256 hash of its source."""

    script: str
    version: int
    language: str
    sha256: str
    note: str
    created: Moment


class ScriptVersionView(ScriptVersionSummary):
    """A version of a script with its source. A version never changes."""

    source: str
    parameters: dict[str, Any] | None


class PublishedScript(ScriptVersionView):
    """The version of a script that was published. Runs use it from now on.

    `misfits` are schedules whose input does not match the `parameters` of this version. Their runs would fail.
    """

    misfits: tuple[ScheduleId, ...]

    @property
    def sentence(self) -> str:
        """A message for display: what was done, and which schedules need other input."""
        done = f"version {self.version} of {self.script} runs from now on"
        if not self.misfits:
            return done
        return f"{done}; its parameters refuse the input of {named(self.misfits)}: update these schedules, or roll back"


class ScriptErrorView(Schema):
    """An error of a script, or a message about an exceeded limit.

    `line` and `column` count from 1. They are None if the position is unknown.
    """

    name: str
    message: str
    stack: str = ""
    line: int | None = None
    column: int | None = None


class ScriptLogLine(Schema):
    """A line that a test of a script logged `at_ms` milliseconds after its start."""

    at_ms: int
    level: str
    text: str


class ScriptRunLine(JobLogLine):
    """A line that a run of a script logged."""

    job_id: JobId


class DeletedScript(Schema):
    """A script that was deleted."""

    name: str


class ScriptRunView(Schema):
    """One attempt of a run of a script. The result and the logs are those of the job.

    `outcome` is ok, error, timeout, memory, output, limit, violation, crash, killed or internal. `exceeded` is the name
    of the limit that was exceeded, None if none was. `error` is None if the script succeeded. `deaths` is how many
    earlier attempts ended because their worker died. These attempts have no view, and their writes were not committed.
    `waited_ms` is the time from when the job was due to the start. `cpu_ms` is the CPU time and `wall_ms` the elapsed
    time. `rss_kb` is the memory in kilobytes. `host_calls` is the number of calls of each host function. `staged` is
    how many writes were committed at the end of the run.
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
    """The activity of a script.

    `last` is its last attempt, None if there is none. `runs` is how many attempts have ended since the requested time.
    `schedules` are the schedules that run the script.
    """

    script: str
    last: ScriptRunView | None
    runs: int
    schedules: tuple[ScheduleId, ...]


class ScriptTestView(Schema):
    """The result of a test of a script. A test writes nothing.

    `staged` are the writes that a run would commit, each as a dict. `kind` is insert, update or delete for documents,
    and kv.set or kv.delete for values. For other writes it is the name of the host function. `logs_cut` is True if some
    logged lines are missing. The other fields have the same meaning as in `ScriptRunView`.
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
    """How well scripts are isolated from the system.

    `level` is `full`, `partial` or `none`. `reason` says why it is not `full`.
    """

    level: str
    reason: str


class ScriptLimits(TypedDict, total=False):
    """New limits for the scripts of a tenant; see `ScriptPlan`. None restores the limit of the app's plan."""

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
    """The limits of the scripts of a tenant, and its current usage.

    `limits` are described in `ScriptPlan`. `own` are the names of the limits that the tenant has of its own. `misfits`
    are schedules that are more frequent than `interval_ms` allows. They were saved before the limit was raised and
    continue to run.
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
        """A message about the schedules in `misfits`; an empty string if there are none."""
        if not self.misfits:
            return ""
        seconds = f"{self.limits['interval_ms'] / SECOND_MS:g} s"
        return (
            f"the times of {named(self.misfits)} are less than {seconds} apart (interval_ms): they run on as before; "
            "change them, or lower the limit"
        )
