"""Times that are long to find: they are not searched for again and again, nor while others wait."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from evertick import App, MutationCtx, calendar, cron, every
from evertick.app.schedules import definition
from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.base.instants import Instant
from evertick.engine.schedules.times import ScheduleTimes
from evertick.errors import InvalidSpec
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.instant_rules import CachedRule, Instants, Union
from evertick.recurrence.spec.spec import Spec
from evertick.testing import World

NOW_S = 1_790_000_000


def times_of(spec: Spec) -> ScheduleTimes:
    """The times of a schedule."""
    return ScheduleTimes(compile_spec(spec), ScheduleId("report"), DEFAULT_TENANT)


def test_a_long_jitter_is_no_walk_through_all_that_it_might_delay() -> None:
    times = times_of(every(seconds=1, jitter=timedelta(days=365_000)))
    asked = []
    following = times.recurrence.next
    times.recurrence.next = lambda after: asked.append(after) or following(after)  # type: ignore[func-returns-value]

    found = times.between(Instant(NOW_S * 1000), Instant(NOW_S * 1000 + 59_999), 1_000)

    assert len(found) == 60 and len(asked) < 200


@pytest.mark.parametrize("seed", range(20))
def test_delayed_times_of_a_span_are_those_that_a_walk_finds(seed: int) -> None:
    draw = random.Random(seed)
    jitter = timedelta(seconds=draw.choice((1, 30, 3_600, 90_000)))
    spec = draw.choice((
        every(minutes=draw.randint(1, 50), jitter=jitter),
        every(minutes=7, jitter=jitter, exclude=[calendar(hour="0-12", minute="*", second="*")]),
        cron("*/10 9-11 * * 1-5", jitter=jitter),
        cron("0 0 29 2 *", jitter=jitter),
    ))  # fmt: skip
    times = times_of(spec)
    start = Instant(NOW_S * 1000 + draw.randint(0, 90_000_000))
    end = Instant(start + draw.randint(0, 40_000_000))
    walked = [times.fire_time(at) for at in times.recurrence.between(start // 1000 - 100_000, end // 1000 + 1)]

    assert times.between(start, end, 10_000) == [each for each in walked if start <= each.actual_at <= end]


class Asked(Instants):
    """A list of instants that counts how often it is searched."""

    searches = 0

    def next(self, after: int) -> int | None:
        """The first instant later than `after`, or None."""
        self.searches += 1
        return super().next(after)


def test_what_fires_seldom_or_never_again_is_searched_once() -> None:
    rules = Asked(range(100)), Asked([1_000]), Asked([-5])
    whole = Union([CachedRule(rule) for rule in rules])

    at: int | None = 0
    found = []
    while at is not None:
        found.append(at)
        at = whole.next(at)

    assert found == [*range(100), 1_000]
    assert [rule.searches for rule in rules] == [100, 2, 1]
    assert whole.next(-10) == -5, "an earlier moment is searched anew"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each look at the time finds a second of work behind it."""
    seconds = count()
    monkeypatch.setattr(definition.time, "thread_time", lambda: float(next(seconds)))
    yield


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("how", ["create", "replace", "preview"])
def test_a_spec_that_is_long_to_search_is_refused_before_others_wait_for_it(how: str) -> None:
    app = App("app")

    @app.mutation
    def report(ctx: MutationCtx) -> None:
        """Make a report."""

    heavy = [cron(f"{minute} 9 * * *") for minute in range(9)]
    tries: dict[str, Callable[[], object]] = {
        "create": lambda: app.schedules.create("report", when=heavy, do=report),
        "replace": lambda: app.schedules.replace("report", when=heavy, do=report),
        "preview": lambda: app.schedules.matching_times(
            heavy, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
        ),
    }  # fmt: skip
    with World(app):
        app.schedules.create("report", when=every(hours=1), do=report)
        with pytest.raises(InvalidSpec, match=r"takes more than 2 s to find.*make several schedules"):
            tries[how]()
