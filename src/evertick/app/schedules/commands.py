"""Changing schedules: each operation as a plain function over a transaction.

What is given is checked before the transaction begins, so that a call that can never work costs none; what depends on
the schedule is checked inside it. Every operation leaves an entry in the schedule's history.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Unpack

from evertick.api.schedules import OccurrenceView, ScheduleDescription, ScheduleSummary, TriggerEffect, TriggerPlanView
from evertick.app.functions.function import FunctionCall
from evertick.app.schedules.backfill_plans import backfill_of, begun, planned
from evertick.app.schedules.definition import (
    Definition,
    args_for,
    check_searchable,
    check_spec,
    define,
    is_declared,
    refuse_deleting_code,
    schedule_id_of,
)
from evertick.app.schedules.options import (
    RULES,
    CreateOptions,
    check_until,
    note_of,
    stored_note,
    value_of,
    word,
)
from evertick.app.schedules.queries import ScheduleQueries, Where
from evertick.app.schedules.views import description, occurrence_view, sentence, summary
from evertick.app.scheduling.job_builder import Functions, Quotas, known_as, served_as
from evertick.app.transacting import Work
from evertick.base.errors import AlreadyExists, LimitExceeded, Misuse, NotFound, ScheduleNotFound
from evertick.base.ids import ScheduleId
from evertick.base.instants import MILLISECOND, Instant, from_datetime, to_datetime, to_iso
from evertick.base.options import check_options, some
from evertick.engine.jobs.completion import MakeId
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.tracing import Tracing
from evertick.engine.schedules import commands as requests
from evertick.engine.schedules.commands import REPORTS_MAX, Change, Requester
from evertick.engine.schedules.eligibility import ELIGIBLE, WORKFLOWS, Targets
from evertick.engine.schedules.evaluation import Inputs, evaluate
from evertick.recurrence.search.compiler import compile_spec
from evertick.rules.schedules.events import Event, Paused, Resumed, Triggered
from evertick.rules.schedules.fates import Fate, Origin, Reason
from evertick.rules.schedules.metadata import RUN_TIME, ScheduleMetadata
from evertick.rules.schedules.overlap import behind_overdue
from evertick.rules.schedules.plan import Plan, Verdict
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import BACKFILLS_MAX, OccurrenceKey, Pause, ScheduleState, new_state
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.transaction.transaction import Transaction

BULK_PAGE: Final = 500
"""Schedules that a bulk operation changes in one transaction."""

TRIGGER_PREFIX: Final = "trigger"
RECOUNT_PREFIX: Final = "recount"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOperations(ScheduleQueries):
    """Operations on a tenant's schedules, in the name of `actor`."""

    functions: Functions
    settings: Settings
    make_id: MakeId
    actor: str
    targets: Targets = WORKFLOWS
    tracing: Tracing | None = None
    quotas: Quotas = field(default_factory=Quotas)

    # -- making

    def create(self, new: CreateOptions) -> Work[ScheduleDescription]:
        """Create a schedule. Only times after its creation count.

            app.schedules.create(
                "report", when=daily(hour=9), do=make_report.with_args("weekly"), overlap="buffer_one"
            )

        `when` is a spec such as `every(hours=5)`, a cron line, a sentence, or a list of these whose times are united.
        `do` is a mutation or an action: the function, `fn.with_args(...)`, or its name.

        Times:

        - `start`, `end`: the first and the last time, both included. An aware datetime, or a date, which means the
          whole day in the schedule's time zone. By default there is no limit.
        - `jitter`: the longest delay that is added to a time, a timedelta or whole seconds; by default 0.
        - `exclude`: times to leave out: a spec, a date, a pair of dates, or a list of these.

        Policies (see docs/policies.md):

        - `overlap`: what happens to a time while an earlier run is open: `skip` (the default), `buffer_one`,
          `buffer_all`, `cancel_other`, `terminate_other` or `allow_all`.
        - `concurrency_limit`: how many runs may be open before `overlap` applies; by default 1.
        - `catch_up`: which of the times that passed during an outage run: `all` (the default), `latest` or `none`.
        - `catch_up_window`: how late a run may start, in seconds or as a timedelta; by default 365 days. Less than 10
          s, including 0, counts as 10 s.
        - `pause_on_failure`: pause the schedule when a run has failed; by default False.
        - `buffer_limit`: how many occurrences may wait; by default 1,000, which is also the maximum.
        - `run_timeout`: how long a run may be open, including its retries and waits, in seconds or as a timedelta. Then
          it is terminated and counts as failed (timed out). By default there is no limit.

        Runs:

        - `retry`: a `Retry` for the runs; by default the function's own retry policy.
        - `remaining_actions`: the maximum number of scheduled runs; by default there is no limit.
        - `workflow_id`: the first part of the names of the runs; by default the schedule's id.
        - `run_id_template`: the template of the names of the runs; by default `{workflow_id}-{nominal}`.
        - `pool`: not allowed, because a run is in the pool of its function; raises Misuse.

        For people: `note`, a text, and `memo`, a JSON object of at most 64 KiB.

        On creation:

        - `paused`: True, or the time until which it is paused, with `note` as the reason; by default False.
        - `trigger`: start one run at once; True, or an overlap policy for that run.
        - `backfill`: spans (start, end), both included, whose times run now.
        - `request_id`: makes the call repeatable; a text of 1 to 1,000 characters.

        Called again with the same request id, or with the same definition, it returns the existing schedule.

        Raises AlreadyExists if another schedule has the id, InvalidSpec if no time ever comes or no schedule can have
        the id, FunctionNotFound, InvalidArguments, LimitExceeded, QuotaExceeded where the tenant may have no more, and
        Misuse for an unknown option or a value that is not valid.
        """
        name = schedule_id_of(new.schedule_id)
        paused, trigger, request_id, chosen = new.paused, new.trigger, new.request_id, new.options()
        definition = define(self.functions, name, new.when, new.do, chosen)
        asked = [backfill_of("", start, end, definition.policies.overlap) for start, end in new.backfill or ()]
        first = None if isinstance(trigger, bool) else word("trigger", Overlap, trigger)
        if len(asked) > BACKFILLS_MAX:
            raise LimitExceeded(f"a schedule is created with at most {BACKFILLS_MAX} backfills, not {len(asked)}")
        note, remaining = value_of(chosen, "note", ""), value_of(chosen, "remaining_actions")
        if remaining == 0:
            raise Misuse("remaining_actions must be at least 1, not 0; leave it out for no limit")
        until = None if isinstance(paused, bool) else from_datetime(paused, "paused")
        digest = definition.digest(
            paused if until is None else until, note, remaining, str(trigger), [str(each) for each in asked]
        )
        metadata = ScheduleMetadata(user=definition.memo, request_id=request_id, definition=digest, source=RUN_TIME)
        check_searchable(definition.spec, self.now())

        def work(transaction: Transaction) -> ScheduleDescription:
            existing = transaction.get_schedule(name, tenant=self.tenant)
            if existing is not None:
                return self._same(transaction, existing, digest, request_id)
            now = self.now()
            self.quotas.check_schedule(transaction, self.tenant, now=now)
            check_spec(definition.spec, now, self.settings)
            self.check_target(transaction, name, definition, now)
            state = initial_state(definition, chosen, now)
            if paused:
                check_until(until, now)
                state = state._replace(pause=Pause(at=now, by=self.actor, note=state.note, until=until))
            row = self.new_row(name, definition, metadata, state)
            events: list[Event] = []
            if trigger is not False:
                events.append(Triggered(at=now, request=self.make_id(TRIGGER_PREFIX, now), overlap=first))
            for backfill in asked:
                row, event = begun(row, planned(transaction, row, backfill, {}), now, self.make_id)
                events.append(event)
            row = requests.create(transaction, row, events, self.by(now), detail=sentence(definition.spec))
            return description(transaction, row, now)

        return work

    def new_row(
        self,
        schedule_id: ScheduleId,
        definition: Definition,
        metadata: ScheduleMetadata,
        state: ScheduleState,
        *,
        kind: str = "schedule",
    ) -> Schedule:
        """The row of a new schedule, created at the time of `state`."""
        return Schedule.new(
            self.tenant,
            schedule_id,
            kind=kind,
            spec=StoredSpec.of(definition.spec, compile_spec(definition.spec)),
            target=definition.target,
            state=state,
            metadata=replace(metadata, spec_at=state.touched_at),
        )

    # -- pausing

    def pause(
        self, schedule_id: str, note: str = "", *, until: datetime | None = None, if_version: int | None = None
    ) -> Work[ScheduleSummary]:
        """Pause a schedule: its times are skipped until it is resumed, or until the time `until`. `note` is the reason.

            app.schedules.pause("report", "the database is down", until=tomorrow)

        Triggers and backfills still run. A schedule that is already paused keeps the start of its pause, and keeps its
        reason unless another is given. Raises ScheduleNotFound, VersionConflict, Misuse if `until` is past.
        """
        until_at = None if until is None else from_datetime(until, "until")
        note = stored_note(note)

        def event(now: Instant) -> Event:
            check_until(until_at, now)
            return Paused(at=now, note=note, by=self.actor, until=until_at)

        detail = note if until_at is None else f"{note} (until {to_iso(until_at)})".strip()
        return self._simple(schedule_id, Change(action="paused", detail=detail, if_version=if_version), event)

    def resume(
        self, schedule_id: str, note: str = "", *, from_now: bool = False, if_version: int | None = None
    ) -> Work[ScheduleSummary]:
        """Let a paused schedule run again from now on. Times that passed during the pause are not caught up.

        `from_now` is for a clock that was ahead and was set back. The schedule has then evaluated times that are still
        in the future, and starts no run until these have passed (see `silent_until` of its description). With
        `from_now` these times count again: what ran too early runs once more at its time, and the ledger keeps both
        runs.

        Raises ScheduleNotFound, VersionConflict.
        """
        note = stored_note(note)

        def resumed(now: Instant) -> Event:
            return Resumed(at=now, note=note, recount=self.make_id(RECOUNT_PREFIX, now) if from_now else None)

        return self._simple(schedule_id, Change(action="resumed", detail=note, if_version=if_version), resumed)

    # -- running

    def trigger(
        self,
        schedule_id: str,
        *,
        overlap: Overlap | str | None = None,
        args: FunctionCall | dict[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Work[OccurrenceView]:
        """Start one run now, if the overlap policy allows; returns the occurrence with its outcome.

            app.schedules.trigger("report", overlap="allow_all", args={"kind": "daily"})

        `overlap` replaces the schedule's policy for this run. `args` replaces the arguments: `fn.with_args(...)`, or a
        dict by name. Calls with the same `request_id` start one run only; the schedule remembers its last 100 triggers.

        Raises ScheduleNotFound, InvalidArguments, Misuse.
        """
        chosen = None if overlap is None else word("overlap", Overlap, overlap)
        check_options(RULES, some({"request_id": request_id}))

        def work(transaction: Transaction) -> OccurrenceView:
            now = self.now()
            row = requests.locked(transaction, ScheduleId(schedule_id), self.tenant)
            requests.refuse_unreadable(row, "triggered")
            request = request_id or self.make_id(TRIGGER_PREFIX, now)
            at = row.metadata.triggers.get(request)
            if at is None:
                at = now
                other = None if args is None else args_for(self.functions, row.target, args)

                def remembering(row: Schedule) -> Schedule:
                    return row.with_metadata(row.metadata.with_trigger(request, now, other))

                event = Triggered(at=now, request=request, overlap=chosen or behind_overdue(row.state))
                detail = "" if chosen is None else f"with {chosen}"
                change = Change(action="triggered", detail=detail, events=[event], edit=remembering, is_edit=False)
                requests.apply(transaction, row.id, change, self.by(now))
            found = transaction.get_occurrence(row.id, OccurrenceKey(Origin.TRIGGER, request, at), tenant=self.tenant)
            if found is None:
                raise NotFound(f"the trigger {request!r} of {schedule_id!r} is older than the ledger's retention")
            return occurrence_view(found)

        return work

    # -- ending

    def delete(self, schedule_id: str, *, if_version: int | None = None, force: bool = False) -> Work[None]:
        """Delete a schedule. Its open runs continue, and its waiting occurrences are dropped. Its ledger and history
        stay until their retention is over.

        `force` also deletes a cron that is declared in code, for an app that does not exist any more. An app that still
        declares the cron creates it again when it starts.

        Raises ScheduleNotFound, VersionConflict, and without `force` Misuse for a cron that is declared in code.
        """

        def work(transaction: Transaction) -> None:
            row = requests.locked(transaction, ScheduleId(schedule_id), self.tenant)
            if not force:
                refuse_deleting_code(row)
            requests.delete(transaction, ScheduleId(schedule_id), self.by(self.now()), if_version=if_version)

        return work

    # -- many at once

    def pause_page(self, after: str, note: str = "", **where: Unpack[Where]) -> Work[tuple[int, str | None]]:
        """Pause all schedules that match the filters of `list`; returns how many. Each page is a transaction.

            app.schedules.pause_all("the mail server is down", function="app.send_mail")

        Schedules that are already paused are not changed and not counted.
        """
        return self.page_of_changes(
            after, where, lambda name: self.pause(name, note), unless=lambda row: row.status == "paused"
        )

    def resume_page(self, after: str, note: str = "", **where: Unpack[Where]) -> Work[tuple[int, str | None]]:
        """Resume all paused schedules that match the filters of `list`; returns how many. Each page is a
        transaction.
        """
        return self.page_of_changes(after, {**where, "status": "paused"}, lambda name: self.resume(name, note))

    def delete_page(self, after: str, force: bool = False, **where: Unpack[Where]) -> Work[tuple[int, str | None]]:
        """Delete all schedules that match the filters of `list`; returns how many. Each page is a transaction.

        Crons that are declared in code are not deleted unless `force` is given; see `delete`.
        """

        def kept(row: Schedule) -> bool:
            return is_declared(row) and not force

        return self.page_of_changes(after, where, lambda name: self.delete(name, force=force), unless=kept)

    # -- what the operations share

    def by(self, now: Instant) -> Requester:
        """The author of a change, with what applying it needs."""
        return Requester(
            tenant=self.tenant, actor=self.actor, now=now, make_id=self.make_id, targets=self.targets,
            retention_ms=self.settings.completed_retention // MILLISECOND, tracing=self.tracing,
            function_of=partial(served_as, self.functions),
        )  # fmt: skip

    def check_target(
        self, transaction: Transaction, schedule_id: ScheduleId, definition: Definition, now: Instant
    ) -> None:
        """Check a schedule with its function's own check, if it has one. Raises the errors of that check."""
        target = definition.target
        function = known_as(self.functions, target.name)
        if function is not None and function.check_schedule is not None:
            function.check_schedule(transaction, self.tenant, schedule_id, target.args, definition.spec, now)

    def _simple(self, schedule_id: str, change: Change, event: Callable[[Instant], Event]) -> Work[ScheduleSummary]:
        def work(transaction: Transaction) -> ScheduleSummary:
            now = self.now()
            asked = replace(change, events=[event(now)])
            return summary(requests.apply(transaction, ScheduleId(schedule_id), asked, self.by(now)))

        return work

    def _same(
        self, transaction: Transaction, row: Schedule, digest: str, request_id: str | None
    ) -> ScheduleDescription:
        known = row.with_defaults().metadata
        if known.definition == digest or (request_id is not None and known.request_id == request_id):
            return description(transaction, row, self.now())
        raise AlreadyExists(
            f"a {row.kind} {row.id!r} exists already, with another definition; update it, or choose another id"
        )

    def page_of_changes(
        self,
        after: str,
        where: Where,
        each: Callable[[str], Work[Any]],
        *,
        unless: Callable[[Schedule], bool] = lambda row: False,
    ) -> Work[tuple[int, str | None]]:
        """Run `each` for the schedules of one page that match the filters and whose ids follow `after`, except those
        for which `unless` is true.
        """
        chosen = self.where(**where)

        def work(transaction: Transaction) -> tuple[int, str | None]:
            rows = transaction.list_schedules(chosen, limit=BULK_PAGE, after=(None, after))
            wanted = [row for row in rows if not unless(row)]
            for row in wanted:
                each(row.id)(transaction)
            return len(wanted), rows[-1].id if len(rows) == BULK_PAGE else None

        return work


def initial_state(definition: Definition, options: dict[str, Any], now: Instant) -> ScheduleState:
    """The state of a schedule that is created now, with `note` and `remaining_actions` from `options`."""
    state = new_state(
        now=now,
        policies=definition.policies,
        run_id_template=definition.run_id_template,
        remaining=value_of(options, "remaining_actions"),
    )
    return state._replace(note=note_of(options))


# -- What a trigger would do now: the rules are asked, for each overlap policy, and nothing is changed.

REQUEST: Final = "plan"


def trigger_plan(operations: "ScheduleOperations", schedule_id: str) -> Work[TriggerPlanView]:
    """What a trigger of a schedule would do now, under each overlap policy. Nothing is changed.

        for effect in app.schedules.trigger_plan("report").effects:
            print(effect.overlap, effect.sentence)

    The result takes into account ended runs and due times that no worker has evaluated yet, up to 250 times.

    Raises ScheduleNotFound.
    """

    def work(transaction: Transaction) -> TriggerPlanView:
        row = operations.readable_row(transaction, schedule_id)
        now = operations.now()
        evaluation = operations.by(now).evaluation(transaction)
        found = operations.targets.ineligible(transaction, [row], evaluation).get((row.tenant, row.id), ELIGIBLE)
        if found.gone:
            raise ScheduleNotFound(f"the target of schedule {row.id!r} is gone, and the schedule goes with it")
        reports = transaction.run_reports([(row.tenant, row.id)], limit=REPORTS_MAX)
        own = row.state.policies.overlap
        effects = []
        for overlap in Overlap:
            chosen = behind_overdue(row.state) or own if overlap is own else overlap
            event = Triggered(at=now, request=REQUEST, overlap=chosen)
            plan = evaluate(row, Inputs(reports, [event], found), evaluation).plan
            effects.append(_effect(overlap, plan, OccurrenceKey(Origin.TRIGGER, REQUEST, now)))
        nothing = evaluate(row, Inputs(reports, (), found), evaluation).plan.state
        return TriggerPlanView(
            schedule=row.id,
            at=to_datetime(now),
            overlap=own,
            running=tuple(run.run_id for run in nothing.running),
            waiting=nothing.waits,
            effects=tuple(effects),
        )

    return work


def _effect(overlap: Overlap, plan: Plan, key: OccurrenceKey) -> TriggerEffect:
    verdict = next(each for each in plan.fates if each.occurrence.key == key)
    names: Mapping[OccurrenceKey, str] = {run.occurrence.key: run.run_id for run in plan.state.running}
    stops = tuple(names[each] for each in (*plan.cancels, *plan.terminates))
    open_runs = plan.state.open_runs - 1 if verdict.fate is Fate.STARTED else 0
    ahead = plan.state.waits - 1 if verdict.fate is Fate.BUFFERED else 0
    return TriggerEffect(
        overlap=overlap,
        fate=verdict.fate,
        reason=verdict.reason,
        run=None if verdict.fate is Fate.STARTED else verdict.run_id,
        stops=stops,
        sentence=_sentence(verdict, stops, open_runs, ahead),
    )


def _sentence(verdict: Verdict, stops: tuple[str, ...], open_runs: int, ahead: int) -> str:
    """What would happen, as people read it; `open_runs` runs are open, `ahead` occurrences wait."""
    match verdict.fate:
        case Fate.STARTED:
            return "Starts at once" + (f", in addition to {_counted(open_runs, 'open run')}." if open_runs else ".")
        case Fate.BUFFERED if verdict.reason is Reason.STOPPING_RUN:
            which = ", ".join(stops[:3]) + (f" and {len(stops) - 3} more" if len(stops) > 3 else "")
            is_hard = verdict.occurrence.overlap is Overlap.TERMINATE_OTHER
            asked = f"Stops {which} at once" if is_hard else f"Asks {which} to cancel"
            asked = asked if stops else f"{verdict.run_id} has been asked to stop already"
            return f"{asked}; starts when that has ended."
        case Fate.BUFFERED:
            behind = f" and {_counted(ahead, 'other')} before it" if ahead else ""
            return f"Waits until {verdict.run_id} has ended{behind}, and starts then."
        case _:
            return f"Nothing would start: {verdict.detail or verdict.reason}."


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
