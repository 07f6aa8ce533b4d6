"""A job as the command line shows it: stable names and forms for programs, few words for people.

Times are RFC 3339 in UTC, or null. `state` is what others see: a mutation is pending until it is done.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from evertick.base.instants import Instant, to_iso
from evertick.base.records import Job, JobState
from evertick.cli.dev_lines import error_line
from evertick.cli.printable import json_text
from evertick.cli.words import distance

LIST_FIELDS: Final = ("id", "function", "state", "due_at", "completed_at", "attempt", "error")
"""What a table shows unless asked otherwise."""


def row_of(job: Job) -> dict[str, Any]:
    """Everything that is known of a job, under its stable names."""
    return {
        "id": job.id,
        "function": job.name,
        "kind": job.kind.value,
        "state": job.visible_state.value,
        "due_at": to_iso(job.due_at),
        "requested_at": to_iso(job.requested_at),
        "created_at": to_iso(job.created_at),
        "completed_at": None if job.completed_at is None else to_iso(job.completed_at),
        "attempt": job.attempt,
        "failures": job.failures,
        "args": json.loads(job.args),
        "result": None if job.result is None else json.loads(job.result),
        "error": None if job.error is None else json.loads(job.error),
        "key": job.key,
        "parent_id": job.parent_id,
        "worker_id": job.worker_id,
        "blocked": job.blocked,
        "tenant": job.tenant,
    }


def words_of(job: Job, moment: Callable[[Instant], str]) -> dict[str, str]:
    """The same cells as text; `moment` writes a time."""
    row = row_of(job)
    special: Mapping[str, Callable[[], str]] = {
        "due_at": lambda: moment(job.due_at),
        "requested_at": lambda: moment(job.requested_at),
        "created_at": lambda: moment(job.created_at),
        "completed_at": lambda: "" if job.completed_at is None else moment(job.completed_at),
        "error": lambda: _trouble(job),
        "args": lambda: json_text(row["args"]),
        "result": lambda: "" if job.result is None or job.visible_state is not JobState.SUCCESS else job.result,
        "blocked": lambda: "yes" if job.blocked else "",
    }
    return {
        name: special[name]() if name in special else "" if value is None else str(value) for name, value in row.items()
    }


FIELDS: Final = (
    "id", "function", "kind", "state", "due_at", "requested_at", "created_at", "completed_at", "attempt", "failures",
    "args", "result", "error", "key", "parent_id", "worker_id", "blocked", "tenant",
)  # fmt: skip
"""All fields, in the order in which `job get` shows them."""


def _trouble(job: Job) -> str:
    if job.blocked:
        return "blocked: no worker knows this function"
    return "" if job.error is None else error_line(job.error)


def near(now: Instant) -> Callable[[Instant], str]:
    """Writes a time as its distance, `in 5 s`: for lists."""
    return lambda at: distance(at, now)


def exact(now: Instant) -> Callable[[Instant], str]:
    """Writes a time in full, with its distance."""
    return lambda at: f"{to_iso(at)} ({distance(at, now)})"
