"""Random histories of schedules: arguments drawn from what the model knows, as in `tests.store.histories`."""

import random
from typing import Any, Final

from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import JOB_ERROR, JobError, JobState
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow, RunReport, ScheduleFilter, ScheduleOrder
from evertick.rules.schedules.fates import FATE_OF, Origin, Reason
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import Occurrence, OccurrenceKey, Run, ScheduleState, Stop, new_state
from evertick.store.records.schedule import STATE, Schedule
from tests.store.rows import NOW
from tests.store.schedule_model import key_of
from tests.store.schedule_rows import line, occurrence, report, schedule

TENANTS: Final = (DEFAULT_TENANT, TenantId("other"))
SCHEDULES: Final = tuple(map(ScheduleId, ("s1", "s2", "S1", "s_%", "ß")))
FED: Final = 2 * ["insert_schedule", "record_occurrences", "record_occurrences", "report_runs", "cancel_job"]
"""What others feed on, so it is drawn more often."""
SELDOM: Final = 2 * ["held_jobs", "holders_without_row", "document_indexes", "workers_alive"]
"""What rarely finds anything, and would be drawn too seldom among so many."""


class ScheduleDraws:
    """Draws for the methods of schedules; `History` has the chance and the clock."""

    _random: random.Random
    _pick: Any
    _maybe: Any
    _moment: Any
    _some_id: Any

    def draw_insert_schedule(self, tables: Any) -> Any:
        return (self._new_schedule(),), {}

    def _new_schedule(self) -> Schedule:
        moment = self._moment()
        return schedule(
            self._pick(SCHEDULES),
            tenant=self._pick(TENANTS),
            kind=self._pick(("schedule", "cron")),
            status=self._pick(("active", "paused")),
            function=self._pick(("app.f", "app.g")),
            wake_at=self._pick((moment, Instant(moment + 30), None)),
            next_at=self._pick((moment, None)),
            last_at=self._pick((moment, None)),
            last_result=self._pick((None, "1")),
            last_failure=self._pick((None, "E: no")),
            late=self._pick((None, 0, 1)),
            missed_at=self._pick((moment, None)),
            stored_state=STATE.value(self._new_state()),
        )

    def _new_state(self) -> ScheduleState:
        """A state with some runs open and some occurrences waiting."""
        times = self._random.sample(range(9), self._random.randint(0, 5))
        entries = [
            Occurrence(nominal_at=Instant(n), actual_at=Instant(n), overlap=Overlap.SKIP, request=self._pick(("", "r")))
            for n in times
        ]
        split = self._random.randint(0, len(entries))
        waiting = [each._replace(is_overdue=self._pick((True, False))) for each in entries[split:]]
        runs = [
            Run(
                occurrence=each,
                run_id=f"run-{each.nominal_at}",
                why=Reason.ON_TIME,
                started_at=Instant(5),
                stop=self._pick((None, None, Stop.CANCEL)),
            )
            for each in entries[:split]
        ]
        state = new_state(now=Instant(0), run_id_template="")
        return state._replace(running=tuple(runs), waiting=tuple(waiting))

    def draw_with_open_runs(self, tables: Any) -> Any:
        return (list(tables.schedules.values()),), {}

    def draw_get_schedule(self, tables: Any) -> Any:
        return (self._pick(SCHEDULES),), {"tenant": self._pick(TENANTS)}

    draw_lock_schedule = draw_get_schedule
    draw_delete_schedule = draw_get_schedule

    def draw_due_schedules(self, tables: Any) -> Any:
        return (self._moment(),), {"limit": self._random.randint(1, 4)}

    def draw_next_wake(self, tables: Any) -> Any:
        return (), {}

    def draw_wake_schedules(self, tables: Any) -> Any:
        names = [row.function for row in tables.schedules.values()]
        return (self._random.sample(names, min(len(names), 2)),), {"now": self._now}

    def draw_save_schedules(self, tables: Any) -> Any:
        known = list(tables.schedules.values())
        chosen = self._random.sample(known, min(len(known), self._random.randint(1, 3)))
        too_late = self._maybe(0.2)
        rows = []
        for row in chosen:
            changed = self._new_schedule()._replace(tenant=row.tenant, id=row.id, note=str(self._moment()))
            listed = row.open_now or {}
            rows.append(changed._replace(revision=row.revision - too_late, version=row.version + 1, listed=listed))
        return (rows,), {}

    def draw_list_schedules(self, tables: Any) -> Any:
        where = ScheduleFilter(
            tenant=self._pick(TENANTS),
            kind=self._pick((None, None, "cron")),
            status=self._pick((None, None, "paused")),
            function=self._pick((None, None, "app.f")),
            id_contains=self._pick((None, None, "s", "_", "%", "S", "")),
            next_before=self._moment() if self._maybe(0.2) else None,
            time_zone=self._pick((None, None, "UTC", "Asia/Tokyo")),
            failing=self._maybe(0.2),
            late_at=self._moment() if self._maybe(0.2) else None,
            missed_since=self._moment() if self._maybe(0.2) else None,
        )
        known = [row for row in tables.schedules.values() if row.tenant == where.tenant]
        last = self._pick(known) if known and self._maybe(0.4) else None
        order = ScheduleOrder(self._pick(("id", "next", "last")), self._maybe(0.5))
        time = None if last is None else last.last_at if order.by == "last" else last.next_at
        after = None if last is None else (time, str(last.id))
        return (where,), {"limit": self._random.randint(1, 5), "after": after, "order": order}

    def draw_has_missed(self, tables: Any) -> Any:
        span = {"since": self._moment(), "decided": self._moment()}
        return (self._pick(SCHEDULES),), {"tenant": self._pick(TENANTS), **span}

    def draw_schedule_counts(self, tables: Any) -> Any:
        where = ScheduleFilter(tenant=self._pick(TENANTS), failing=self._maybe(0.3))
        return (where,), {"now": self._moment(), "late_at": self._moment(), "limit": self._random.randint(1, 5)}

    # -- the ledger

    def draw_record_occurrences(self, tables: Any) -> Any:
        rows = {key_of(row): row for row in (self._new_occurrence() for _ in range(self._random.randint(1, 4)))}
        return (list(rows.values()),), {}

    def _new_occurrence(self) -> OccurrenceRow:
        reason = self._pick((Reason.ON_TIME, Reason.BEHIND_RUN, Reason.STOPPING_RUN, Reason.OVERLAP, Reason.RUNS_FULL))
        fate = FATE_OF[reason].value
        job_id = JobId(f"job_{self._random.randint(1, 40):028x}") if fate == "started" else None
        return occurrence(
            self._random.randint(1, 12),
            self._pick(SCHEDULES[:2]),
            tenant=self._pick(TENANTS),
            origin=self._pick(("schedule", "schedule", "trigger")),
            request=self._pick(("", "r")),
            fate=fate,
            reason=reason.value,
            decided_at=self._moment(),
            job_id=job_id,
            started_at=None if job_id is None else self._moment(),
        )

    def _some_occurrence(self, tables: Any) -> OccurrenceRow:
        known = list(tables.occurrences.values())
        row: OccurrenceRow = self._pick(known) if known and self._maybe(0.9) else occurrence(99)
        return row

    def draw_get_occurrence(self, tables: Any) -> Any:
        row = self._some_occurrence(tables)
        key = OccurrenceKey(Origin(row.origin), row.request, row.nominal_at)
        return (row.schedule_id, key), {"tenant": row.tenant}

    def draw_end_occurrences(self, tables: Any) -> Any:
        rows = {key_of(row): row for row in (self._some_occurrence(tables) for _ in range(3))}
        return ([self._report_of(row) for row in rows.values()],), {}

    def _report_of(self, row: OccurrenceRow) -> RunReport:
        return report(
            self._random.randint(1, 40),
            row.schedule_id,
            tenant=row.tenant,
            nominal_at=row.nominal_at,
            origin=row.origin,
            request=row.request,
            ended_at=self._moment(),
            outcome=self._pick(("success", "failed")),
            result=self._pick((None, "1")),
        )

    def draw_list_occurrences(self, tables: Any) -> Any:
        where = OccurrenceFilter(
            tenant=self._pick(TENANTS),
            schedule_id=self._pick((None, *SCHEDULES[:2])),
            fates=tuple(self._random.sample(("started", "buffered", "skipped"), self._random.randint(0, 2))),
            reason=self._pick((None, None, "overlap")),
            start=occurrence(self._random.randint(1, 5)).nominal_at if self._maybe(0.3) else None,
            end=occurrence(self._random.randint(5, 12)).nominal_at if self._maybe(0.3) else None,
        )
        after = self._some_occurrence(tables) if self._maybe(0.4) else None
        if after is not None and where.schedule_id is not None:
            after = after._replace(schedule_id=where.schedule_id)
        return (where,), {"limit": self._random.randint(1, 6), "after": after, "newest_first": self._maybe(0.5)}

    def draw_prune_occurrences(self, tables: Any) -> Any:
        return (), {
            "before": Instant(self._moment() - self._random.randint(0, 300)),
            "limit": self._random.randint(1, 3),
        }

    # -- what runs report

    def draw_report_runs(self, tables: Any) -> Any:
        made = [self._report_of(self._some_occurrence(tables)) for _ in range(self._random.randint(1, 3))]
        schedules = [each._replace(schedule_id=self._pick(SCHEDULES)) for each in made]
        return (list({each.job_id: each for each in schedules}.values()),), {}

    def draw_run_reports(self, tables: Any) -> Any:
        keys = [(tenant, name) for tenant in TENANTS for name in SCHEDULES if self._maybe(0.5)]
        return (keys,), {"limit": self._random.randint(1, 9)}

    def draw_reported_schedules(self, tables: Any) -> Any:
        return (), {"limit": 1_000}

    def draw_orphaned_reports(self, tables: Any) -> Any:
        return (), {"limit": 1_000}

    def draw_delete_run_reports(self, tables: Any) -> Any:
        known = list(tables.reports.values())
        return (self._random.sample(known, min(len(known), self._random.randint(0, 2))),), {}

    # -- history, and stopping runs

    def draw_add_history(self, tables: Any) -> Any:
        moment = self._moment()
        return (line(moment - NOW, self._pick(SCHEDULES[:2]), tenant=self._pick(TENANTS)),), {}

    def draw_prune_history(self, tables: Any) -> Any:
        return (), {"before": Instant(self._moment() - 50), "limit": self._random.randint(1, 2)}

    def draw_list_history(self, tables: Any) -> Any:
        known = sorted(tables.history)
        before = self._pick(known) if known and self._maybe(0.4) else None
        named = {"tenant": self._pick(TENANTS), "limit": self._random.randint(1, 4), "before": before}
        return (self._pick(SCHEDULES[:2]),), named

    def draw_note_error(self, tables: Any) -> Any:
        running = [job for job in tables.jobs.values() if job.state is JobState.IN_PROGRESS]
        error = JOB_ERROR.value(JobError("Stuck", "it goes on"))
        if running and self._maybe(0.8):
            job = self._pick(running)
            return (job.id, error), {"worker_id": job.worker_id, "attempt": job.attempt}
        return (self._some_id(tables), error), {"worker_id": WorkerId("worker_a"), "attempt": 1}

    def draw_stops_asked(self, tables: Any) -> Any:
        return (sorted(tables.jobs),), {}
