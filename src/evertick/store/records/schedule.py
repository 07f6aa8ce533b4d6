"""The record of a schedule: when it fires, what it does, its state, and its metadata.

Compiled specs are cached by text: a page of due schedules mostly needs the same few again. The recurrence engine is
imported where it is used, because every store loads this module: a program that only schedules functions starts without
the engine, and without pydantic, which reads specs.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from evertick.base.errors import InvalidSpec, SchemaMismatch
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind
from evertick.base.records.schedules import HistoryRow
from evertick.base.records.stored import ByText, Codec, Stored
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.metadata import ScheduleMetadata, Target
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import (
    NONE_UNLISTED,
    Occurrence,
    OccurrenceKey,
    Run,
    ScheduleState,
    Stop,
    Unlisted,
    new_state,
)
from evertick.rules.schedules.state_json import from_text, to_text

if TYPE_CHECKING:
    from evertick.recurrence.search.recurrence import Recurrence
    from evertick.recurrence.spec.spec import Spec


# -- Open runs and waiting occurrences as rows: each is a separate row.

Open = Run | Occurrence
"""A run that has not ended, or an occurrence that waits."""

Row = tuple[Any, ...]

OPEN_COLUMNS: Final = (
    "tenant", "schedule_id", "nominal_at", "origin", "request", "waits", "position", "actual_at", "overlap", "run_id",
    "reason", "started_at", "stop",
)  # fmt: skip
KEY_COLUMNS: Final = OPEN_COLUMNS[:5]


def open_row(schedule: tuple[str, str], each: Open, position: int) -> Row:
    """The row of an open run or waiting occurrence of a schedule (tenant and id).

    A waiting occurrence has a reason, `caught_up`, if no worker evaluated it in time.
    """
    if isinstance(each, Run):
        (nominal_at, actual_at, overlap, origin, request, _), run_id, why, started_at, stop = each
        stop_value = None if stop is None else stop.value
        return (
            *schedule, nominal_at, origin.value, request, 0, position, actual_at, overlap.value,
            run_id, why.value, started_at, stop_value,
        )  # fmt: skip
    is_overdue = Reason.CAUGHT_UP.value if each.is_overdue else None
    return (*key_row(schedule, each.key), 1, position, each.actual_at, each.overlap.value, None, is_overdue, None, None)


def key_row(schedule: tuple[str, str], key: OccurrenceKey) -> Row:
    """The identity of a row."""
    return (*schedule, key.nominal_at, key.origin.value, key.request)


def read_open(row: Row) -> Open:
    """The run or occurrence of a row. Raises ValueError if a newer release wrote it."""
    _, _, nominal_at, origin, request, waits, _, actual_at, overlap, run_id, reason, started_at, stop = row
    occurrence = Occurrence(
        nominal_at=Instant(nominal_at),
        actual_at=Instant(actual_at),
        overlap=Overlap(overlap),
        origin=Origin(origin),
        request=request,
    )
    if waits:
        return occurrence if reason is None else occurrence._replace(is_overdue=True)
    return Run(
        occurrence=occurrence,
        run_id=run_id,
        why=Reason(reason),
        started_at=Instant(started_at),
        stop=None if stop is None else Stop(stop),
    )


COMPILED_MAX: Final = 8_192


class StoredSpec(ByText):
    """A spec as stored in a schedule."""

    __slots__ = ("_recurrence", "text")

    def __init__(self, text: str, recurrence: "Recurrence | None" = None) -> None:
        self.text = text
        self._recurrence = recurrence

    @classmethod
    def of(cls, spec: "Spec", recurrence: "Recurrence | None" = None) -> Self:
        """The stored form of a spec; `recurrence` is its compiled form, where the caller has it."""
        from evertick.recurrence.wire.writing import canonical

        text = canonical(spec)
        kept = _kept(text)
        if recurrence is not None and not kept:
            kept.append(recurrence)
        return cls(text, recurrence)

    @property
    def recurrence(self) -> "Recurrence":
        """The compiled form. Raises InvalidSpec if the text is no spec of this release."""
        if self._recurrence is None:
            self._recurrence = _compiled(self.text)
        return self._recurrence

    @property
    def value(self) -> "Spec":
        """The parsed form. Raises InvalidSpec if the text is no spec of this release."""
        return self.recurrence.spec


@lru_cache(maxsize=COMPILED_MAX)
def _kept(text: str) -> "list[Recurrence]":
    """The cache entry of a text's compiled form: empty until there is one."""
    return []


