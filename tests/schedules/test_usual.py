"""What is judged in a few steps is judged as the rules judge it: many thousands of random schedules, both ways."""

import json
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

import pytest

from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, RetryPolicy, ServedFunction
from evertick.base.records.schedules import RunReport
from evertick.engine.schedules.eligibility import ELIGIBLE, Eligibility
from evertick.engine.schedules.evaluation import Inputs, evaluate, fast_path
from evertick.engine.schedules.outcome import Evaluated, Evaluation
from evertick.rules.schedules.events import Event, Paused, Triggered
from evertick.rules.schedules.fates import Origin, Reason, RunOutcome
from evertick.rules.schedules.metadata import ScheduleMetadata, Target
from evertick.rules.schedules.policies import CatchUp, Overlap, Policies
from evertick.rules.schedules.state import (
    Backfill,
    Counters,
    Occurrence,
    OccurrenceKey,
    Pause,
    Recount,
    Run,
    RunEnd,
    ScheduleState,
    Unlisted,
)
from evertick.store.records.schedule import STATE, Schedule, StoredSpec
from tests.sampling import ALL_EXAMPLES

NOON: Final = 1_800_014_400_000
SCHEDULES: Final = 20_000 if ALL_EXAMPLES else 3_000
STARTS_MIN: Final = SCHEDULES // 25
ENDS_MIN: Final = SCHEDULES // 25
UNUSUAL_MIN: Final = SCHEDULES // 7
RARE: Final = 0.02
"""How often a part of a schedule is not as it mostly is."""
SPECS: Final[tuple[dict[str, Any], ...]] = (
    {"intervals": [{"every": "1s"}]},
    {"intervals": [{"every": "7s"}, {"every": "5m"}]},
    {"intervals": [{"every": "1m"}], "jitter": "20s"},
    {"intervals": [{"every": "20s"}], "jitter": "5m", "except": [{"calendar": {"minute": "0"}}]},
    {"crons": ["* * * * *"], "time_zone": "Europe/Berlin", "end": "2027-01-15T12:01:00Z"},
    {"times": ["2027-01-15T12:00:00Z"]},
    {"crons": ["0 12 * * *"], "start": "2027-01-15T11:59:59Z"},
    {},
)

T = TypeVar("T")


