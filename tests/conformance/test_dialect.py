"""The cron dialect, row by row: values, lists, ranges, steps and specials, and where Evertick chooses otherwise."""

from datetime import UTC, datetime

import pytest

from evertick import cron
from evertick.base.errors import InvalidSpec
from evertick.recurrence import compile_spec


def fires(line: str, count: int) -> list[str]:
    """The next times after 2026-01-01T00:00:00Z: days, or times of day on that day."""
    recurrence = compile_spec(cron(line))
    second: int | None = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    found: list[str] = []
    while len(found) < count and second is not None:
        second = recurrence.next(second)
        if second is not None:
            moment = datetime.fromtimestamp(second, UTC)
            found.append(f"{moment:%H:%M}" if moment.date() == datetime(2026, 1, 1).date() else f"{moment:%m-%d %a}")
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("*/59 * * * *", "00:59, 01:00, 01:59"),
        ("1,15,30 * * * *", "00:01, 00:15, 00:30, 01:01"),
        ("5/20 * * * *", "00:05, 00:25, 00:45, 01:05"),
        ("50-10 * * * *", "00:01, 00:02"),
        ("0 22-4/2 * * *", "02:00, 04:00, 22:00, 01-02 Fri"),
        ("0\t0  * * *", "01-02 Fri, 01-03 Sat"),
        ("0 0 28-3 * *", "01-02 Fri, 01-03 Sat, 01-28 Wed"),
        ("0 0 * nov-feb mon-Fri", "01-02 Fri, 01-05 Mon"),
        ("0 0 * * FRI-MON", "01-02 Fri, 01-03 Sat, 01-04 Sun, 01-05 Mon, 01-09 Fri"),
        ("0 0 * * 1-5/2", "01-02 Fri, 01-05 Mon, 01-07 Wed"),
        ("0 0 L * *", "01-31 Sat, 02-28 Sat, 03-31 Tue"),
        ("0 0 L-30 * *", "03-01 Sun, 05-01 Fri"),
        ("0 0 L-3W * *", "01-28 Wed, 02-25 Wed, 03-27 Fri"),
        ("0 0 1W * *", "02-02 Mon, 03-02 Mon, 04-01 Wed"),
        ("0 0 31W * *", "01-30 Fri, 03-31 Tue, 05-29 Fri"),
        ("0 0 * * 2L", "01-27 Tue, 02-24 Tue"),
        ("0 0 * * MON#1", "01-05 Mon, 02-02 Mon"),
        ("0 0 * * 0#1", "01-04 Sun, 02-01 Sun"),
        ("0 0 31 2 MON", "02-02 Mon, 02-09 Mon"),
    ],
)
def test_a_line_names_these_times(line: str, expected: str) -> None:
    times = expected.split(", ")

    assert fires(line, len(times)) == times


@pytest.mark.parametrize(
    "line",
    [
        "1,,2 * * * *", "1, 2 * * * *", "1 - 5 * * * *", "-1 * * * *", "5-60 * * * *", "*/-1 * * * *", "H * * * *",
        "0 0 1-5W * *", "0 0 32W * *", "0 0 W * *", "0 0 LW-1 * *", "0 0 L-31 * *", "0 0 * janu *", "0 0 * * sunday",
        "0 0 * * 1#6", "0 0 * * 1#0", "0 0 * * #1", "٣ * * * *",
    ],
)  # fmt: skip
def test_a_line_outside_the_dialect_is_refused(line: str) -> None:
    with pytest.raises(InvalidSpec):
        cron(line)


@pytest.mark.parametrize("line", ["0 0 31 2 *", "0 0 30 2 *"])
def test_a_day_that_never_comes_has_no_time(line: str) -> None:
    assert fires(line, 1) == []


def test_a_range_that_wraps_holds_no_day_before_its_start() -> None:
    """Convex's includes one value more, `SAT-SUN` Friday and `22-2` 21 o'clock: a defect, and not followed."""
    assert fires("0 0 * * SAT-SUN", 3) == ["01-03 Sat", "01-04 Sun", "01-10 Sat"]
    assert fires("0 22-2 * * *", 4) == ["01:00", "02:00", "22:00", "23:00"]


def test_a_day_field_that_begins_with_a_star_restricts_as_in_cron_itself() -> None:
    """In Convex `*/2` counts as a restriction, so that either day field is enough. Evertick keeps Vixie's rule, that of
    the crons on every machine: beside a field that begins with `*` both must match.
    """
    assert fires("0 0 */2 * MON", 3) == ["01-05 Mon", "01-19 Mon", "02-09 Mon"]


def test_a_bare_l_among_the_weekdays_is_refused_with_what_to_write() -> None:
    """In Convex it means every Saturday; most who write it mean a last weekday. Evertick asks which."""
    with pytest.raises(InvalidSpec, match="the last Friday of the month is 5L or FRIL, Saturdays are 6 or SAT"):
        cron("0 0 * * L")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" 0 0 * * * ", "01-02 Fri"),
        ("0 */24 * * *", "01-02 Fri"),
        ("0 0 * * */7", "01-04 Sun"),
        ("0 0 L,1 * *", "01-31 Sat, 02-01 Sun"),
        ("0 0 lw * *", "01-30 Fri"),
        ("0 0 * * MON#1,TUE", "01-05 Mon, 01-06 Tue, 01-13 Tue"),
        ("5,* * * * *", "00:01, 00:02"),
    ],
)
def test_what_has_one_meaning_is_understood_where_convex_refuses_it(line: str, expected: str) -> None:
    """Blanks around a line, steps beyond a field, specials in lists and in lower case; a star in a list is a star."""
    times = expected.split(", ")

    assert fires(line, len(times)) == times