def _compiled(text: str) -> "Recurrence":
    kept = _kept(text)
    if not kept:
        from evertick.recurrence.search.compiler import compile_spec
        from evertick.recurrence.wire.reading import spec_from_wire

        try:
            kept.append(compile_spec(spec_from_wire(json.loads(text))))
        except InvalidSpec:
            raise
        except Exception as error:  # any error of a text of unknown shape
            raise InvalidSpec(
                f"a stored spec is damaged, or was written by a newer release ({type(error).__name__}: {error}): "
                f"{text:.100}"
            ) from error
    return kept[0]


STATE: Final = Codec(to_text, from_text)
TARGET: Final = Codec(Target.to_text, lru_cache(maxsize=COMPILED_MAX)(Target.from_text))  # many schedules share one
FORMAT: Final = 1
"""The newest format of a schedule's row that this code knows. Rows of a newer one are left to newer code."""
UNREADABLE: Final = "unreadable"
WHY_MAX: Final = 300
"""Characters of the text about an unreadable part of a schedule, at most."""
READ_COLUMNS: Final = 20
"""Fields of a schedule that are read from its row."""
NOTHING: Final[Mapping[OccurrenceKey, Open]] = MappingProxyType({})
METADATA: Final = Codec(ScheduleMetadata.to_text, ScheduleMetadata.from_text)


