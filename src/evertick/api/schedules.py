"""Schemas of schedules: descriptions, lists, the ledger, backfills, triggers and the history."""

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
    """A time of a schedule. `nominal` is the time of the spec. `actual` is the nominal time plus jitter."""

    nominal: Moment
    actual: Moment


class OccurrenceView(Schema):
    """A row of the ledger: one time of a schedule and its outcome.

    `nominal` is the time of the spec and `actual` is that time plus jitter. `origin` says what caused the occurrence,
    such as the spec, a trigger or a backfill. `request` is the id of the trigger or backfill. `fate` is the outcome,
    `reason` says why as one word, and `decided` is when it was decided. `run` is the name of the run that was started,
    or of the run that prevented a start. `outcome` is the result of the run. `started`, `ended` and `outcome` are None
    until the run has started or ended.
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
        """Milliseconds from the actual time to the start of the run; None if no run was started."""
        return None if self.late_by is None else round(self.late_by.total_seconds() * 1000)

    @property
    def late_by(self) -> timedelta | None:
        """The time from the actual time to the start of the run; None if no run was started."""
        return None if self.started is None else max(timedelta(0), self.started - self.actual)

    @property
    def duration(self) -> timedelta | None:
        """The duration of the run; None if it has not ended."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def is_late(self) -> bool:
        """Whether the run was started more than ten seconds after its actual time.

        Triggers and backfills are never late.
        """
        return started_late(self.origin, self.late_ms)


class OpenRunView(Schema):
    """A run that has started and has not ended.

    `stop` is what the run was requested to do (`cancel`, `terminate` or `time_out`), None if nothing was requested.
    `blocked` is True if its job is due and there are live workers, but none of them runs its function.
    """

    run: str
    nominal: Moment
    started: Moment
    origin: Origin
    reason: Reason
    stop: Stop | None
    blocked: bool = False


class WaitingView(Schema):
    """An occurrence that waits until another run has ended."""

    nominal: Moment
    actual: Moment
    origin: Origin
    overlap: Overlap


class PlannedBackfill(Schema):
    """The plan of a backfill of one schedule. `token` starts it.

    `count` is the number of times that it would run. `already_ran` is how many of the times ran before. `first` and
    `last` are the first and the last nominal time, None if there are no times. `problem` says why the backfill cannot
    be planned, None if it can.
    """

    schedule: ScheduleId
    count: int
    already_ran: int
    first: Moment | None
    last: Moment | None
    token: str
    problem: str | None


class PlannedBackfillPage(Page):
    """A page of plans of backfills of many schedules in [start, end], ordered by schedule id.

    `cursor` continues the list; it is None on the last page.
    """

    start: Moment
    end: Moment
    plans: tuple[PlannedBackfill, ...]
    cursor: str | None


class BackfillView(Schema):
    """A backfill and its progress.

    `times` is the number of times in the backfill. `started`, `waiting`, `skipped` and `missed` are how many of them
    have this outcome in the ledger. `ended` is how many of the started runs have ended. `failed` is how many of these
    have failed. `done` is True if all times have an outcome and none is waiting. Runs can still be open then. `asked`
    is when the backfill was requested. `overlap` is the overlap policy that was given for the backfill, None if none
    was given.
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
    """The plan of a backfill. `token` starts exactly this plan.

    `times` are all times that it would run. `already_ran` are the times in the period that were started before. They
    are also in `times` and run again, unless `skip_done` or `only_missed` excludes them.
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
        """The number of runs that the backfill would start, including times that ran before."""
        return len(self.times)


class TargetView(Schema):
    """What a schedule calls: a function, its arguments by name, and options of the call."""

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
    """A pause of a schedule: when it began, and who paused the schedule and why.

    `until` is when the pause ends, None if it has no end.
    """

    since: Moment
    by: str
    note: str
    until: Moment | None


class CountersView(Schema):
    """The number of occurrences since the schedule was created: started, skipped and missed, and by reason."""

    started: int
    skipped: int
    missed: int
    by_reason: Mapping[Reason, int]


class HistoryLine(Schema):
    """An entry of the history of a schedule: a change, who made it, and when."""

    at: Moment
    actor: str
    action: str
    detail: str
    schedule: ScheduleId
    id: str


class ScheduleSummary(Schema):
    """A schedule in a list.

    `kind` is `schedule` or `cron`. `source` is `code` for a cron that is declared in code, else `run_time`. `status` is
    `active`, `paused`, `completed` or `unreadable`. A schedule is `unreadable` if a newer release has written it, if
    its time zone is unknown, or if it is damaged. It does not run then, but it can be replaced, paused and deleted.

    `sentence` describes the spec, or says why it cannot be read. `type` is the kind of the spec: `cron`, `interval`,
    `calendar`, `rrule`, `once` (single times), or several of them joined by "+". It is empty if the spec has no times.
    `next` is the next actual time, None if there is none. `function` is the function that it calls. `script` is the
    script that it runs, None if it calls a function of the app. `unreadable` has one line for each column that cannot
    be read (spec, target, state, memo): its name and the reason. The fields of such a column have default values.
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
        """The name of the function or the script that it runs, for display."""
        return self.function if self.script is None else f"script {self.script}"


class Remark(Schema):
    """A likely mistake in a schedule or a spec.

    `code` identifies the kind of mistake. `where` is the part of the schedule. `message` describes the mistake in a
    sentence.
    """

    code: str
    where: str
    message: str


class ScheduleDescription(ScheduleSummary):
    """A schedule with all its details.

    `spec` is the spec as it was written. `declared_at` is the position of the declaration in code (`app/crons.py:14`),
    None if there is none. `remaining` is how many scheduled runs are left, None if there is no limit. `ending` says why
    no further time will come, None if one will. `upcoming` are the next times, also while the schedule is paused.
    `running` are the open runs, and `waiting` are occurrences that wait for a run to end. `recent` are the newest rows
    of its ledger. `backfills` are those with times that have not started yet.

    `last_result` is the result of the successful run that ended last. `last_failure` is the error of the last failed
    run, None if no run has failed or a successful run has ended since. `silent_until` is None unless the clock was set
    back. Times up to `silent_until` were evaluated while the clock was ahead and do not run again (see `resume`).
    `warnings` describe what its policies lose after an outage.
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
        """Whether the schedule is paused. The times of a paused schedule are skipped."""
        return self.pause is not None

    actions = NumberIn("counters.started", "How many runs were started.")
    skipped = NumberIn("counters.skipped", "How many occurrences a policy skipped.")
    missed = NumberIn("counters.missed", "How many occurrences should have run and did not.")


