"""Clock changes in every zone: the engine against brute force, and the invariants that hold everywhere.

Every zone is visited around some of its changes on each run; EVERTICK_TEST_DEPTH=full visits all of them, 1970-2037.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.recurrence import Recurrence
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.zones.names import zone_named, zone_names
from tests.recurrence import brute
from tests.recurrence.asking import at, cron, local, recurrence
from tests.sampling import FULL_DEPTH, examples, one_in

BEGIN, END = at("1970-01-01T00:00:00Z"), at("2038-01-01T00:00:00Z")
ZONES = sorted(set(zone_names()))
PARTS = 6
"""The zones in so many portions, of which `make test` takes one."""
POLICIES = [(gap, overlap) for gap in ("next", "shift", "skip") for overlap in ("first", "both", "last")]
CHANGES_PER_ZONE = 10_000 if FULL_DEPTH else 2


def changes(name: str) -> list[int]:
    """The instants at which a zone's offset changes, from the engine's own table (compared with zoneinfo below)."""
    table = zone_named(name).covering(END)
    return [start for start in table.starts[1:-1] if BEGIN <= start < END]


def check_around(rule: Recurrence, wanted: list[int], begin: int, end: int) -> None:
    """Every way of asking gives the wanted times of [begin, end)."""
    got = rule.between(begin, end)
    assert local(rule, got) == local(rule, wanted)
    backwards, before = [], end
    while (before := rule.prev(before) or begin - 1) >= begin:
        backwards.append(before)
    assert backwards[::-1] == wanted
    assert rule.count(begin, end) == len(wanted)
    for time in wanted:
        assert rule.matches(time)
        assert rule.next(time - 1) == time
        assert rule.prev(time + 1) == time


@pytest.mark.parametrize("part", one_in(PARTS, range(PARTS)))
def test_fixed_times_follow_their_policy_around_the_changes_of_every_zone(part: int) -> None:
    """Several times of day, among them ones inside the change, under all policies in turn."""
    for name in ZONES[part::PARTS]:
        check_fixed_times(name)


def check_fixed_times(name: str) -> None:
    """The fixed times of a zone."""
    chance = random.Random(name)
    zone = brute.zone(name)
    found = changes(name)
    for change in chance.sample(found, min(len(found), CHANGES_PER_ZONE)):
        around = [(change + brute.offset_at(zone, change + side)) % 86_400 // 60 for side in (-1, 0)]
        inside = chance.randint(min(around), max(around)) if max(around) - min(around) < 400 else around[0]
        minutes = sorted({inside, around[0], around[1], chance.randrange(1440)})
        gap, overlap = chance.choice(POLICIES)
        rule = recurrence(
            crons=[f"{minute % 60} {minute // 60} * * *" for minute in minutes],
            time_zone=name,
            dst={"gap": gap, "overlap": overlap},
        )
        begin, end = change - 100_000, change + 100_000
        wanted = brute.expected([minute * 60 for minute in minutes], zone, begin, end, gap, overlap)
        check_around(rule, wanted, begin, end)


@pytest.mark.parametrize("part", one_in(PARTS, range(PARTS)))
def test_patterns_that_start_with_a_star_follow_real_time(part: int) -> None:
    """`*/20 * * * *` fires at every local time that occurs, as often as it occurs."""
    for name in ZONES[:: 1 if FULL_DEPTH else 7][part::PARTS]:
        check_stars(name)


def check_stars(name: str) -> None:
    """The patterns of a zone."""
    chance = random.Random(name)
    zone = brute.zone(name)
    found = changes(name)
    for change in chance.sample(found, min(len(found), CHANGES_PER_ZONE)):
        step = chance.choice([10, 15, 20, 30])
        rule = cron(f"*/{step} * * * *", name, dst={"gap": "next", "overlap": "first"})
        begin, end = change - 10_000, change + 10_000
        wanted = brute.expected(range(0, 86_400, step * 60), zone, begin, end, "skip", "both")
        check_around(rule, wanted, begin, end)


@pytest.mark.parametrize("part", one_in(PARTS, range(PARTS)))
def test_a_fixed_daily_rule_fires_once_for_every_day(part: int) -> None:
    """Also for the day that a zone left out: it fires right after the gap."""
    for name in ZONES[:: 1 if FULL_DEPTH else 5][part::PARTS]:
        check_daily_rule(name)


def check_daily_rule(name: str) -> None:
    """The daily rule of a zone."""
    minute = random.Random(name).randrange(1440)
    rule = cron(f"{minute % 60} {minute // 60} * * *", name)
    for change in changes(name)[-4:]:
        around = rule.between(change - 20 * 86_400, change + 20 * 86_400)
        gaps = [later - earlier for earlier, later in pairwise(around)]
        shown = [(time + rule.zone.offset_at(time)) // 86_400 for time in around]
        assert all(gap > 0 for gap in gaps)
        assert len(around) - 1 <= shown[-1] - shown[0] + 1
        assert max(gaps) <= 86_400 + 26 * 3600
        assert shown == sorted(set(shown)) or len(shown) - len(set(shown)) == 1


@given(st.data())
@examples(600 if FULL_DEPTH else 120)
def test_any_question_in_any_order_gets_the_same_answer(data: st.DataObject) -> None:
    """The engine remembers where it was; asking in another order must not change what it says."""
    name = data.draw(st.sampled_from(["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]))
    line = data.draw(st.sampled_from(["30 2 * * *", "*/7 1-3 * * *", "0 0 29 2 *", "15 1 1 * *", "5 4 L * 5L"]))
    fresh, used = cron(line, name), cron(line, name)
    moments = data.draw(st.lists(st.integers(BEGIN, END), min_size=1, max_size=12))
    near = [change + data.draw(st.integers(-9000, 9000)) for change in changes(name)[:3]]
    for moment in moments + near:
        assert used.next(moment) == fresh.next(moment) == cron(line, name).next(moment)
        assert used.prev(moment) == cron(line, name).prev(moment)
        following = used.next(moment)
        if following is not None:
            assert following > moment
            assert used.prev(following + 1) == following
            previous = used.prev(moment)
            assert previous is None or (previous < moment and used.next(previous) is not None)


BELOW_A_DAY = [
    # rule, step in seconds, hours, weekdays (Monday = 0), minutes that it allows
    ("FREQ=HOURLY;INTERVAL=2;BYHOUR=0,1,2,3,4", 7_200, range(5), range(7), range(60)),
    ("FREQ=HOURLY;INTERVAL=5;BYDAY=SU", 18_000, range(24), [6], range(60)),
    ("FREQ=MINUTELY;INTERVAL=30;BYHOUR=1,2,3", 1_800, [1, 2, 3], range(7), range(60)),
    ("FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2;BYDAY=SA,SU", 420, [1, 2], [5, 6], range(60)),
    ("FREQ=SECONDLY;INTERVAL=100;BYMINUTE=0,30", 100, range(24), range(7), [0, 30]),
    ("FREQ=SECONDLY;INTERVAL=70;BYHOUR=2", 70, [2], range(7), range(60)),
]


@pytest.mark.parametrize("case", BELOW_A_DAY, ids=[case[0] for case in BELOW_A_DAY])
@pytest.mark.parametrize("name", ["America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Pacific/Apia"])
def test_rules_below_a_day_are_steps_of_real_time_filtered_on_the_wall_clock(name: str, case: tuple[Any, ...]) -> None:
    text, step, hours, weekdays, minutes = case
    zone = brute.zone(name)
    for change in changes(name)[-2:]:
        dtstart = change - change % 3600 - 40 * 86_400
        moment = format_instant(dtstart)
        rule = recurrence(rrules=[{"dtstart": moment, "rrule": text}], time_zone=name)
        begin, end = change - 90_000, change + 90_000
        wanted = []
        for instant in range(dtstart + (begin - dtstart + step - 1) // step * step, end, step):
            wall = instant + brute.offset_at(zone, instant)
            day, second = divmod(wall, 86_400)
            if second // 3600 in hours and (day + 3) % 7 in weekdays and second // 60 % 60 in minutes:
                wanted.append(instant)
        check_around(rule, wanted, begin, end)


def test_an_occurrence_that_a_gap_moves_into_an_excluded_hour_is_dropped() -> None:
    rule = cron("30 2 * * *", "America/New_York", exclude=[{"cron": "* 3 * * *"}])
    assert local(rule, rule.preview(2, at("2025-03-08T00:00:00Z"))) == [
        "2025-03-08T02:30:00-05:00",
        "2025-03-10T02:30:00-04:00",
    ]


def test_threads_may_share_a_recurrence() -> None:
    rule = cron("30 1,2 * * 0-5", "America/New_York")
    moments = [random.Random(n).randint(BEGIN, END) for n in range(300)]
    wanted = [cron("30 1,2 * * 0-5", "America/New_York").next(moment) for moment in moments]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [rule.next(moment) for moment in moments], range(8)):
            assert found == wanted


def test_our_zones_change_when_the_standard_librarys_do() -> None:
    for name in ZONES:
        zone, ours = brute.zone(name), zone_named(name)
        for change in changes(name):
            for instant in (change - 1, change):
                assert ours.offset_at(instant) == brute.offset_at(zone, instant), (name, instant)


@pytest.mark.parametrize(
    ("line", "tz", "after"),
    [
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-01T12:00:00-10:00"),
        ("56 */2 * * *", "America/St_Johns", "1992-10-24T23:31:00-03:30"),
        ("30 1 * * *", "America/New_York", "2025-11-02T01:10:00-05:00"),
        ("0,30 2 * * *", "America/New_York", "2025-03-08T12:00:00-05:00"),
        ("0 0 * * *", "Asia/Beirut", "2023-03-24T12:00:00+02:00"),
    ],
)
def test_cases_in_which_other_engines_stand_still_or_go_back(line: str, tz: str, after: str) -> None:
    rule, moment = cron(line, tz), at(after)
    for _ in range(400):
        following = rule.next(moment)
        assert following is not None
        assert following > moment
        moment = following


def ends(policy: dict[str, str], zone: str, dtstart: str, rrule: str) -> list[str]:
    found = recurrence(rrules=[{"dtstart": dtstart, "rrule": rrule}], time_zone=zone, dst=policy)
    return local(found, found.preview(9, at("1990-01-01T00:00:00Z")))


def test_the_last_of_a_counted_rule_falls_where_the_policy_puts_it() -> None:
    """COUNT ends neither early nor late when its last time, or DTSTART, is skipped or repeated."""
    berlin = ("Europe/Berlin", "1995-03-25T00:15:00", "FREQ=DAILY;BYHOUR=0,2,3;COUNT=5")
    assert ends({"gap": "next"}, *berlin)[-2:] == ["1995-03-26T00:15:00+01:00", "1995-03-26T03:00:00+02:00"]
    again = ("America/New_York", "2025-11-02T01:30:00", "FREQ=DAILY;COUNT=1")
    assert ends({"overlap": "last"}, *again) == ["2025-11-02T01:30:00-05:00"]
    assert ends({"overlap": "first"}, *again) == ["2025-11-02T01:30:00-04:00"]
    skipped = ("America/New_York", "2025-03-09T02:30:00", "FREQ=DAILY;COUNT=1")
    assert ends({"gap": "next"}, *skipped) == ["2025-03-09T03:00:00-04:00"]
    assert ends({"gap": "shift"}, *skipped) == ["2025-03-09T03:30:00-04:00"]
    assert ends({"gap": "skip"}, *skipped) == ["2025-03-10T02:30:00-04:00"]


def test_a_rule_that_starts_on_a_day_without_midnight_keeps_to_midnight_after() -> None:
    assert ends({}, "America/Sao_Paulo", "2018-11-04", "FREQ=DAILY;COUNT=2") == [
        "2018-11-04T01:00:00-02:00",
        "2018-11-05T00:00:00-02:00",
    ]
