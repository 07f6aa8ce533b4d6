"""What really happened to schedules: written by triggers, in the order of the commits, and judged at the end.

The triggers see what the engine commits, whoever does it: births, deaths and new specs of schedules, and every run that
is started, with how many were open then. The ledger is compared with a walk of the specs (`schedule_specs`) that knows
nothing of the engine's marks, but for where one spec ended and the next began.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.engine.schedules.evaluation import CLOCKS_DIFFER_MS
from evertick.engine.schedules.times import ScheduleTimes
from evertick.rules.schedules.catch_up import LATE_AFTER_MS
from evertick.rules.schedules.fates import Reason
from evertick.rules.schedules.policies import CatchUp
from evertick.rules.schedules.state_json import from_text
from evertick.store.records.schedule import StoredSpec
from tests.simulation.schedule_specs import DrawnSpec
from tests.simulation.world import World

TRIGGERS: Final = """
create table sim_eras (seq integer primary key, what text, id text, spec text, mark integer, clock integer);
create trigger era_born after insert on schedules begin
  insert into sim_eras (what, id, spec, mark, clock) values ('born', new.id, new.spec, new.seen_until, sim_clock());
end;
create trigger era_changed after update on schedules when old.spec <> new.spec begin
  insert into sim_eras (what, id, spec, mark, clock) values ('changed', new.id, new.spec, old.seen_until, sim_clock());
end;
create trigger era_gone after delete on schedules begin
  insert into sim_eras (what, id, spec, mark, clock) values ('gone', old.id, old.spec, old.seen_until, sim_clock());
end;
create trigger mark_moved after update on schedules when new.seen_until < old.seen_until begin
  select sim_complain('mark: of ' || new.id || ' moved back from ' || old.seen_until || ' to ' || new.seen_until);
end;

create index sim_open on jobs (json_extract(schedule, '$.id'))
 where schedule is not null and state in ('pending', 'in_progress');
create table sim_runs (job_id text primary key, schedule_id text, nominal_at integer, origin text, request text,
                       born integer, open_before integer);
create trigger run_started after insert on jobs when new.schedule is not null begin
  insert into sim_runs
  select new.id, json_extract(new.schedule, '$.id'), json_extract(new.schedule, '$.nominal_at'),
         json_extract(new.schedule, '$.origin'), json_extract(new.schedule, '$.request'), born,
         (select count(*) from jobs join sim_runs on sim_runs.job_id = jobs.id and sim_runs.born = e.born
           where json_extract(schedule, '$.id') = json_extract(new.schedule, '$.id')
             and schedule is not null and state in ('pending', 'in_progress'))
    from (select max(seq) as born from sim_eras where id = json_extract(new.schedule, '$.id') and what = 'born') e;
end;
create trigger fate_changed after update on occurrences when old.fate <> 'buffered' and old.fate <> new.fate begin
  select sim_complain('fate: of ' || new.schedule_id || ' ' || new.nominal_at || ' changed from ' || old.fate || ' to '
    || new.fate);
end;
create table sim_ages (schedule_id text, nominal_at integer, reason text, age_ms integer, catch_up text,
                       window_ms integer);
create trigger judged_by_age after insert on occurrences when new.origin = 'schedule' begin
  insert into sim_ages
  select id, new.nominal_at, new.reason, new.decided_at - new.actual_at, json_extract(state, '$.policies[2]'),
         json_extract(state, '$.policies[3]')
    from schedules where id = new.schedule_id;
end;
create trigger fate_new after insert on occurrences when new.reason in ('overlap', 'behind_run') begin
  select case when (select count(*) from jobs where json_extract(schedule, '$.id') = new.schedule_id
      and schedule is not null and state in ('pending', 'in_progress'))
    + (select count(*) from run_reports where schedule_id = new.schedule_id) = 0
    then sim_complain('idle: ' || new.schedule_id || ' ' || new.nominal_at || ' ' || new.reason || ', no run is open')
    end;
end;
"""

STARTED_BY_AGE: Final = {Reason.ON_TIME, Reason.CAUGHT_UP}
MISSED_BY_AGE: Final = {Reason.CATCH_UP_WINDOW, Reason.CATCH_UP_NONE}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a schedule of the run promises for its whole life, so that the checker may ask for it."""

    exclusive: int
    """At most so many runs are open when one starts; 0: allow_all may be asked for."""
    ordered: bool
    """Its policies never change, so its own occurrences start in order."""


