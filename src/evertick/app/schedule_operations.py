"""Changing schedules: each operation as a plain function over a transaction, as `schedule_reading` has the questions.

What is given is checked before the transaction begins, so that a call that can never work costs none; what depends on
the schedule is checked inside it. Every operation leaves a line in the schedule's history.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Unpack

from evertick.app.functions import FunctionCall
from evertick.app.schedule_definition import Defining, Definition, Do, args_for, define, schedule_id_of
from evertick.app.schedule_memo import CODE, RUN_TIME, KnownBackfill, Memo
from evertick.app.schedule_reading import ScheduleQuestions, Where, Work, backfill_of, policy
from evertick.app.schedule_specs import When, check_spec
from evertick.app.schedule_views import (
    BackfillView,
    OccurrenceView,
    ScheduleDescription,
    ScheduleSummary,
    occurrence_view,
    summary,
)
from evertick.app.scheduling import Functions
from evertick.base.errors import AlreadyExists, LimitExceeded, Misuse, NotFound, VersionConflict
from evertick.base.ids import ScheduleId
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.base.schedule_records import ScheduleRow
from evertick.engine import schedule_requests as requests
from evertick.engine.finish import MakeId
from evertick.engine.schedule_requests import Requester
from evertick.engine.schedule_standing import OPEN, Targets
from evertick.engine.schedule_target import Target
from evertick.engine.settings import Settings
from evertick.rules.backfill import BackfillPlan, admit
from evertick.rules.events import BackfillAsked, BackfillCanceled, Event, Paused, Resumed, Triggered
from evertick.rules.lifecycle import cut
from evertick.rules.recurrence.describe import describe as say
from evertick.rules.recurrence.writing import canonical
from evertick.rules.schedule import BACKFILLS_MAX, Origin, Overlap, Pause, new_state
from evertick.rules.state_text import from_text, to_text
from evertick.store.contract import Transaction

BULK_PAGE: Final = 500
"""Schedules that a bulk operation changes in one transaction."""

TRIGGER_PREFIX: Final = "trigger"
BACKFILL_PREFIX: Final = "backfill"
RECOUNT_PREFIX: Final = "recount"
REQUEST_CHARS_MAX: Final = 1_000

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOperations(ScheduleQuestions):
    """What may be done to a tenant's schedules, in the name of `actor`."""

    functions: Functions
    settings: Settings
    make_id: MakeId
    actor: str
    targets: Targets = OPEN

    # -- making

    def create(
        self,
        schedule_id: str,
        *,
        when: When,
        do: Do,
        paused: bool = False,
        note: str = "",
        remaining_actions: int | None = None,
        trigger: bool | Overlap | str = False,
        backfill: Sequence[Span] = (),
        request_id: str | None = None,
        **defining: Unpack[Defining],
    ) -> Work[ScheduleDescription]:
        """Create a schedule. Only times after its creation count.

        - `when`: a spec (`every(hours=5)`), or a list of them, whose times are united. `start`, `end`, `jitter` and
          `except_` concern all of them.
        - `do`: a mutation or an action: the function, or `fn.args(...)`.
        - `overlap`, `concurrency_limit`, `catch_up`, `catch_up_window` (seconds or timedelta), `pause_on_failure`,
          `buffer_limit`: the policies, see docs/policies.md.
        - `remaining_actions`: how many scheduled runs there shall be. `paused`, `note`: begin paused, and why.
        - `memo`: JSON of yours. `retry`: a Retry for the runs. `pool`: where they run.
        - `workflow_id`: the stem of the runs' names (the id, unless given); `run_id_template` names them
          (`{workflow_id}-{nominal}`).
        - `trigger`: start one run at once, with this overlap policy. `backfill`: spans of time to run now.
        - `request_id`: makes the call repeatable.

        Called again with the same request id, or with the same definition, it answers the schedule that exists.
        Raises AlreadyExists if another one has the id; InvalidSpec, LimitExceeded, FunctionNotFound, InvalidArguments
        or Misuse for what can never be.
        """
        name = schedule_id_of(schedule_id)
        definition = define(self.functions, name, when, do, **defining)
        _check_request(request_id)
        if remaining_actions is not None and remaining_actions < 1:
            raise Misuse(f"remaining_actions must be at least 1, not {remaining_actions}; leave it out for no limit")
        spans = [backfill_of("", start, end, definition.policies.overlap) for start, end in backfill]
        first = None if isinstance(trigger, bool) else policy(Overlap, trigger)
        if len(spans) > BACKFILLS_MAX:
            raise LimitExceeded(f"a schedule is created with at most {BACKFILLS_MAX} backfills, not {len(spans)}")
        digest = definition.digest(paused, note, remaining_actions, str(trigger), [str(each) for each in spans])
        memo = Memo(user=definition.memo, request_id=request_id, definition=digest, source=RUN_TIME)

        def work(transaction: Transaction) -> ScheduleDescription:
            existing = transaction.get_schedule(name, tenant=self.tenant)
            if existing is not None:
                return self._same(transaction, existing, digest, request_id)
            now = self.now()
            check_spec(definition.spec, now, self.settings)
            pause = Pause(at=now, by=self.actor, note=cut(note)) if paused else None
            row = self.new_row(name, definition, memo, now, pause=pause, remaining=remaining_actions, note=note)
            events: list[Event] = []
            if trigger is not False:
                events.append(Triggered(at=now, request=self.make_id(TRIGGER_PREFIX, now), overlap=first))
            for span in spans:
                row, event = self._backfill_event(row, self.planned(transaction, row, span), now)
                events.append(event)
            item = requests.create(transaction, row, events, self.by(now), detail=say(definition.spec))
            return self.described(transaction, item.row)

        return work

    def new_row(
        self,
        schedule_id: ScheduleId,
        definition: Definition,
        memo: Memo,
        now: Instant,
        *,
        kind: str = "schedule",
        pause: Pause | None = None,
        remaining: int | None = None,
        note: str = "",
        seen_until: Instant | None = None,
    ) -> ScheduleRow:
        """The row of a schedule that is created now."""
        state = new_state(
            now=now,
            policies=definition.policies,
            run_id_template=definition.run_id_template,
            remaining=remaining,
            pause=pause,
        )
        state = replace(state, note=cut(note), seen_until=now if seen_until is None else seen_until)
        return ScheduleRow(
            tenant=self.tenant,
            id=schedule_id,
            kind=kind,
            spec=canonical(definition.spec),
            target=definition.target.to_text(),
            function=definition.target.name,
            state=to_text(state),
            status="active",
            note=state.note,
            memo=replace(memo, spec_at=now).to_text(),
            seen_until=state.seen_until,
            wake_at=None,
            next_at=None,
            last_at=None,
            last_result=None,
            last_failure=None,
            version=1,
            revision=1,
            created_at=now,
            updated_at=now,
        )

    # -- pausing

    def pause(
        self, schedule_id: str, note: str = "", *, until: datetime | None = None, if_version: int | None = None
    ) -> Work[ScheduleSummary]:
        """Let a schedule rest, for a reason, and until a moment if one is given. Its times are skipped meanwhile.

        Triggers and backfills run all the same. Raises ScheduleNotFound, VersionConflict.
        """
        until_at = None if until is None else from_datetime(until)
        _check_note(note)

        def event(now: Instant) -> Event:
            if until_at is not None and until_at <= now:
                raise Misuse(f"the pause would end at {to_iso(until_at)}, which is past")
            return Paused(at=now, note=note, by=self.actor, until=until_at)

        detail = note if until_at is None else f"{note} (until {to_iso(until_at)})".strip()
        return self._simple(schedule_id, event, "paused", detail, if_version)

    def resume(
        self, schedule_id: str, note: str = "", *, from_now: bool = False, if_version: int | None = None
    ) -> Work[ScheduleSummary]:
        """Let a schedule go on, from now. What passed during the pause is not made up.

        After the clock was ahead and was set back, a schedule is silent until the times come that it has not judged
        yet (`silent_until` of its description). With `from_now`, all times from now on count, also those that it has
        judged: what ran too early runs again at its time, and the ledger keeps both.

        Raises ScheduleNotFound, VersionConflict.
        """

        _check_note(note)

        def resumed(now: Instant) -> Event:
            return Resumed(at=now, note=note, recount=self.make_id(RECOUNT_PREFIX, now) if from_now else None)

        return self._simple(schedule_id, resumed, "resumed", note, if_version)

    # -- running

    def trigger(
        self,
        schedule_id: str,
        *,
        overlap: Overlap | str | None = None,
        args: FunctionCall | dict[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Work[OccurrenceView]:
        """Start one run now, as the overlap policy (the schedule's, or another) allows; answers what became of it.

        `args` replaces the arguments for this run. With a `request_id`, asking again starts nothing more,
        as long as it is among the schedule's last 100 triggers.
        Raises ScheduleNotFound, InvalidArguments.
        """
        chosen = None if overlap is None else policy(Overlap, overlap)
        _check_request(request_id)

        def work(transaction: Transaction) -> OccurrenceView:
            now = self.now()
            row = requests.locked(transaction, ScheduleId(schedule_id), self.tenant)
            memo = Memo.from_text(row.memo)
            request = request_id or self.make_id(TRIGGER_PREFIX, now)
            at = memo.triggers.get(request)
            if at is None:
                at = now
                text = None if args is None else args_for(self.functions, Target.from_text(row.target), args)

                def change(row: ScheduleRow) -> ScheduleRow:
                    row = replace(row, memo=Memo.from_text(row.memo).with_trigger(request, now).to_text())
                    return row if text is None else requests.with_override(row, request, text)

                event = Triggered(at=now, request=request, overlap=chosen)
                detail = "" if chosen is None else f"with {chosen}"
                requests.apply(
                    transaction, row.id, [event], self.by(now), action="triggered", detail=detail, change=change
                )
            found = transaction.get_occurrence(
                row.id, tenant=self.tenant, nominal_at=at, origin=Origin.TRIGGER.value, request=request
            )
            if found is None:
                raise NotFound(f"the trigger {request!r} of {schedule_id!r} is older than the ledger's retention")
            return occurrence_view(found)

        return work

    def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        overlap: Overlap | str | None = None,
        max_active: int | None = None,
        skip_done: bool = False,
        token: str | None = None,
    ) -> Work[BackfillView]:
        """Run now what the schedule names in [start, end], both included, as `overlap` (or its own policy) says.

        With `max_active` at most so many of its runs are open at a time, whatever else runs. Times that ran before run
        again, unless `skip_done` leaves them out.
        With the `token` of a plan, exactly the plan is run. Raises VersionConflict if the schedule changed since, or
        the plan was of another span; ScheduleNotFound, Misuse, LimitExceeded.
        """
        asked = backfill_of("", start, end, overlap, max_active)

        def work(transaction: Transaction) -> BackfillView:
            now = self.now()
            row = requests.locked(transaction, ScheduleId(schedule_id), self.tenant)
            plan = self.planned(transaction, row, asked, skip_done=skip_done)
            if token is not None and plan.token != token:
                raise VersionConflict(
                    f"schedule {schedule_id!r} changed since the backfill was planned, or the plan was of another "
                    "span or policy; plan it again"
                )
            admit(from_text(row.state))
            changed, event = self._backfill_event(row, plan, now)
            detail = f"{event.backfill.id}: {to_iso(asked.start_at)} to {to_iso(asked.end_at)}"
            item = requests.apply(
                transaction, row.id, [event], self.by(now), action="backfilled", detail=detail,
                change=lambda row: replace(row, memo=changed.memo),
            )  # fmt: skip
            known = Memo.from_text(item.row.memo).backfills[event.backfill.id]
            return self.backfill_view(transaction, item.row, event.backfill.id, known)

        return work

    def backfill_cancel(self, schedule_id: str, backfill_id: str) -> Work[BackfillView]:
        """End a backfill: what of it waits is skipped, what runs goes on. Raises ScheduleNotFound, NotFound."""
        status = self.backfill_status(schedule_id, backfill_id)

        def work(transaction: Transaction) -> BackfillView:
            status(transaction)
            now = self.now()
            event = BackfillCanceled(at=now, backfill_id=backfill_id)
            name = ScheduleId(schedule_id)
            requests.apply(transaction, name, [event], self.by(now), action="backfill canceled", detail=backfill_id)
            return status(transaction)

        return work

    # -- ending

    def delete(self, schedule_id: str, *, if_version: int | None = None) -> Work[None]:
        """Remove a schedule. Its runs go on, what waits is dropped, its ledger and history stay for their time.

        Raises ScheduleNotFound, VersionConflict.
        """

        def work(transaction: Transaction) -> None:
            requests.delete(transaction, ScheduleId(schedule_id), self.by(self.now()), if_version=if_version)

        return work

    # -- many at once

    def pause_page(self, after: str, note: str = "", **where: Unpack[Where]) -> Work[tuple[int, str | None]]:
        """Pause every schedule that `where` chooses, as `list` does; answers how many. Each page is a transaction."""
        return self._page_of(after, where, lambda name: self.pause(name, note), unless="paused")

    def resume_page(self, after: str, note: str = "", **where: Unpack[Where]) -> Work[tuple[int, str | None]]:
        """Resume every schedule that `where` chooses; answers how many. Each page is a transaction."""
        return self._page_of(after, {**where, "status": "paused"}, lambda name: self.resume(name, note))

    def delete_page(self, after: str, **where: Unpack[Where]) -> Work[tuple[int, str | None]]:
        """Delete every schedule that `where` chooses; answers how many. Each page is a transaction."""
        return self._page_of(after, where, self.delete)

    # -- what the operations share

    def by(self, now: Instant) -> Requester:
        """Who asks."""
        return Requester(
            tenant=self.tenant,
            actor=self.actor,
            now=now,
            make_id=self.make_id,
            targets=self.targets,
            retention_ms=self.settings.completed_retention_ms,
        )

    def _simple(
        self, schedule_id: str, event: Callable[[Instant], Event], action: str, detail: str, if_version: int | None
    ) -> Work[ScheduleSummary]:
        def work(transaction: Transaction) -> ScheduleSummary:
            now = self.now()
            item = requests.apply(
                transaction,
                ScheduleId(schedule_id),
                [event(now)],
                self.by(now),
                action=action,
                detail=detail,
                if_version=if_version,
            )
            return summary(item.row)

        return work

    def _same(
        self, transaction: Transaction, row: ScheduleRow, digest: str, request_id: str | None
    ) -> ScheduleDescription:
        memo = Memo.from_text(row.memo)
        if memo.definition == digest or (request_id is not None and memo.request_id == request_id):
            return self.described(transaction, row)
        raise AlreadyExists(
            f"a {row.kind} {row.id!r} exists already, with another definition; update it, or choose another id"
        )

    def _backfill_event(self, row: ScheduleRow, plan: BackfillPlan, now: Instant) -> tuple[ScheduleRow, BackfillAsked]:
        """A backfill that begins now, and the row that remembers it."""
        backfill = replace(plan.backfill, id=self.make_id(BACKFILL_PREFIX, now))
        known = KnownBackfill(backfill.start_at, backfill.end_at, backfill.overlap, plan.count, now)
        memo = Memo.from_text(row.memo).with_backfill(backfill.id, known)
        return replace(row, memo=memo.to_text()), BackfillAsked(at=now, backfill=backfill)

    def _page_of(
        self, after: str, where: Where, each: Callable[[str], Work[Any]], *, unless: str | None = None
    ) -> Work[tuple[int, str | None]]:
        chosen = self.where(**where)

        def work(transaction: Transaction) -> tuple[int, str | None]:
            rows = transaction.list_schedules(chosen, limit=BULK_PAGE, after=(None, after))
            wanted = [row for row in rows if row.status != unless]
            for row in wanted:
                each(row.id)(transaction)
            return len(wanted), rows[-1].id if len(rows) == BULK_PAGE else None

        return work


def refuse_code(row: ScheduleRow) -> None:
    """Raise Misuse if the schedule is declared in code: an edit would be lost at the next start."""
    memo = Memo.from_text(row.memo)
    if memo.source == CODE:
        raise Misuse(f"the cron {row.id!r} is declared in the code of the app {memo.app!r}; change it there")


def _check_note(note: str) -> None:
    if not isinstance(note, str):
        raise Misuse(f"a note is text, not {note!r}")


def _check_request(request_id: str | None) -> None:
    if request_id is not None and not 1 <= len(request_id) <= REQUEST_CHARS_MAX:
        raise Misuse(f"a request id has 1 to {REQUEST_CHARS_MAX} characters, not {len(request_id)}")
