"""Target and metadata of a schedule: what it calls, and what is remembered about it beside its times and state.

The user's own memo is a part of it. The rest is memory of requests: what a definition looked like when it was given
(so that giving it again changes nothing), which triggers and backfills were asked for, the arguments that a trigger
brought for its run, and where a cron was declared.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, RetryPolicy
from evertick.base.records.stored import VERSION, read_object

EPOCH: Final = Instant(0)
REMEMBERED_MAX: Final = 100
"""Triggers and backfills of a schedule that can be asked about by their ids; the oldest are forgotten first."""

CODE: Final = "code"
RUN_TIME: Final = "run_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function to call. `args` is the JSON object of its arguments, `workflow_id` the stem of its runs' names.

    `app` is the app whose function it is; None if the schedule was made without the app's code, or by an earlier
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
        """As a JSON object, without the app; what is not set is left out."""
        values = {"name": self.name, "kind": self.kind.value, "args": json.loads(self.args)}
        retry = None if self.retry is None else self.retry.to_json()
        options = {"retry": retry, "workflow_id": self.workflow_id, "pool": self.pool}
        return values | {name: value for name, value in options.items() if value is not None}

    def to_text(self) -> str:
        """As JSON text."""
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
    """A backfill as it was asked for. `times` is how many it asks for."""

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
    - `spec_at`: since when the spec is what it is. `declared`: a cron's spec as the code has it; `declared_at`:
      where that stands, `app/crons.py:14`.
    - `app`, `source`: the app that declared a cron; `code` or `run_time`.
    - `triggers`, `backfills`: what was asked for, by request.
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
        """As JSON text; what is empty is left out."""
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