class Truth:
    """The tables of truth of one run."""

    def __init__(self, world: World, clock: Callable[[], int]) -> None:
        self.world = world
        self.specs: dict[str, DrawnSpec] = {}
        """By wire text: every spec that any schedule ever had."""
        self.kinds: dict[str, Kind] = {}
        world.database.create_function("sim_clock", 0, clock)
        world.database.create_function("sim_complain", 1, world.complaints.append)
        world.database.executescript(TRIGGERS)

    # -- the ledger

    def missing(self, *, until: Mapping[str, int], lag_ms: int = 0) -> Iterator[str]:
        """Times that some spec named and the ledger does not hold, or the other way round.

        `until` gives the moment up to which each living schedule must have been evaluated, less `lag_ms`.
        """
        for schedule_id in sorted(self.kinds):
            required, allowed = self._named(schedule_id, until, lag_ms)
            rows = self.world.rows(
                "select nominal_at from occurrences where schedule_id = ? and origin = 'schedule'", schedule_id
            )
            found = {nominal_at for (nominal_at,) in rows}
            if required - found:
                yield f"lost: {schedule_id} has no row for {_some(required - found)}"
            if found - allowed:
                yield f"invented: {schedule_id} has rows that no spec named: {_some(found - allowed)}"

    def _named(self, schedule_id: str, until: Mapping[str, int], lag_ms: int) -> tuple[set[int], set[int]]:
        """The nominal times that must be in the ledger, and those that may be."""
        required: set[int] = set()
        allowed: set[int] = set()
        begin, over, spec = 0, 0, ""
        query = "select what, spec, mark, clock from sim_eras where id = ? order by seq"
        for what, new_spec, mark, clock in self.world.rows(query, schedule_id):
            cut = max(mark, clock)
            if what != "born":
                named = self._walk(spec, begin, cut)
                allowed |= named
                if what == "gone":  # jitter had not yet brought the last one
                    named = {at for at in named if at <= mark or self._actual(spec, schedule_id, at) <= clock}
                required |= {at for at in named if at > over}
                over = cut
            begin, spec = (0 if what == "gone" else clock if what == "born" else cut), new_spec
        if begin:
            ((mark,),) = self.world.rows("select seen_until from schedules where id = ?", schedule_id)
            limit = until.get(schedule_id, 0) - lag_ms
            named = self._walk(spec, begin, max(mark, limit))
            allowed |= self._walk(spec, begin, max(mark, until.get(schedule_id, 0)))
            required |= {
                at for at in named if at > over and (at <= mark or self._actual(spec, schedule_id, at) <= limit)
            }
        if begin:
            # Jitter may keep the last times of an older spec waiting until now, and for longer if nobody looks.
            ripe = until.get(schedule_id, 0) - lag_ms
            unripe = {at for at in required if at > max(over, begin) - 3 * 3_600_000}
            required -= {at for at in unripe if self._latest_actual(schedule_id, at) > ripe}
        return required, allowed

    def _walk(self, spec: str, after_ms: int, until_ms: int) -> set[int]:
        return {at * 1000 for at in self.specs[spec].walk(after_ms // 1000, until_ms // 1000)}

    def _actual(self, spec: str, schedule_id: str, nominal_ms: int) -> int:
        if not self.specs[spec].jitter_ms:
            return nominal_ms
        times = ScheduleTimes(StoredSpec(spec).recurrence, ScheduleId(schedule_id), DEFAULT_TENANT)
        return times.fire_time(nominal_ms // 1000).actual_at

    def _latest_actual(self, schedule_id: str, nominal_ms: int) -> int:
        rows = self.world.rows("select distinct spec from sim_eras where id = ?", schedule_id)
        return max(nominal_ms + self.specs[spec].jitter_ms for (spec,) in rows)

    # -- the runs

    def doubled(self) -> Iterator[str]:
        """Occurrences with two jobs, or jobs without their row, or rows without their job."""
        query = """select schedule_id, nominal_at, origin, request, count(*) from sim_runs
                    group by 1, 2, 3, 4 having count(*) > 1"""
        for row in self.world.rows(query):
            yield f"doubled: {row}"
        query = """select r.job_id, r.schedule_id, r.nominal_at, r.origin, o.fate, o.job_id from sim_runs r
                     left join occurrences o on o.schedule_id = r.schedule_id and o.nominal_at = r.nominal_at
                          and o.origin = r.origin and o.request = r.request
                    where o.job_id is not r.job_id or o.fate <> 'started'"""
        for row in self.world.rows(query):
            yield f"unaccounted: a run that its ledger does not tell of: {row}"
        query = """select schedule_id, nominal_at, origin from occurrences
                    where fate = 'started' and job_id not in (select job_id from sim_runs)"""
        for row in self.world.rows(query):
            yield f"phantom: a row says started, and there never was a run: {row}"

    def overlapping(self) -> Iterator[str]:
        """Runs that started although the schedule's limit was reached."""
        for schedule_id, kind in sorted(self.kinds.items()):
            if kind.exclusive:
                query = "select * from sim_runs where schedule_id = ? and open_before >= ?"
                for row in self.world.rows(query, schedule_id, kind.exclusive):
                    yield f"overlap: {row}"

    def started_before_an_end(self) -> Iterator[str]:
        """Runs of which the ledger says that they overlapped, only because the clocks of two processes differ a bit."""
        for schedule_id in sorted(name for name, kind in self.kinds.items() if kind.exclusive == 1):
            query = """select o.started_at, o.ended_at, r.born from sim_runs r join occurrences o on o.job_id = r.job_id
                        where r.schedule_id = ? and o.outcome in ('success', 'failed') order by r.rowid"""
            for (_, ended_at, born), (started_at, _, next_born) in pairwise(self.world.rows(query, schedule_id)):
                if born == next_born and started_at < ended_at <= started_at + CLOCKS_DIFFER_MS:
                    yield f"overlap: {schedule_id} started a run at {started_at}; the one before ended at {ended_at}"

    def disordered(self) -> Iterator[str]:
        """Occurrences of a schedule's own that started before an earlier one.

        A time that the jitter of an older spec kept back may start before times of the new spec that lie between its
        nominal and its actual time: so of a schedule that was changed, both times must be later.
        """
        for schedule_id, kind in sorted(self.kinds.items()):
            if not kind.ordered:
                continue
            query = """select r.born, o.actual_at, o.nominal_at
                         from sim_runs r join occurrences o on o.job_id = r.job_id
                        where r.schedule_id = ? and r.origin = 'schedule' order by r.rowid"""
            starts = self.world.rows(query, schedule_id)
            changed = self.world.rows("select 1 from sim_eras where id = ? and what = 'changed'", schedule_id)
            for (born, actual, nominal), (next_born, next_actual, next_nominal) in pairwise(starts):
                earlier = next_actual < actual and not (changed and next_nominal > nominal)
                if next_born < born or (next_born == born and earlier):
                    yield f"disorder: {schedule_id} started {nominal} ({actual}) before {next_nominal} ({next_actual})"

    def misjudged_by_age(self) -> Iterator[str]:
        """Times that started too late for their schedule, or that were missed although it was not too late."""
        ordered = {schedule_id for schedule_id, kind in self.kinds.items() if kind.ordered}
        for schedule_id, nominal_at, reason, age_ms, catch_up, window_ms in self.world.rows("select * from sim_ages"):
            if schedule_id not in ordered:
                continue  # its policies may have changed in the same transaction
            late = age_ms > LATE_AFTER_MS and catch_up == CatchUp.NONE
            expired = age_ms > window_ms
            if (reason in STARTED_BY_AGE and (late or expired)) or (
                reason in MISSED_BY_AGE and not (expired if reason == Reason.CATCH_UP_WINDOW else late)
            ):
                yield f"age: {schedule_id} {nominal_at}: {reason}, {age_ms} ms late; {window_ms} ms, {catch_up}"

    def unfinished(self) -> Iterator[str]:
        """What is left when everything should have come to rest."""
        for row in self.world.rows("select id, schedule from jobs where state in ('pending', 'in_progress')"):
            yield f"unfinished: job {row}"
        for row in self.world.rows("select schedule_id, nominal_at, fate from occurrences where fate = 'buffered'"):
            yield f"unfinished: still waits: {row}"
        query = "select schedule_id, nominal_at, origin from occurrences where fate = 'started' and ended_at is null"
        for row in self.world.rows(query):
            yield f"unfinished: its end was never heard: {row}"
        for row in self.world.rows("select * from run_reports"):
            yield f"unfinished: a report that no schedule received: {row}"

    def miscounted(self) -> Iterator[str]:
        """Counters that are not the number of rows, for schedules that lived but once."""
        for schedule_id, state in self.world.rows("select id, state from schedules order by id"):
            if self.world.rows("select 1 from sim_eras where id = ? and what = 'gone'", schedule_id):
                continue
            query = "select reason from occurrences where schedule_id = ? and fate <> 'buffered'"
            rows = Counter(reason for (reason,) in self.world.rows(query, schedule_id))
            counted = {reason.value: count for reason, count in from_text(state).counters.by_reason.items()}
            if dict(rows) != counted:
                yield f"miscounted: {schedule_id} counts {counted}, its ledger holds {dict(rows)}"

    def fates(self) -> Counter[str]:
        """How many rows of the ledger have each reason."""
        return Counter(reason for (reason,) in self.world.rows("select reason from occurrences"))

    def living(self) -> list[tuple[str, Any]]:
        """Schedules that are there, with their states."""
        rows = self.world.rows("select id, state from schedules order by id")
        return [(schedule_id, from_text(state)) for schedule_id, state in rows]


def spec_text(spec: DrawnSpec) -> str:
    """The wire text by which a spec is known."""
    return json.dumps(spec.wire)


def _some(moments: set[int]) -> str:
    return f"{sorted(moments)[:4]} ({len(moments)})"
