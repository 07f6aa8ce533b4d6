"""Schemas of schedules: descriptions, the ledger, backfills and the history."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from pydantic import computed_field

from evertick.api.schema import Count, DurationMs, Moment, NumberIn, Page, Retry, Schema, WireSpec, named
from evertick.base.ids import JobId, ScheduleId
from evertick.base.records.jobs import FunctionKind
from evertick.rules.schedules.catch_up import started_late
from evertick.rules.schedules.fates import Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.policies import CatchUp, Overlap
from evertick.rules.schedules.state import Ending, Stop


class TimeView(Schema):
    """A time of a spec: `nominal` is what the spec says, `actual` that plus its jitter."""

    nominal: Moment
    actual: Moment


class OccurrenceView(Schema):
    """A row of the ledger: one time, and what became of it.

    `run` is the name of the run, or of the run that prevented it. `request` is the id of the trigger or backfill.
    """

    schedule: ScheduleId
    nominal: Moment
    actual: Moment
    origin: Origin
    request: str
    fate: Fate
    reason: Reason
    detail: str
    decided: Moment
    run: str | None
    job_id: JobId | None
    started: Moment | None
    ended: Moment | None
    outcome: RunOutcome | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def late_ms(self) -> int | None:
        """Milliseconds from its actual time to its start; None if it was not started."""
        return None if self.late_by is None else round(self.late_by.total_seconds() * 1000)

    @property
    def late_by(self) -> timedelta | None:
        """How long after its actual time it was started; None if it was not started."""
        return None if self.started is None else max(timedelta(0), self.started - self.actual)

    @property
    def duration(self) -> timedelta | None:
        """How long its run took; None if it has not ended."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def is_late(self) -> bool:
        """Whether it was started over ten seconds after its actual time. Triggers and backfills are never late."""
        return started_late(self.origin, self.late_ms)


class OpenRunView(Schema):
    """An open run; `stop` is what it was asked to do, if anything.

    `blocked` is set if its job is due and workers live, but none of them runs its function.
    """

    run: str
    nominal: Moment
    started: Moment
    origin: Origin
    reason: Reason
    stop: Stop | None
    blocked: bool = False


class WaitingView(Schema):
    """An occurrence that waits for a run to end."""

    nominal: Moment
    actual: Moment
    origin: Origin
    overlap: Overlap


class PlannedBackfill(Schema):
    """What a backfill of a schedule would run: how many times, how many ran before, and the token that starts it.

    `first` and `last` are nominal times, None if there are none. `problem` says why it cannot be planned.
    """

    schedule: ScheduleId
    count: int
    already_ran: int
    first: Moment | None
    last: Moment | None
    token: str
    problem: str | None


class PlannedBackfillPage(Page):
    """What backfills of many schedules would run in [start, end], by id; `cursor` is where the next page begins."""

    start: Moment
    end: Moment
    plans: tuple[PlannedBackfill, ...]
    cursor: str | None


class BackfillView(Schema):
    """A backfill and its progress.

    `times` is the number of its times. `started`, `waiting`, `skipped` and `missed` count those with this outcome in
    the ledger; `ended` and `failed` count the started ones whose run has ended, and has failed.

    `done`: every time has its outcome and none waits. Its runs may still be open.
    """

    id: str
    schedule: ScheduleId
    start: Moment
    end: Moment
    overlap: Overlap | None
    asked: Moment
    times: int
    started: int
    ended: int
    failed: int = 0
    waiting: int
    skipped: int
    missed: int
    done: bool


class BackfillPlanView(Schema):
    """What a backfill would do: every time it would run, and the token that starts exactly this plan.

    `already_ran` are the times of the span that were started before. They are among `times`, and run again, unless
    `skip_done` or `only_missed` leaves them out.
    """

    schedule: ScheduleId
    start: Moment
    end: Moment
    overlap: Overlap | None
    times: tuple[TimeView, ...]
    already_ran: tuple[Moment, ...]
    token: str

    @property
    def count(self) -> int:
        """How many runs it requests, including times that ran before."""
        return len(self.times)


