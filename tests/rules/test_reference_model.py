"""Random stories, told to the rules and to a model that only knows what Temporal's documents say."""

import random

import pytest

from evertick.base.instants import MINUTE_MS, Instant, to_iso
from evertick.rules.schedules.catch_up import window_ms
from evertick.rules.schedules.policies import Overlap, Policies
from tests.rules.reference_model import EVERY_MS, STOPPERS, Entry, ReferenceModel
from tests.rules.rules_driver import RulesDriver
from tests.rules.timeline import Created
from tests.sampling import one_in

BEGIN = Instant(1_654_041_600_000)
STATUSES = ["completed", "completed", "completed", "failed", "timed_out", "canceled", "terminated"]
WAITING = [each for each in Overlap if each is not Overlap.ALLOW_ALL]


class Told:
    """A random story, as far as it has been told to both."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.policies = Policies(
            overlap=self.chance.choice(list(Overlap)),
            catch_up_window_ms=window_ms(self.chance.choice([None, 600_000, 1_200_000])),
            pause_on_failure=self.chance.random() < 0.3,
        )
        remaining, paused = self.chance.choice([None, None, None, 2, 4, 7]), self.chance.random() < 0.1
        self.driver = RulesDriver()
        self.driver.create(self.created(remaining=remaining, paused=paused), BEGIN)
        self.model = ReferenceModel(
            self.policies.overlap, self.policies.catch_up_window_ms, self.policies.pause_on_failure, remaining, paused,
            now=BEGIN, seen=BEGIN,
        )  # fmt: skip
        self.at = BEGIN
        self.long_ago = BEGIN

    def created(self, *, remaining: int | None, paused: bool) -> Created:
        return Created(
            schedule_id="s", workflow_id="w", spec={"intervals": [{"every_s": 300}]}, jitter_seed="",
            policies=self.policies, paused=paused, remaining=remaining, run_ms=None, retention_ms=None, listed=(),
        )  # fmt: skip

    def go_on(self) -> None:
        """Some time passes, and something happens."""
        self.at = Instant(
            self.at + self.chance.choice([1, 2, 3, 7]) * MINUTE_MS // 2 + self.chance.randrange(1, 29_000)
        )
        self.driver.advance(self.at, inclusive=True)
        self.model.advance(self.at)
        happenings = [self.close, self.close, self.trigger, self.trigger, self.unpause, self.pause, self.outage]
        self.chance.choice([*happenings, self.backfill, self.change_policy])()

    def outage(self) -> None:
        self.driver.leave()
        self.at = Instant(self.at + self.chance.randrange(1, 8) * EVERY_MS + 17)
        self.driver.jump(self.at)
        self.model.come_back(self.at)

    def close(self) -> None:
        if self.model.running:
            run, status = self.chance.choice(self.model.running), self.chance.choice(STATUSES)
            self.driver.complete(name(run), status, None, None)
            self.model.close(run, status)

    def trigger(self) -> None:
        overlap = self.chance.choice([None, *self.policies_now()])
        effective = overlap or self.model.overlap
        if effective is Overlap.ALLOW_ALL and any(entry.overlap in STOPPERS for entry in self.model.buffer):
            return  # Temporal drops it; here it starts, and is asked to stop later
        self.driver.trigger(overlap, None)
        self.model.add([Entry(self.at, effective, scheduled=False)])

    def pause(self) -> None:
        self.driver.pause("p")
        self.model.paused = True

    def unpause(self) -> None:
        self.driver.unpause("u")
        self.model.paused = False

    def backfill(self) -> None:
        count, overlap = self.chance.randrange(1, 6), self.chance.choice(self.policies_now())
        if overlap is Overlap.ALLOW_ALL:
            return
        self.long_ago = Instant(self.long_ago - 10 * EVERY_MS)
        times = [Instant(self.long_ago + number * EVERY_MS) for number in range(count)]
        self.driver.backfill(times[0], times[-1], overlap)
        self.model.add([Entry(time, overlap, scheduled=False) for time in times])

    def change_policy(self) -> None:
        if self.model.overlap is not Overlap.ALLOW_ALL:
            self.model.overlap = self.chance.choice(WAITING)
            changed = Policies(
                overlap=self.model.overlap,
                catch_up_window_ms=self.policies.catch_up_window_ms,
                pause_on_failure=self.policies.pause_on_failure,
            )
            self.driver.update(spec=None, workflow_id=None, policies=changed, listed=(), token=None)

    def policies_now(self) -> list[Overlap]:
        """Under allow_all nothing is to wait for a stop: see `trigger`."""
        return [o for o in Overlap if self.model.overlap is not Overlap.ALLOW_ALL or o not in STOPPERS]

    def compare(self) -> None:
        """Both tell the same."""
        facts, model, driver = self.driver.describe(), self.model, self.driver
        assert [(start.workflow_id, start.at) for start in driver.starts] == [
            (name(run), at) for run, at in model.starts
        ]
        stops = {Overlap.CANCEL_OTHER: driver.cancels, Overlap.TERMINATE_OTHER: driver.terminates}
        for how, told in stops.items():
            expected = sorted((name(run), at) for run, at, each in model.stops if each is how)
            assert sorted((stop.workflow_id, stop.at) for stop in told) == expected
        assert list(facts.running) == [name(run) for run in model.running]
        assert (facts.buffer_size, facts.paused) == (len(model.buffer), model.paused)
        assert (facts.remaining_actions, facts.action_count) == (model.remaining, len(model.starts))
        assert (facts.overlap_skipped, facts.missed_catchup_window) == (model.skipped, model.missed)


def name(run: int) -> str:
    return "w-" + to_iso(Instant(run))


@pytest.mark.parametrize("seed", one_in(5, range(0, 200, 40)))
def test_forty_random_stories_end_as_the_documents_say(seed: int) -> None:
    for each in range(seed, seed + 40):
        told = Told(each)
        for _ in range(30):
            told.go_on()
            told.compare()