class AppliedSchedule(Schema):
    """The effect of applying a file on one schedule.

    `action` is `create`, `update`, `delete` or `unchanged`. `changes` maps the name of each changed field to its two
    values, [before, after]. `next_before` and `next_after` are the next times before and after the change. `error` says
    why the action failed, None if it did not fail.
    """

    id: ScheduleId
    action: str
    changes: dict[str, list[Any]]
    next_before: tuple[Moment, ...]
    next_after: tuple[Moment, ...]
    error: str | None


class ApplyReport(Schema):
    """The result of applying files of schedules. With `dry_run`, nothing was changed."""

    dry_run: bool
    created: int
    updated: int
    deleted: int
    unchanged: int
    failed: int
    schedules: tuple[AppliedSchedule, ...]


class SchedulePage(Page):
    """A page of schedules. `cursor` continues the list; it is None on the last page."""

    schedules: tuple[ScheduleSummary, ...]
    cursor: str | None


class OccurrencePage(Page):
    """A page of the ledger. `cursor` continues the list; it is None on the last page."""

    occurrences: tuple[OccurrenceView, ...]
    cursor: str | None


# -- Schemas for display: the success of each schedule, how many are in which state, a month, a trigger to be.


class DetailedSchedule(ScheduleSummary):
    """A schedule in a list, with its health and its latest outcomes.

    `function_kind` is the kind of the function that it calls, None if that cannot be read. `expression` is the spec in
    a short notation, such as `0 9 * * 1-5` or `interval 5m`. `declared_at` is the position of the declaration in code
    (`app/crons.py:14`), None if there is none.

    `health` has the problems of the schedule, and is empty if there are none. `failing`: the run that ended last
    failed. `late`: the last start was more than ten seconds late, or `next` was due more than ten seconds ago and no
    worker has evaluated it. `missed`: a time of the last 24 hours was missed and was not caught up. `last_occurrence`
    is the newest row of its ledger, None if there is none. `strip` has the outcomes of the newest 30 rows, oldest
    first: `ok`, `late`, `failed`, `missed`, `skipped`, `canceled`, `running` or `queued`.
    """

    function_kind: FunctionKind | None
    expression: str
    declared_at: str | None
    health: tuple[str, ...]
    last_occurrence: OccurrenceView | None
    strip: tuple[str, ...]
    pause: PauseView | None


class DetailedSchedulePage(Page):
    """A page of schedules with details. `cursor` continues the list; it is None on the last page."""

    schedules: tuple[DetailedSchedule, ...]
    cursor: str | None


class ScheduleCountsView(Schema):
    """The number of schedules that match a filter, and the number of the tenant's schedules in certain states.

    `matching` counts the schedules that match the filter. `failing`, `late` and `missed` have the same meaning as in
    `DetailedSchedule.health`. `next_hour` counts the schedules whose next time is within one hour.
    """

    matching: Count
    failing: Count
    late: Count
    missed: Count
    paused: Count
    next_hour: Count


class ScheduleDay(Schema):
    """A day of a schedule in its time zone.

    `endings` is the number of its times by outcome. `upcoming` is the first time of the day that has not passed, None
    if there is none.
    """

    day: date
    endings: Mapping[str, int]
    upcoming: Moment | None


class ScheduleDaysView(Schema):
    """Days of a schedule in its time zone. `complete` is False if there were more outcomes than are read."""

    schedule: ScheduleId
    time_zone: str
    days: tuple[ScheduleDay, ...]
    complete: bool


class TriggerEffect(Schema):
    """The effect of a trigger under one overlap policy.

    `fate` is the outcome, and `reason` says why as one word. `run` is the run that prevents or delays the start, None
    if the trigger starts a run. `stops` are the runs that would be requested to stop. `sentence` describes the effect.
    """

    overlap: Overlap
    fate: Fate
    reason: Reason
    run: str | None
    stops: tuple[str, ...]
    sentence: str


class TriggerPlanView(Schema):
    """The effect that a trigger would have now, for each overlap policy.

    `overlap` is the policy of the schedule. `running` are its open runs, oldest first. `waiting` is how many
    occurrences wait for a run to end.
    """

    schedule: ScheduleId
    at: Moment
    overlap: Overlap
    running: tuple[str, ...]
    waiting: int
    effects: tuple[TriggerEffect, ...]
