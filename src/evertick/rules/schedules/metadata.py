"""Target and metadata of a schedule: the function that it calls, and data in addition to its times and state.

The metadata contains the user's own memo. The rest is memory of requests: the definition as it was given (so that
giving it again changes nothing), requested triggers and backfills, the arguments that a trigger passed for its run, and
the place where a cron was declared.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, RetryPolicy
from evertick.base.records.stored import VERSION, read_object

EPOCH: Final = Instant(0)
REMEMBERED_MAX: Final = 100
"""Triggers and backfills of a schedule that can be queried by their ids; the oldest are forgotten first."""

CODE: Final = "code"
RUN_TIME: Final = "run_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function to call. `args` is the JSON object of its arguments, `workflow_id` the stem of its runs' names.

    `app` is the app of the function. None if the schedule was created without the app's code, or by an earlier
    release.
    """

    name: str
    kind: FunctionKind
    args: str
    retry: RetryPolicy | None = None
    workflow_id: str | None = None
    pool: str | None = None
    app: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The target as a JSON object, without the app and without empty fields."""
        values = {"name": self.name, "kind": self.kind.value, "args": json.loads(self.args)}
        retry = None if self.retry is None else self.retry.to_json()
        options = {"retry": retry, "workflow_id": self.workflow_id, "pool": self.pool}
        return values | {name: value for name, value in options.items() if value is not None}

    def to_text(self) -> str:
        """The target as JSON text."""
        app = {} if self.app is None else {"app": self.app}
        return json.dumps({"v": VERSION, **self.to_json(), **app})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The target that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "a schedule's target")
        retry = values.get("retry")
        return cls(
            name=values["name"],
            kind=FunctionKind(values["kind"]),
            args=json.dumps(values["args"]),
            retry=None if retry is None else RetryPolicy.from_json(retry),
            workflow_id=values.get("workflow_id"),
            pool=values.get("pool"),
            app=values.get("app"),
        )


class KnownBackfill(NamedTuple):
    """A backfill as it was requested. `times` is the number of requested times."""

    start_at: Instant
    end_at: Instant
    overlap: str | None
    times: int
    asked_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMetadata:
    """The metadata of a schedule.

    - `user`: the user's memo.
    - `request_id`, `definition`: the request that created it, and the digest of what it asked for.
    - `spec_at`: when the spec was last changed. `declared`: a cron's spec as in the code; `declared_at`:
      its place in the code, `app/crons.py:14`.
    - `app`, `source`: the app that declared a cron; `code` or `run_time`.
    - `triggers`, `backfills`: requested triggers and backfills, by request.
    - `overrides`: arguments for the runs of triggers that wait, by request.
    - `trace`: the trace context of the request that defined it, if it was traced.
    """

    user: dict[str, Any] = field(default_factory=dict)
    request_id: str | None = None
    definition: str | None = None
    spec_at: Instant = EPOCH
    app: str | None = None
    source: str | None = None
    declared: str | None = None
    declared_at: str | None = None
    triggers: dict[str, Instant] = field(default_factory=dict)
    backfills: dict[str, KnownBackfill] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    trace: str | None = None

    def to_text(self) -> str:
        """The metadata as JSON text, without empty fields."""
        values = {name: getattr(self, name) for name in self.__slots__}
        kept = {name: value for name, value in values.items() if value not in (None, {}, 0)}
        return json.dumps({"v": VERSION, **kept})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The metadata that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "a schedule's metadata")
        known = {name: value for name, value in values.items() if name in cls.__slots__}
        known["backfills"] = {name: KnownBackfill(*parts) for name, parts in known.get("backfills", {}).items()}
        return cls(**known)

    def with_trigger(self, request: str, at: Instant, args: str | None) -> Self:
        """The metadata with one more trigger; `args` replaces the target's arguments for its run."""
        overrides = self.overrides if args is None else self.overrides | {request: args}
        return replace(self, triggers=_newest(self.triggers | {request: at}), overrides=overrides)

    def with_backfill(self, backfill_id: str, known: KnownBackfill) -> Self:
        """The metadata with one more backfill."""
        return replace(self, backfills=_newest(self.backfills | {backfill_id: known}))

    def with_overrides_of(self, requests: set[str]) -> Self:
        """The metadata without the arguments of triggers other than these."""
        return replace(self, overrides={name: args for name, args in self.overrides.items() if name in requests})


def _newest(known: dict[str, Any]) -> dict[str, Any]:
    return dict(list(known.items())[-REMEMBERED_MAX:])