class TargetView(Schema):
    """What a schedule calls: a function, its arguments by name, and options."""

    function: str
    kind: FunctionKind
    args: dict[str, Any] = named("args", "input")
    workflow_id: str | None
    pool: str | None
    retry: Retry | None


class PoliciesView(Schema):
    """The policies of a schedule; see docs/policies.md."""

    overlap: Overlap
    concurrency_limit: int = named("concurrency_limit", "concurrency")
    catch_up: CatchUp
    catch_up_window_ms: DurationMs = named("catch_up_window_ms", "catchup_window")
    pause_on_failure: bool
    buffer_limit: int
    run_timeout_ms: DurationMs | None = named("run_timeout_ms", "run_timeout")


class PauseView(Schema):
    """Since when, by whom and why a schedule is paused, and until when if that is set."""

    since: Moment
    by: str
    note: str
    until: Moment | None


class CountersView(Schema):
    """Occurrences by fate and by reason since the schedule was created."""

    started: int
    skipped: int
    missed: int
    by_reason: Mapping[Reason, int]


class HistoryLine(Schema):
    """An entry of a schedule's history: who did what, and when."""

    at: Moment
    actor: str
    action: str
    detail: str
    schedule: ScheduleId
    id: str


class ScheduleSummary(Schema):
    """A schedule in a list.

    `kind` is `schedule` or `cron`; `source` is `code` for a cron declared in code, else `run_time`. `status` is
    `active`, `paused` or `completed`, or `unreadable` if a newer release has written it, its time zone is not known any
    more or it is damaged: it is not evaluated then, and can be replaced, paused and deleted. `sentence` is the spec in
    words, or why it cannot be read. `type` is what names its times: `cron`, `interval`, `calendar`, `rrule` or `once`
    (single times), several with "+", empty if it has none. `next` is the next actual time. `unreadable` names the
    columns that cannot be read (spec, target, state, memo), each with the reason; a view has a default in place of what
    they hold. `script` is the script that it runs, None if it calls a function of the app.
    """

    id: ScheduleId
    kind: str
    status: str = named("status", "state")
    next: Moment | None
    last: Moment | None
    sentence: str
    type: str
    time_zone: str
    function: str
    note: str
    source: str
    version: int
    memo: dict[str, Any]
    created: Moment
    updated: Moment
    unreadable: tuple[str, ...] = ()
    script: str | None = None

    @property
    def runs(self) -> str:
        """What it runs, for people: the name of a function, or of a script."""
        return self.function if self.script is None else f"script {self.script}"


class Remark(Schema):
    """A likely mistake in a schedule or a spec: a code for programs, the place, and a sentence."""

    code: str
    where: str
    message: str


class ScheduleDescription(ScheduleSummary):
    """Everything about a schedule.

    `spec` is as it was written. `declared_at` is where code declares it (`app/crons.py:14`). `upcoming` are its
    next times, also while it is paused. `recent` are the newest rows of its ledger. `last_result` is of the
    successful run that ended last, `last_failure` of the last failure that no success has followed. `silent_until`
    is set if the clock was set back: times up to then were judged while it was ahead (see `resume`). `remaining` is
    how many scheduled runs are left, None for no limit. `backfills` are those with times that have not started yet.
    `warnings` say what its policies lose after an outage.
    """

    spec: WireSpec
    declared_at: str | None = None
    target: TargetView
    run_id_template: str
    policies: PoliciesView
    pause: PauseView | None
    blocked_reason: str | None
    remaining: int | None = named("remaining", "remaining_actions")
    ending: Ending | None
    silent_until: Moment | None
    counters: CountersView
    upcoming: tuple[TimeView, ...]
    running: tuple[OpenRunView, ...]
    waiting: tuple[WaitingView, ...]
    recent: tuple[OccurrenceView, ...]
    backfills: tuple[BackfillView, ...]
    last_result: Any
    last_failure: str | None
    warnings: tuple[Remark, ...] = ()

    @property
    def paused(self) -> bool:
        """Whether it is paused, so that its times are skipped."""
        return self.pause is not None

    actions = NumberIn("counters.started", "How many runs were started.")
    skipped = NumberIn("counters.skipped", "How many occurrences a policy skipped.")
    missed = NumberIn("counters.missed", "How many occurrences should have run and did not.")


