"""`client.schedules`, as requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypedDict, Unpack

from evertick.api.reports import AuditReport, Explanation
from evertick.api.schedules import (
    BackfillPlanView,
    BackfillView,
    DetailedSchedulePage,
    HistoryLine,
    OccurrencePage,
    OccurrenceView,
    PlannedBackfillPage,
    ScheduleCountsView,
    ScheduleDaysView,
    ScheduleDescription,
    SchedulePage,
    ScheduleSummary,
    TimeView,
    TriggerPlanView,
)
from evertick.app.functions.function import Function
from evertick.app.schedules.backfill_plans import BackfillOptions
from evertick.app.schedules.backfills import PlansAsked, TimesAsked
from evertick.app.schedules.definition import union
from evertick.app.schedules.options import CreateOptions, ReplaceOptions, ScheduleOptions, UpdateOptions, When
from evertick.app.schedules.queries import Where
from evertick.app.transacting import Page
from evertick.base.options import Unchanged, stated, takes
from evertick.client.calls import (
    Call,
    Requests,
    function_call,
    given,
    key_of,
    nothing,
    part,
    sent,
    sent_in_pieces,
    wire,
)
from evertick.recurrence.wire.writing import spec_to_wire
from evertick.rules.schedules.fates import Fate, Reason
from evertick.rules.schedules.policies import Overlap


class Which(TypedDict, total=False):
    """Which occurrences are listed, those with nominal times in [start, end), and in which order."""

    start: datetime | None
    end: datetime | None
    newest_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation(CreateOptions):
    """The options of `create`. With `dry_run`, everything is checked and the result is returned, but nothing is
    stored.
    """

    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement(ReplaceOptions):
    """The options of `replace`. With `dry_run`, everything is checked and the result is returned, but nothing is
    stored.
    """

    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(UpdateOptions):
    """The options of `update`. With `dry_run`, everything is checked and the result is returned, but nothing is
    stored.
    """

    dry_run: bool = False


class ScheduleRequests(Requests):
    """Requests about the schedules of the tenant at `home`."""

    @sent
    @takes(Creation, "a schedule")
    def create(self, new: Creation) -> Call[ScheduleDescription]:
        """Create a schedule. Called again with the same definition, it returns the existing schedule.

        The options are those of `app.schedules.create`. With `dry_run`, everything is checked and nothing is stored.
        """
        begins = {name: value for name, value in stated(new).items() if name in ("paused", "trigger")}
        spans = [{"start": start, "end": end} for start, end in new.backfill or ()]
        return Call(
            method="POST",
            path=f"{self._home}/schedules",
            query=_rehearsed(new.dry_run),
            body={"id": new.schedule_id, **_definition(new), **given({**begins, "backfill": spans or None})},
            key=new.request_id,
            read=ScheduleDescription.model_validate,
        )

    @sent
    def get(self, schedule_id: str) -> Call[ScheduleDescription]:
        """Everything about a schedule: spec, state, policies, counters, runs, upcoming and recent times.

        Raises ScheduleNotFound.
        """
        return self._get(self._of(schedule_id), ScheduleDescription)

    describe = get

    @sent
    def list(
        self, *, sort: str = "id", limit: int = 100, cursor: str | None = None, **where: Unpack[Where]
    ) -> Call[SchedulePage]:
        """A page of schedules. The filters and orders are those of `app.schedules.list`."""
        query = given({"sort": sort, "limit": limit, "cursor": cursor, **where})
        return self._get(f"{self._home}/schedules", SchedulePage, query)

    @sent
    def list_detailed(
        self, *, sort: str = "id", limit: int = 100, cursor: str | None = None, **where: Unpack[Where]
    ) -> Call[DetailedSchedulePage]:
        """A page of schedules for people: each with its last occurrence, the outcomes of the newest 30, and its health.

        See `app.schedules.list_detailed`.
        """
        query = given({"sort": sort, "limit": limit, "cursor": cursor, **where})
        path = f"{self._home}/schedule-details"
        return self._get(path, DetailedSchedulePage, query)

    @sent
    def counts(self, **where: Unpack[Where]) -> Call[ScheduleCountsView]:
        """How many schedules match the filters, and how many are failing, late, paused and so on.

        See `app.schedules.counts`.
        """
        path = f"{self._home}/schedule-counts"
        return self._get(path, ScheduleCountsView, given({**where}))

    @sent
    @takes(Change, "a schedule")
    def update(self, patch: Change) -> Call[ScheduleDescription]:
        """Change the given options of a schedule; None restores an option's default. See `app.schedules.update`.

        With `dry_run`, everything is checked and nothing is stored.
        """
        body = {key_of(name): wire(value) for name, value in patch.options().items()}
        body |= {} if isinstance(patch.when, Unchanged) else {"when": _times(patch.when)}
        body |= {} if isinstance(patch.do, Unchanged) else function_call(patch.do)
        return self._changed("PATCH", patch, body)

    @sent
    @takes(Replacement, "a schedule")
    def replace(self, new: Replacement) -> Call[ScheduleDescription]:
        """Replace the whole definition of a schedule; options that are not given get their defaults.

        See `app.schedules.replace`. With `dry_run`, everything is checked and nothing is stored.
        """
        return self._changed("PUT", new, _definition(new))

    @sent
    def delete(self, schedule_id: str, *, if_version: int | None = None, force: bool = False) -> Call[None]:
        """Delete a schedule. Its runs continue, and its waiting occurrences are dropped. See `app.schedules.delete`.

        Raises ScheduleNotFound, VersionConflict, and without `force` Misuse for a cron that is declared in code.
        """
        query = {"force": True} if force else {}
        return Call(method="DELETE", path=self._of(schedule_id), query=query, if_version=if_version, read=nothing)

    @sent
    def pause(
        self, schedule_id: str, note: str = "", *, until: datetime | None = None, if_version: int | None = None
    ) -> Call[ScheduleSummary]:
        """Pause a schedule, with `note` as the reason: its times are skipped, until `until` or until it is resumed.

        Raises ScheduleNotFound, VersionConflict.
        """
        return self._act(schedule_id, "pause", given({"note": note, "until": until}), if_version)

    @sent
    def resume(
        self, schedule_id: str, note: str = "", *, from_now: bool = False, if_version: int | None = None
    ) -> Call[ScheduleSummary]:
        """Let a paused schedule run again from now on; see `app.schedules.resume`.

        Raises ScheduleNotFound, VersionConflict.
        """
        return self._act(schedule_id, "resume", {"note": note, "from_now": from_now}, if_version)

    @sent
    def trigger(
        self,
        schedule_id: str,
        *,
        overlap: Overlap | str | None = None,
        args: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Call[OccurrenceView]:
        """Start one run now; returns its occurrence. Calls with the same `request_id` start one run only.

        See `app.schedules.trigger`. Raises ScheduleNotFound.
        """
        path, body = f"{self._of(schedule_id)}/trigger", given({"overlap": overlap, "args": args})
        return self._post(path, OccurrenceView, body, request_id)

    @sent
    def trigger_plan(self, schedule_id: str) -> Call[TriggerPlanView]:
        """What a trigger would do now under each overlap policy. Raises ScheduleNotFound."""
        path = f"{self._of(schedule_id)}/trigger-plan"
        return self._get(path, TriggerPlanView)

    @sent
    def days(self, schedule_id: str, start: date, end: date) -> Call[ScheduleDaysView]:
        """The days of a schedule in [start, end), each with the outcomes of its occurrences; see
        `app.schedules.days`.
        """
        query = {"start": start.isoformat(), "end": end.isoformat()}
        path = f"{self._of(schedule_id)}/days"
        return self._get(path, ScheduleDaysView, query)

    @sent
    def matching_times(
        self, schedule: str | When, start: datetime, end: datetime, *, limit: int | None = None
    ) -> Call[tuple[TimeView, ...]]:
        """The times of a schedule (given by id) or of a spec in [start, end), in order: all of them, or the first
        `limit`.

        There must not be more than 10,000 unless `limit` is given. See `app.schedules.matching_times`.
        """
        span = given({"start": start, "end": end, "limit": limit})
        if isinstance(schedule, str):
            return self._get(f"{self._of(schedule)}/times", tuple[TimeView, ...], span)
        body = {"when": _times(schedule), **span}
        return self._post(f"{self._home}/schedules/preview", tuple[TimeView, ...], body, "preview")

    @sent
    def occurrences(
        self,
        schedule_id: str | None = None,
        /,
        *,
        fate: Fate | str | Sequence[Fate | str] | None = None,
        reason: Reason | str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        **which: Unpack[Which],
    ) -> Call[OccurrencePage]:
        """A page of occurrences and their outcomes, from the ledger, in order of nominal time.

        See `app.schedules.occurrences`.
        """
        fates = None if fate is None else [fate] if isinstance(fate, str) else [*fate]
        query = given({"schedule": schedule_id, "fate": fates, "reason": reason, "limit": limit, "cursor": cursor})
        path = f"{self._home}/occurrences"
        return self._get(path, OccurrencePage, query | given(which))

    @sent
    def history(self, schedule_id: str, *, limit: int = 100, before: str | None = None) -> Call[Sequence[HistoryLine]]:
        """The changes to a schedule, newest first; with `before`, the id of a line, only those before that line."""
        query = given({"limit": limit, "before": before})
        return self._get(f"{self._of(schedule_id)}/history", list[HistoryLine], query)

    @sent
    def explain(self, schedule_id: str, at: datetime) -> Call[Explanation]:
        """Why a schedule ran at the nominal time `at`, or why it did not; for a future time, whether it will run."""
        path = f"{self._of(schedule_id)}/explain"
        return self._get(path, Explanation, {"at": wire(at)})

    @sent
    def audit(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        schedule_id: str | None = None,
        late_after: float = 60.0,
    ) -> Call[AuditReport]:
        """The times in [start, end) that were late by more than `late_after` seconds, missed or skipped.

        By default `end` is now. `start` is 24 hours before the end, or earlier if older times were found missed since
        then. See `app.schedules.audit`.
        """
        query = given({"start": start, "end": end, "schedule": schedule_id, "late_after": late_after})
        return self._get(f"{self._home}/audit", AuditReport, query)

    @sent
    def backfill_plan(
        self, schedule_id: str, start: datetime, end: datetime, **options: Unpack[BackfillOptions]
    ) -> Call[BackfillPlanView]:
        """The times that a backfill of [start, end], both included, would run. Nothing is changed."""
        path, body = f"{self._of(schedule_id)}/backfill-plan", given({"start": start, "end": end, **options})
        return self._post(path, BackfillPlanView, body, "plan")

    @sent
    def backfill_plans(self, start: datetime, end: datetime, **asked: Unpack[PlansAsked]) -> Call[PlannedBackfillPage]:
        """A page of plans: the times that backfills of [start, end] would run, for many schedules. Nothing is changed.

        See `app.schedules.backfill_plans`.
        """
        choice = {name: asked.pop(name) for name in Where.__annotations__ if name in asked}  # type: ignore[misc]
        body = given({"start": start, "end": end, "choice": given(choice), **asked})
        path = f"{self._home}/backfill-plans"
        return self._post(path, PlannedBackfillPage, body, "plan")

    @sent
    def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        token: str | None = None,
        **options: Unpack[BackfillOptions],
    ) -> Call[BackfillView]:
        """Run the times of a schedule in [start, end], both included, now; see `app.schedules.backfill`."""
        path = f"{self._of(schedule_id)}/backfills"
        body = given({"start": start, "end": end, "token": token, **options})
        return self._post(path, BackfillView, body)

    @sent
    def backfill_status(self, schedule_id: str, backfill_id: str) -> Call[BackfillView]:
        """The progress of a backfill."""
        path = f"{self._of(schedule_id)}/backfills/{part(backfill_id)}"
        return self._get(path, BackfillView)

    @sent
    def backfill_times(self, schedule_id: str, backfill_id: str, **asked: Unpack[TimesAsked]) -> Call[OccurrencePage]:
        """A page of the occurrences of a backfill and their outcomes, newest first; see
        `app.schedules.backfill_times`.
        """
        path = f"{self._of(schedule_id)}/backfills/{part(backfill_id)}/times"
        return self._get(path, OccurrencePage, given(asked))

    @sent
    def backfills(self, schedule_id: str, *, limit: int = 100) -> Call[tuple[BackfillView, ...]]:
        """The last backfills of a schedule with their progress, newest first; at most `limit`."""
        path = f"{self._of(schedule_id)}/backfills"
        return self._get(path, tuple[BackfillView, ...], {"limit": limit})

    @sent
    def backfill_cancel(self, schedule_id: str, backfill_id: str) -> Call[BackfillView]:
        """End a backfill: its waiting occurrences are skipped, and runs that have started continue."""
        path = f"{self._of(schedule_id)}/backfills/{part(backfill_id)}/cancel"
        return self._post(path, BackfillView, {})

    @sent_in_pieces
    def update_all(
        self,
        after: str,
        *,
        do: Function[..., Any] | str | None = None,
        rename: Mapping[str, str] | None = None,
        **where: Unpack[Where],
    ) -> Call[Page]:
        """Rename arguments, replace the function, or both, in all schedules that match the filters; returns how many
        changed.

        See `app.schedules.update_all`. It takes several requests, of about a second each.
        """
        name = do.name if isinstance(do, Function) else do
        return self._all("update", {**where, "do": name, "rename": rename}, after)

    @sent_in_pieces
    def pause_all(self, after: str, note: str = "", **where: Unpack[Where]) -> Call[Page]:
        """Pause all schedules that match the filters; returns how many. It takes several requests, of about a second
        each.
        """
        return self._all("pause", {"note": note, **where}, after)

    @sent_in_pieces
    def resume_all(self, after: str, note: str = "", **where: Unpack[Where]) -> Call[Page]:
        """Resume all schedules that match the filters; returns how many. It takes several requests, of about a second
        each.
        """
        return self._all("resume", {"note": note, **where}, after)

    @sent_in_pieces
    def delete_all(self, after: str, *, force: bool = False, **where: Unpack[Where]) -> Call[Page]:
        """Delete all schedules that match the filters; returns how many. It takes several requests, of about a second
        each.

        Crons that are declared in code are deleted only with `force`.
        """
        return self._all("delete", {**where, "force": force}, after)

    def _of(self, schedule_id: str) -> str:
        return f"{self._home}/schedules/{part(schedule_id)}"

    def _changed(
        self, method: str, changed: Change | Replacement, body: Mapping[str, Any]
    ) -> Call[ScheduleDescription]:  # fmt: skip
        return Call(
            method=method,
            path=self._of(changed.schedule_id),
            query=_rehearsed(changed.dry_run),
            body=body,
            if_version=changed.if_version,
            read=ScheduleDescription.model_validate,
        )

    def _act(self, schedule_id: str, action: str, body: Any, if_version: int | None) -> Call[ScheduleSummary]:
        path = f"{self._of(schedule_id)}/{action}"
        return Call(method="POST", path=path, body=body, if_version=if_version, read=ScheduleSummary.model_validate)

    def _all(self, action: str, body: Mapping[str, Any], after: str) -> Call[Page]:
        return self._piece(f"{self._home}/schedules/{action}-all", given(body), after)


def _definition(new: ScheduleOptions) -> dict[str, Any]:
    """A definition as the body of a request, without the options that have their defaults."""
    return {"when": _times(new.when), **function_call(new.do), **given(new.options())}


def _rehearsed(dry_run: bool) -> dict[str, Any]:
    return {"dry_run": True} if dry_run else {}


def _times(when: When) -> Any:
    """Times in their wire form. A sentence is read here: what it means does not depend on the server's release."""
    return spec_to_wire(union(when))