class Schedule(NamedTuple):
    """A schedule. `version` grows with every requested change (except triggers and backfills) and guards updates; a
    schedule with the id of a deleted one continues its version. `revision` grows with every write. `wake_at` is when an
    evaluator must evaluate it; None leaves it out of the index of due schedules.

    `kind` is `schedule` (made at run time) or `cron` (declared in code). `next_at` and `last_at` are the times of its
    next and its last start. `last_result` and `last_failure` are passed to the next run.

    `late` and `missed_at` (when it was found to have missed a time) are only written; None leaves them as they are.

    `function`, `status` (`active`, `paused`, `completed`, or `unreadable` by this release), `note` and `seen_until`
    repeat parts of the target and the state as columns, for lists. Only `with_target`, `with_state` and
    `mark_unreadable` set them.

    Open runs and waiting occurrences of the state are separate rows; `listed` are those that were read, as they are
    in the database. The other fields are in the order of the table's columns.
    """

    tenant: TenantId
    id: ScheduleId
    kind: str
    spec: StoredSpec
    stored_target: Stored[Target]
    function: str
    stored_state: Stored[ScheduleState]
    status: str
    note: str
    stored_metadata: Stored[ScheduleMetadata]
    seen_until: Instant
    wake_at: Instant | None
    next_at: Instant | None
    last_at: Instant | None
    last_result: str | None
    last_failure: str | None
    version: int
    revision: int
    created_at: Instant
    updated_at: Instant
    listed: Mapping[OccurrenceKey, Open] = NOTHING
    late: int | None = None
    missed_at: Instant | None = None

    def __eq__(self, other: object) -> bool:
        # Fields that were read separately, or are only written, do not count.
        return isinstance(other, Schedule) and self[:READ_COLUMNS] == other[:READ_COLUMNS]

    def __hash__(self) -> int:
        return hash((self.tenant, self.id))

    @classmethod
    def new(
        cls,
        tenant: TenantId,
        schedule_id: ScheduleId,
        *,
        spec: StoredSpec,
        target: Target,
        state: ScheduleState,
        metadata: ScheduleMetadata,
        kind: str = "schedule",
    ) -> Self:
        """A schedule as it is created, at the instant of its state."""
        return cls(
            tenant=tenant,
            id=schedule_id,
            kind=kind,
            spec=spec,
            stored_metadata=METADATA.value(metadata),
            wake_at=None,
            next_at=None,
            last_at=None,
            last_result=None,
            last_failure=None,
            version=1,
            revision=1,
            created_at=state.touched_at,
            updated_at=state.touched_at,
            **_of_target(target),
            **_of_state(state),
        )

    @property
    def target(self) -> Target:
        """The target. Raises SchemaMismatch if a newer release wrote it."""
        return self.stored_target.value

    @property
    def unreadable(self) -> dict[str, str]:
        """Which columns this release cannot read (spec, target, state, memo), and why; empty if it can be evaluated."""
        problems = {}
        for name, read in _PARTS.items():
            try:
                read(self)
            except (InvalidSpec, SchemaMismatch) as error:
                problems[name] = str(error)[:WHY_MAX]
        return problems

    @property
    def why_unreadable(self) -> str:
        """The same as one text, `spec: time zone 'Mars/Base': no such time zone`; empty if it can be evaluated."""
        return "; ".join(f"{name}: {why}" for name, why in self.unreadable.items())

    def with_defaults(self) -> Self:
        """The schedule with defaults in place of the parts that this release cannot read."""
        row, unread = self, self.unreadable
        if "spec" in unread:
            from evertick.recurrence.spec.spec import Spec

            row = row._replace(spec=StoredSpec.of(Spec()))
        if "target" in unread:
            row = row.with_target(Target(name=row.function, kind=FunctionKind.MUTATION, args="{}"))
        if "state" in unread:
            row = row.with_state(new_state(now=row.seen_until, run_id_template=""))
        return row.with_metadata(ScheduleMetadata()) if "memo" in unread else row

    @property
    def failing(self) -> int:
        """1 if the run that ended last failed, else 0."""
        return int(self.last_failure is not None)

    @property
    def time_zone(self) -> str | None:
        """The name of its time zone; None if the spec cannot be read."""
        if self.status == UNREADABLE:
            return None
        try:
            return self.spec.recurrence.zone.name
        except InvalidSpec:
            return None

    @property
    def state(self) -> ScheduleState:
        """The state. Raises SchemaMismatch if a newer release wrote it."""
        return self.stored_state.value

    @property
    def metadata(self) -> ScheduleMetadata:
        """The metadata. Raises SchemaMismatch if a newer release wrote it."""
        return self.stored_metadata.value

    @property
    def overrides(self) -> dict[str, str]:
        """The arguments of triggers that wait, by request. Most schedules have none, which the unparsed text shows."""
        return self.metadata.overrides if '"overrides"' in self.stored_metadata.text else {}

    def with_target(self, target: Target) -> Self:
        """The schedule with another target."""
        return self._replace(**_of_target(target))

    def with_state(self, state: ScheduleState, **changes: Any) -> Self:
        """The schedule in another state, with `changes` of its other fields."""
        return self._replace(**_of_state(state), **changes)

    def listing(self, found: Sequence[Open], *, whole: bool) -> Self:
        """The schedule with the open runs and waiting occurrences that were read, in order; `whole`: these are all."""
        runs = tuple(each for each in found if isinstance(each, Run))
        waiting = tuple(each for each in found if not isinstance(each, Run))
        unlisted = NONE_UNLISTED if whole else Unlisted(self.state.open_runs - len(runs), 0)
        state = self.state._replace(running=runs, waiting=waiting, unlisted=unlisted)
        listed = {_key(each): each for each in found}
        return self._replace(stored_state=Stored(STATE, self.stored_state.text, state), listed=listed)

    @property
    def open_now(self) -> dict[OccurrenceKey, Open] | None:
        """What is open by its state, as far as it is listed, in order; None if nothing has changed its state."""
        if self.status == UNREADABLE or not self.stored_state.is_known:
            return None
        state = self.stored_state.value
        opened: tuple[Open, ...] = (*state.running, *state.waiting)
        return {_key(each): each for each in opened}

    def saved(self) -> Self:
        """The schedule as it is in the database after it was written."""
        return self._replace(revision=self.revision + 1, listed=self.open_now or NOTHING)

    def mark_unreadable(self, until: Instant | None) -> Self:
        """The schedule marked as unreadable: it is evaluated again at `until`, and not earlier for ended runs.

        None: not before it is resumed or replaced.
        """
        return self._replace(wake_at=until, status=UNREADABLE)

    def with_metadata(self, metadata: ScheduleMetadata) -> Self:
        """The schedule with other metadata."""
        return self._replace(stored_metadata=METADATA.value(metadata))

    def line(self, line_id: str, at: Instant, actor: str, action: str, detail: str) -> HistoryRow:
        """A line of its history: who did it, what was done, and the detail."""
        return HistoryRow(
            id=line_id,
            tenant=self.tenant,
            schedule_id=self.id,
            at=at,
            actor=actor,
            action=action,
            detail=detail,
            version=self.version,
        )


_PARTS: Final[Mapping[str, Callable[[Schedule], object]]] = {
    "spec": lambda row: row.spec.recurrence,
    "target": lambda row: row.target,
    "state": lambda row: row.state,
    "memo": lambda row: row.metadata,
}


def _key(each: Open) -> OccurrenceKey:
    return each.occurrence.key if isinstance(each, Run) else each.key


def _of_target(target: Target) -> dict[str, Any]:
    return {"stored_target": TARGET.value(target), "function": target.name}


def _of_state(state: ScheduleState) -> dict[str, Any]:
    status = "completed" if state.completed else "paused" if state.paused else "active"
    stored = STATE.value(state)
    return {"stored_state": stored, "status": status, "note": state.note, "seen_until": state.seen_until}