class Maker:
    """Makes schedules, and what else is known as they are looked at. Mostly nothing stands against a start."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = Instant(NOON + self.random.choice([0, 60_000]) + self.random.randrange(-500, 10_500))

    def rarely(self, make: Callable[[], T], usual: T) -> T:
        return make() if self.random.random() < RARE else usual

    def moment(self) -> Instant:
        """Mostly in the last minute; sometimes by a clock that is ahead."""
        return Instant(self.now + self.rarely(lambda: self.random.randrange(3_000), -self.random.randrange(1, 60_000)))

    def policies(self) -> Policies:
        choice, overlap = self.random.choice, self.random.choice(list(Overlap))
        return Policies(
            overlap=overlap,
            concurrency_limit=1 if overlap is Overlap.ALLOW_ALL else choice([1, 1, 3]),
            catch_up=choice(list(CatchUp)),
            catch_up_window_ms=choice([10_000, 60_000, 10**9]),
            pause_on_failure=choice([False, True]),
            buffer_limit=choice([0, 1, 1_000]),
        )

    def occurrence(self) -> Occurrence:
        at, origin = self.moment(), self.random.choice(list(Origin))
        return Occurrence(at, at, self.random.choice(list(Overlap)), origin, "r")

    def run(self) -> Run:
        return Run(self.occurrence(), "run", self.random.choice([Reason.ON_TIME, Reason.TRIGGERED]), self.moment())

    def end(self) -> RunEnd | None:
        key = OccurrenceKey(Origin.SCHEDULE, "", self.moment())
        return RunEnd(key, self.moment(), "job_1", self.random.choice(["", "it broke"]))

    def state(self) -> ScheduleState:
        rarely, choice = self.rarely, self.random.choice
        ended = choice([None, self.end()])
        reasons = self.random.sample([Reason.ON_TIME, Reason.OVERLAP, Reason.PAUSED], k=choice([0, 1, 2]))
        return ScheduleState(
            policies=self.policies(),
            run_id_template=choice(["run-{nominal}", "daily"]),
            seen_until=Instant(self.now - choice([1, 900, 1_000, 6_500, 15_000, 20_000, 60_000, 60_000, 300_000])),
            touched_at=self.moment(),
            pause=rarely(lambda: Pause(self.moment(), "ann", "a note", choice([None, self.moment()])), None),
            note=choice(["", "a note"]),
            blocked_reason=rarely(lambda: "workflow w is paused", None),
            remaining=rarely(lambda: choice([0, 1, 5]), None),
            spec_ended=rarely(lambda: True, usual=False),
            recount=rarely(lambda: Recount("again", self.moment()), None),
            running=tuple(self.run() for _ in range(rarely(lambda: 2, choice([0, 1])))),
            waiting=rarely(lambda: (self.occurrence(),), ()),
            unlisted=rarely(lambda: Unlisted(1, 0), Unlisted()),
            ahead=rarely(lambda: (self.occurrence(),), ()),
            backfills=rarely(lambda: (Backfill("b", self.moment(), self.now),), ()),
            counters=Counters(dict.fromkeys(reasons, 3)),
            last_result=choice([None, ended]),
            last_failure=choice([None, self.end()]),
        )

    def schedule(self) -> Schedule:
        state, choice = self.state(), self.random.choice
        target = Target(
            name="report",
            kind=choice([FunctionKind.MUTATION, FunctionKind.ACTION, FunctionKind.WORKFLOW]),
            args='{"a": 1}',
            retry=choice([None, RetryPolicy(attempts=3)]),
            app=choice([None, "shop"]),
        )
        row = Schedule.new(
            TenantId("acme"),
            ScheduleId(f"s{self.random.randrange(1_000)}"),
            spec=StoredSpec(json.dumps(choice(SPECS))),
            target=target,
            state=state,
            metadata=ScheduleMetadata(
                user={"team": "a"}, overrides=self.rarely(lambda: {choice(["", "r"]): '{"a": 2}'}, {})
            ),
        )
        return row._replace(
            stored_state=STATE.value(state),
            last_result=choice([None, '{"x": 1}']),
            last_failure=choice([None, "it broke"]),
            last_at=choice([None, self.moment()]),
            version=3,
            revision=5,
        )

    def inputs(self, state: ScheduleState) -> Inputs:
        """Mostly all runs have ended that are open."""
        requests: list[Event] = [Triggered(at=self.now, request="t"), Paused(at=self.now, note="")]
        blocked = self.random.choice([Eligibility("workflow w is paused"), Eligibility(gone=True)])
        ended = self.rarely(lambda: (self.run(),), state.running)
        return Inputs(
            reports=tuple(self.report(run) for run in ended),
            requests=self.rarely(lambda: [self.random.choice(requests)], []),
            eligibility=self.rarely(lambda: blocked, ELIGIBLE),
            spec_since=self.rarely(self.moment, None),
        )

    def report(self, run: Run) -> RunReport:
        nominal_at, _, _, origin, request, _ = self.rarely(self.occurrence, run.occurrence)
        outcome = self.rarely(lambda: self.random.choice(list(RunOutcome)), RunOutcome.SUCCESS)
        key = (ScheduleId("s"), nominal_at, origin.value, request)
        job_id, result = JobId(self.random.choice(["job_1", "job_2"])), self.random.choice([None, "1"])
        return RunReport(job_id, TenantId("acme"), *key, self.moment(), outcome.value, result, "")

    def function(self, row: Schedule) -> ServedFunction | None:
        """What the app has under the name: mostly of the kind that the schedule knows."""
        kind = self.rarely(lambda: self.random.choice(list(FunctionKind)), row.target.kind)
        return self.random.choice([None, ServedFunction("report", kind, "shop/mail", "()", RetryPolicy(attempts=3))])


def judged(how: Callable[..., T], maker: Maker, row: Schedule, inputs: Inputs, function: ServedFunction | None) -> T:
    """What an evaluation says; the ids that it makes are the same for each way."""
    ids = count()
    return how(
        row,
        inputs,
        Evaluation(now=maker.now, make_id=lambda prefix, _: f"{prefix}_{next(ids)}", function_of=lambda *_: function),
    )


def parts(item: Evaluated) -> tuple[Any, ...]:
    """All that an evaluation says, also what two schedules need not have in common to be equal."""
    return (*item, tuple(item.row), item.row.stored_state.text, item.row.open_now, item.plan.state)


@pytest.mark.random
def test_usual_cases_are_judged_as_the_rules_judge_them() -> None:
    starts = ends = unusual = 0
    for seed in range(SCHEDULES):
        maker = Maker(seed)
        row = maker.schedule()
        inputs, function = maker.inputs(row.state), maker.function(row)

        item = judged(fast_path, maker, row, inputs, function)

        if item is None:
            unusual += 1
        else:
            starts += len(item.jobs)
            ends += len(item.reports)
            assert parts(item) == parts(judged(evaluate, maker, row, inputs, function)), f"seed {seed}"
    assert starts >= STARTS_MIN
    assert ends >= ENDS_MIN
    assert unusual >= UNUSUAL_MIN