class AppliedSchedule(Schema):
    """What applying a file did to a schedule, or would do: `create`, `update`, `delete` or `unchanged`.

    `changes` are by name, each [before, after]. `error` says why it was not done.
    """

    id: ScheduleId
    action: str
    changes: dict[str, list[Any]]
    next_before: tuple[Moment, ...]
    next_after: tuple[Moment, ...]
    error: str | None


class ApplyReport(Schema):
    """What applying files of schedules did; with `dry_run`, what it would do."""

    dry_run: bool
    created: int
    updated: int
    deleted: int
    unchanged: int
    failed: int
    schedules: tuple[AppliedSchedule, ...]


class SchedulePage(Page):
    """A page of schedules; `cursor` continues the list, None at its end."""

    schedules: tuple[ScheduleSummary, ...]
    cursor: str | None


class OccurrencePage(Page):
    """A page of the ledger; `cursor` continues it, None at its end."""

    occurrences: tuple[OccurrenceView, ...]
    cursor: str | None


# -- Schemas for display: the success of each schedule, how many are in which state, a month, a trigger to be.


class DetailedSchedule(ScheduleSummary):
    """A schedule in a list for people.

    `function_kind` is that of what it calls; None if that cannot be read. `expression` is its spec in the notation
    of its sources (`0 9 * * 1-5`, `interval 5m`). `declared_at` is where code declares it (`app/crons.py:14`).
    `health` is what is wrong: `failing` (the run that ended last failed), `late` (the last start came more than ten
    seconds late, or `next` was due more than ten seconds ago and no worker has evaluated it), `missed` (a time of the
    last 24 hours was missed, and not caught up). `last_occurrence` is the newest row of its ledger, and `strip` how
    the newest 30 ended, the oldest first: `ok`, `late`, `failed`, `missed`, `skipped`, `canceled`, `running` or
    `queued`.
    """

    function_kind: FunctionKind | None
    expression: str
    declared_at: str | None
    health: tuple[str, ...]
    last_occurrence: OccurrenceView | None
    strip: tuple[str, ...]
    pause: PauseView | None


class DetailedSchedulePage(Page):
    """A page of schedules for people; `cursor` continues the list, None at its end."""

    schedules: tuple[DetailedSchedule, ...]
    cursor: str | None


class ScheduleCountsView(Schema):
    """How many schedules a filter chooses (`matching`), and how many of the tenant's are in a state of interest.

    `failing`, `late` and `missed` are as in `DetailedSchedule.health`; `next_hour` are those whose next time comes
    within an hour.
    """

    matching: Count
    failing: Count
    late: Count
    missed: Count
    paused: Count
    next_hour: Count


class ScheduleDay(Schema):
    """A day of a schedule, in its time zone: how many of its times had which outcome, and the next time."""

    day: date
    endings: Mapping[str, int]
    upcoming: Moment | None


class ScheduleDaysView(Schema):
    """Days of a schedule in its zone. `complete` is False if there were too many days to read."""

    schedule: ScheduleId
    time_zone: str
    days: tuple[ScheduleDay, ...]
    complete: bool


class TriggerEffect(Schema):
    """What a trigger would do under an overlap policy: its fate, and the run that is in its way.

    `stops` are the runs that would be asked to stop for it.
    """

    overlap: Overlap
    fate: Fate
    reason: Reason
    run: str | None
    stops: tuple[str, ...]
    sentence: str


class TriggerPlanView(Schema):
    """What a trigger would do at this moment under each overlap policy; `overlap` is the schedule's own.

    `running` are its open runs, the oldest first, and `waiting` how many occurrences wait.
    """

    schedule: ScheduleId
    at: Moment
    overlap: Overlap
    running: tuple[str, ...]
    waiting: int
    effects: tuple[TriggerEffect, ...]
