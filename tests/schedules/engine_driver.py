"""A driver of timelines (`tests.rules.timeline`) that stands on the real engine and store, under a clock that jumps.

A run is a real action: it begins when the worker claims its job, and ends when the story says so, or when it is
stopped. What the driver tells is what the action saw and what the tables hold.

The engine settles everything that is due at a moment before it hears what somebody asks for at that moment. So what
stands beside a due time of the same moment happens a millisecond earlier here, and is told as of its moment.
"""

import asyncio
import json
from datetime import timedelta
from typing import Any, Final

from evertick import ActionCtx, App
from evertick.base.errors import VersionConflict
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import DAY_MS, Instant, from_datetime, to_datetime
from evertick.base.records.jobs import FunctionKind, Stop
from evertick.base.records.schedules import OccurrenceFilter
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.settings import Settings
from evertick.engine.schedules import commands as schedule_requests
from evertick.engine.schedules.commands import Requester
from evertick.engine.schedules.times import times_of
from evertick.rules.schedules.events import BackfillRequested, Event, Paused, Resumed, Triggered
from evertick.rules.schedules.fates import Reason
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import Backfill, Pause
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.rules.timeline import Created, Facts, Json, NotThere, Stale, Started, Stopped, wire_of
from tests.schedules.rows import schedule_row

OPEN_END_MS: Final = 40 * DAY_MS
TENANT: Final = TenantId("mynsid")


class Failed(Exception):
    """A run that ends badly, because the story says so."""


