"""What cannot be meant by a call about schedules is refused with an error of ours, which names the parameter."""

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from evertick import cron, every
from evertick.app.schedules.definition import PARTS_MAX
from evertick.base.errors import InvalidDelay, InvalidSpec, LimitExceeded, Misuse
from evertick.schedules import UNCHANGED
from evertick.testing import World
from tests.schedules.api_app import START, app, minutes, tick

OpenWorld = Callable[..., World]
NO_MOMENTS = ["2026-01-01T00:00:00Z", date(2026, 1, 1), timedelta(1), [1]]
MOMENTS: dict[str, Callable[[Any], object]] = {
    "start of backfill": lambda x: app.schedules.backfill("s", x, minutes(1)),
    "end of backfill": lambda x: app.schedules.backfill("s", START, x),
    "start of backfill_plan": lambda x: app.schedules.backfill_plan("s", x, minutes(1)),
    "end of backfill_plans": lambda x: app.schedules.backfill_plans(START, x),
    "start of create's backfill": lambda x: app.schedules.create(
        "new", when="every hour", do=tick, backfill=[(x, START)]
    ),
    "start of audit": lambda x: app.schedules.audit(x, START),
    "end of matching_times": lambda x: app.schedules.matching_times("s", START, x),
    "at of explain": lambda x: app.schedules.explain("s", at=x),
    "until of pause": lambda x: app.schedules.pause("s", until=x),
    "paused of create": lambda x: app.schedules.create("new", when="every hour", do=tick, paused=x),
    "start of occurrences": lambda x: app.schedules.occurrences("s", start=x),
    "next_before of list": lambda x: app.schedules.list(next_before=x),
    "due_from of jobs": lambda x: app.jobs.list(due_from=x),
    "until of log_lines": lambda x: app.jobs.log_lines(until=x),
    "reschedule of jobs": lambda x: app.jobs.reschedule("job_1", x),
    "run_at of scheduler": lambda x: app.scheduler.run_at(x, tick),
    "started_until of workflows": lambda x: app.workflows.list(started_until=x),
    "start of audit_log": lambda x: app.audit_log.list(tenant="default", start=x),
}


@pytest.mark.parametrize("value", NO_MOMENTS, ids=repr)
@pytest.mark.parametrize("name", MOMENTS)
def test_what_is_no_datetime_is_refused_by_name(world: OpenWorld, name: str, value: Any) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    with pytest.raises(InvalidDelay) as refused:
        MOMENTS[name](value)

    said = str(refused.value)
    assert (
        said.startswith(f"{name.split(maxsplit=1)[0]} takes an aware datetime")
        and f"not {type(value).__name__}" in said
    )
    assert ("datetime.fromisoformat" in said) == isinstance(value, str), "how to read a text"


@pytest.mark.parametrize("value", ["5", 5.5, True, [1], timedelta(1)], ids=repr)
def test_a_number_that_is_none_is_refused(world: OpenWorld, value: Any) -> None:
    """`remaining_actions=5.5` once made the list of upcoming times go on for ever."""
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    with pytest.raises(Misuse, match="remaining_actions= takes a whole number"):
        app.schedules.create("few", when=every(minutes=1), do=tick, remaining_actions=value)
    with pytest.raises(Misuse, match="remaining_actions= takes a whole number"):
        app.schedules.update("s", remaining_actions=value)
    for asked in (
        lambda: app.schedules.list(limit=value),
        lambda: app.schedules.history("s", limit=value),
        lambda: app.schedules.backfill_plans(START, START, limit=value),
        lambda: app.schedules.matching_times("s", START, START, limit=value),
    ):
        with pytest.raises(LimitExceeded):
            asked()


@pytest.mark.parametrize("day", ["2026-01-01", START, None], ids=repr)
def test_days_are_dates(world: OpenWorld, day: Any) -> None:
    world(app)

    with pytest.raises(Misuse, match="start takes a date such as"):
        app.schedules.days("s", day, day)


@pytest.mark.parametrize("when", [[], ()], ids=repr)
def test_an_empty_list_of_times_is_no_wish_that_nothing_run(world: OpenWorld, when: Any) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    with pytest.raises(InvalidSpec, match="write when='only when triggered'"):
        app.schedules.create("bills", when=when, do=tick)
    with pytest.raises(InvalidSpec, match="empty list"):
        app.schedules.update("s", when=when)

    assert app.schedules.create("by hand", when="only when triggered", do=tick).next is None


@pytest.mark.parametrize(
    ("one", "error", "words", "asked_max"),
    [
        (every(hours=1), InvalidSpec, "unites more than 10,000 specs", PARTS_MAX + 1),
        (1, Misuse, "a list of these, not 1", 1),
    ],
)
def test_of_times_without_an_end_no_more_are_read_than_a_schedule_may_have(
    world: OpenWorld, one: Any, error: type[Exception], words: str, asked_max: int
) -> None:
    """They were gathered until the memory was full."""
    world(app)
    asked = []

    def endless() -> Iterator[Any]:
        while len(asked) < 2 * PARTS_MAX:
            asked.append(one)
            yield one

    with pytest.raises(error, match=words):
        app.schedules.create("s", when=endless(), do=tick)  # type: ignore[arg-type]
    assert len(asked) == asked_max


def test_a_list_of_times_is_whole_or_refused(world: OpenWorld) -> None:
    """It was cut at 1,000 without a sign: a month of "every 15 minutes" has 2,976."""
    world(app)
    begin = datetime.fromisoformat("2026-01-01T00:00:00Z")

    assert len(app.schedules.matching_times(cron("*/15 * * * *"), begin, begin + timedelta(days=31))) == 2_976
    assert len(app.schedules.matching_times(every(seconds=1), begin, begin + timedelta(seconds=10_000))) == 10_000
    with pytest.raises(LimitExceeded, match="more than 10,000 times lie in that span; take a shorter one, or limit="):
        app.schedules.matching_times(every(seconds=1), begin, begin + timedelta(seconds=10_001))
    assert len(app.schedules.matching_times(every(seconds=1), begin, begin + timedelta(days=365), limit=1_000)) == 1_000


def test_no_catch_up_window_is_the_least_there_is(world: OpenWorld) -> None:
    """Who writes that nothing may be late is not given a year, which is what 0 means to Temporal."""
    world(app)

    windows: list[float | timedelta] = [0, 0.5, timedelta(0)]
    for number, window in enumerate(windows):
        made = app.schedules.create(str(number), when="every hour", do=tick, catch_up_window=window)
        assert made.policies.catch_up_window_ms == 10_000
    assert app.schedules.update("0", catch_up_window=UNCHANGED).policies.catch_up_window_ms == 10_000
    with pytest.raises(InvalidDelay, match="catch_up_window must not be negative"):
        app.schedules.create("s", when="every hour", do=tick, catch_up_window=-1)