class EngineDriver:
    """One schedule in a world of its own."""

    def __init__(self) -> None:
        self.starts: list[Started] = []
        self.cancels: list[Stopped] = []
        self.terminates: list[Stopped] = []
        self._refused: dict[str, str] = {}
        self._open: dict[str, asyncio.Future[str | None]] = {}
        self._ended_by_story: set[str] = set()
        self._requests = 0
        self.app = App("timeline", database_url="sqlite://")
        self.app.action(name="run")(self._make_action())

    def close(self) -> None:
        """End the world."""
        self.world.close()

    def create(self, created: Created, at: Instant) -> None:
        settings = Settings(
            action_timeout=timedelta(milliseconds=OPEN_END_MS),
            retention=timedelta(milliseconds=OPEN_END_MS),
            completed_retention=timedelta(milliseconds=created.retention_ms or OPEN_END_MS),
        )
        self.world = World(self.app, at=to_datetime(at), settings=settings)
        self.created = created
        row = schedule_row(
            created.schedule_id,
            now=at,
            spec=wire_of(created.spec),
            kind=FunctionKind.ACTION,
            policies=created.policies,
            run_id_template=created.workflow_id + "-{nominal}",
            remaining=created.remaining,
            pause=Pause(at=at, by="", note="") if created.paused else None,
            tenant=TENANT,
        )
        self._write(lambda transaction: schedule_requests.create(transaction, row, (), self._by()))

    def advance(self, until: Instant, *, inclusive: bool) -> None:
        is_beside_due = any(actual_at == until for _, actual_at in self.created.listed)
        moment = until - 1 if is_beside_due and not inclusive else until
        self.world.advance_to(to_datetime(max(self._now(), Instant(moment))))

    def leave(self) -> None:
        """Away is the evaluator alone: the runs are those of workers, who know nothing of it."""
        evaluator = self._evaluator()
        self._look = evaluator.round
        evaluator.round = _nobody_looks  # type: ignore[method-assign]

    def jump(self, to: Instant) -> None:
        self.world.advance_to(to_datetime(to))
        evaluator = self._evaluator()
        evaluator.round = self._look  # type: ignore[method-assign]
        evaluator.poke()
        self.world.advance(0)

    def complete(self, workflow_id: str, status: str, result: str | None, failure: str | None) -> None:
        run = self._open.pop(workflow_id, None)
        if run is None:
            return  # it was terminated, and that was its end
        if status == "completed":
            run.set_result(result)
        elif status == "failed":
            run.set_exception(Failed(failure or ""))
        elif status == "timed_out":
            run.set_exception(TimeoutError())
        else:
            self._end_from_outside(workflow_id, status)
            run.cancel()
        self.world.advance(0)

    def refuse_start(self, workflow_id: str, error: str) -> None:
        self._refused[workflow_id] = error

    def trigger(self, overlap: Overlap | None, nominal_at: Instant | None) -> None:
        request = self._request()
        self._ask("triggered", lambda at: Triggered(at=at, request=request, overlap=overlap, nominal_at=nominal_at))

    def backfill(self, start_at: Instant, end_at: Instant, overlap: Overlap | None) -> None:
        asked = Backfill(id=self._request(), start_at=start_at, end_at=end_at, overlap=overlap)
        self._ask("backfill", lambda at: BackfillRequested(at=at, backfill=asked))

    def pause(self, note: str) -> None:
        self._ask("paused", lambda at: Paused(at=at, note=note))

    def unpause(self, note: str) -> None:
        self._ask("resumed", lambda at: Resumed(at=at, note=note))

    def update(
        self,
        *,
        spec: Json | None,
        workflow_id: str | None,
        policies: Policies | None,
        listed: tuple[tuple[Instant, Instant], ...],
        token: object | None,
    ) -> None:
        version = token if isinstance(token, int) else None

        def work(transaction: Transaction) -> None:
            stored = None if spec is None else StoredSpec(json.dumps(wire_of(spec)))
            change = schedule_requests.Update(
                edit=None if stored is None else lambda row: row._replace(spec=stored),
                policies=policies,
                run_id_template=None if workflow_id is None else workflow_id + "-{nominal}",
                if_version=version,
            )
            schedule_requests.update(transaction, self._id(), change, self._by())

        try:
            self._write(work)
        except VersionConflict as error:
            raise Stale from error

    def delete(self) -> None:
        self._write(lambda transaction: schedule_requests.delete(transaction, self._id(), self._by()))

    def describe(self) -> Facts:
        row = self._row()
        if row is None:
            raise NotThere
        state = row.state
        count = 10 if state.remaining is None else min(10, state.remaining)
        upcoming = times_of(row).upcoming(self._now(), count)
        return Facts(
            token=row.version,
            paused=state.paused,
            notes=state.note,
            remaining_actions=state.remaining,
            action_count=state.counters.actions,
            overlap_skipped=state.counters.of(Reason.OVERLAP) + state.counters.of(Reason.CATCH_UP_OVERLAP),
            buffer_dropped=state.counters.of(Reason.BUFFER_FULL),
            buffer_size=len(state.waiting),
            missed_catchup_window=state.counters.of(Reason.CATCH_UP_WINDOW),
            running=tuple(run.run_id for run in state.running),
            future_action_times=tuple(time.actual_at for time in upcoming),
        )

    def closed_at(self) -> Instant | None:
        lines = self._read(lambda transaction: transaction.list_history(self._id(), tenant=TENANT, limit=1))
        return lines[0].at if lines and lines[0].action == "deleted" else None

    # What the run does

    def _make_action(self) -> Any:
        async def run(ctx: ActionCtx) -> str | None:
            about = ctx.schedule
            assert about is not None
            if about.run_id in self._refused:
                raise Failed(self._refused[about.run_id])
            self.starts.append(
                Started(
                    workflow_id=about.run_id,
                    at=self._told_now(),
                    nominal_at=from_datetime(about.nominal_time),
                    last_completion_result=about.last_result,
                    last_failure=None if about.last_failure is None else about.last_failure.removeprefix("Failed: "),
                )
            )
            if self.created.run_ms is not None:
                await asyncio.sleep(self.created.run_ms / 1000)
                return None
            return await self._until_the_story_ends_it(about.run_id)

        return run

    async def _until_the_story_ends_it(self, run_id: str) -> str | None:
        end = self._open[run_id] = asyncio.get_running_loop().create_future()
        while True:
            try:
                return await asyncio.shield(end)
            except asyncio.CancelledError:
                if self._is_terminated(run_id):
                    self._open.pop(run_id, None)
                    if run_id not in self._ended_by_story:
                        self.terminates.append(Stopped(workflow_id=run_id, at=self._told_now()))
                    raise
                # Asked to stop, it takes its time.
                self.cancels.append(Stopped(workflow_id=run_id, at=self._told_now()))

    def _is_terminated(self, run_id: str) -> bool:
        if run_id in self._ended_by_story:
            return True
        row = self._row()
        return row is None or all(run.run_id != run_id or run.stop != "cancel" for run in row.state.running)

    # What the engine is asked

    def _ask(self, action: str, make: Any) -> None:
        def work(transaction: Transaction) -> None:
            by = self._by()
            event: Event = make(by.now)
            schedule_requests.apply(
                transaction, self._id(), schedule_requests.Change(action=action, events=[event]), by
            )

        self._write(work)

    def _end_from_outside(self, run_id: str, status: str) -> None:
        self._ended_by_story.add(run_id)

        def work(transaction: Transaction) -> None:
            where = OccurrenceFilter(tenant=TENANT, schedule_id=self._id())
            rows = transaction.list_occurrences(where, limit=1_000)
            job_id = next(row.job_id for row in rows if row.run_id == run_id and row.job_id and row.ended_at is None)
            stop = Stop.FORCE if status == "terminated" else Stop.CANCEL
            by = self._by()
            cancel(transaction, job_id, tenant=TENANT, now=by.now, make_id=by.make_id, stop=stop)

        self._write(work)

    def _write(self, work: Any) -> None:
        self.world._store.write(work)
        self.world.advance(0)

    def _read(self, work: Any) -> Any:
        return self.world._store.read(work)

    def _row(self) -> Schedule | None:
        row: Schedule | None = self._read(lambda transaction: transaction.get_schedule(self._id(), tenant=TENANT))
        return row

    def _by(self) -> Requester:
        return Requester(
            tenant=TENANT,
            actor="story",
            now=self._now(),
            make_id=self.world._ids.make,
            retention_ms=self.created.retention_ms or OPEN_END_MS,
        )

    def _evaluator(self) -> Loop:
        return next(loop for loop in self.world._worker._claiming if loop.name == "evaluator")

    def _now(self) -> Instant:
        return from_datetime(self.world.now)

    def _told_now(self) -> Instant:
        now = self._now()
        return Instant(now + 1) if now % 1000 == 999 else now

    def _id(self) -> ScheduleId:
        return ScheduleId(self.created.schedule_id)

    def _request(self) -> str:
        self._requests += 1
        return f"request-{self._requests}"


async def _nobody_looks() -> None:
    """What an evaluator does that is away."""
