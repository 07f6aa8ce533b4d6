"""Against other libraries, on random rules in UTC, where none of them has clock changes to get wrong.

Known differences are listed here with the reason, so that nobody mistakes them for ours:

- cronsim counts weekdays 0 to 7, so its `1/2` also means Sunday; it knows no wrap-around, `nW`, `L-n` or year.
- croniter joins the day fields with OR even when one of them is `*/n`; we follow cron's star rule.
- cronsim and croniter read a range of one value, `9-9/3` or `4-4`, as one that runs on to the top, or as everything.
- dateutil joins ordinal and plain weekdays (`BYDAY=FR,2MO`) with AND, so that they cancel each other out; raises
  ValueError where a rule below a day never fires and it notices, and searches for ever where it does not.
- dateutil fires BYWEEKNO=53 on 1 and 2 January after years of 52 weeks; cuts the first week of WEEKLY with BYSETPOS at
  DTSTART before it picks; reads YEARLY;BYWEEKNO without BYDAY as all seven days; accepts INTERVAL=0, COUNT=0 and other
  things the RFC forbids.
"""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr

from evertick.recurrence.parse.moments import format_local
from tests.recurrence.asking import cron, local, rrule
from tests.sampling import FULL_DEPTH, one_in

EPOCH = datetime(1970, 1, 1)
ROUNDS = 20 if FULL_DEPTH else 1


def field(chance: random.Random, low: int, high: int, star: float) -> str:
    """A random field without anything that the libraries read differently."""
    if chance.random() < star:
        return chance.choice(["*", "*", f"*/{chance.randint(2, max(2, (high - low) // 2))}"])
    items = []
    for _ in range(chance.randint(1, 3)):
        first = chance.randint(low, high - 1)
        last = chance.randint(first + 1, high)
        items.append(chance.choice([f"{first}", f"{first}-{last}", f"{first}-{last}/{chance.randint(1, 9)}"]))
    return ",".join(items)


def cron_line(chance: random.Random) -> str:
    """A random line; one of the day fields stays `*`, or both are plain lists."""
    days = [field(chance, 1, 28, 0.0), field(chance, 0, 6, 0.0)]
    if chance.random() < 0.7:
        days[chance.randrange(2)] = "*"
    return " ".join([field(chance, 0, 59, 0.4), field(chance, 0, 23, 0.4), days[0], field(chance, 1, 12, 0.6), days[1]])


@pytest.mark.parametrize("seed", one_in(5, range(150 * ROUNDS)))
def test_random_cron_lines_agree_with_cronsim_and_croniter(seed: int) -> None:
    chance = random.Random(seed)
    line = cron_line(chance)
    start = datetime(chance.randint(1990, 2090), chance.randint(1, 12), chance.randint(1, 28), chance.randint(0, 23))
    ours = cron(line)
    moment = (start - EPOCH) // timedelta(seconds=1)
    sim, iterator = CronSim(line, start.replace(tzinfo=UTC)), croniter(line, start)
    for _ in range(8):
        found = ours.next(moment)
        assert found is not None
        theirs = (next(sim).replace(tzinfo=None), iterator.get_next(datetime))
        assert theirs == (EPOCH + timedelta(seconds=found),) * 2, line
        moment = found
    last = (EPOCH + timedelta(seconds=moment + 1)).replace(microsecond=0)
    assert ours.prev(moment + 1) == (croniter(line, last).get_prev(datetime) - EPOCH) // timedelta(seconds=1)


ALL_MONTHS = "BYMONTH=" + ",".join(map(str, range(1, 13)))


@pytest.mark.parametrize("rest", ["BYDAY=1MO", "BYDAY=-1FR,2TU,5SU", "BYDAY=1MO;BYSETPOS=2,-1", "BYDAY=1MO,2MO"])
@pytest.mark.parametrize("months", [ALL_MONTHS, "BYMONTH=1,2,3", ""])
def test_ordinal_weekdays_of_a_yearly_rule_count_within_its_months_even_if_it_names_all(months: str, rest: str) -> None:
    """Erratum 1913 of RFC 5545: within the month where BYMONTH is there, within the year where it is not."""
    rule = ";".join(part for part in ("FREQ=YEARLY", months, rest) if part)
    theirs = list(rrulestr(rule, dtstart=datetime(2020, 1, 1, 9)).between(datetime(2019, 1, 1), datetime(2030, 1, 1)))
    ours = rrule(rule).between(0, (datetime(2030, 1, 1) - EPOCH) // timedelta(seconds=1))
    assert [EPOCH + timedelta(seconds=firing) for firing in ours] == theirs


def some(chance: random.Random, choices: list[str], most: int) -> str:
    return ",".join(chance.sample(choices, chance.randint(1, most)))


def recur_rule(chance: random.Random) -> str:
    """A random rule, without the parts in which dateutil is known to be wrong."""
    frequency = chance.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"])
    parts = [f"FREQ={frequency}"]
    weekdays = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
    if chance.random() < 0.5:
        parts.append(f"INTERVAL={chance.randint(1, 13)}")
    if chance.random() < 0.3:
        parts.append("BYMONTH=" + some(chance, [str(n) for n in range(1, 13)], 4))
    if frequency in ("YEARLY", "MONTHLY") and chance.random() < 0.4:
        parts.append("BYMONTHDAY=" + some(chance, [str(n) for n in [*range(1, 32), *range(-31, 0)]], 3))
    elif chance.random() < 0.5:
        ordinals = [f"{n}{d}" for n in (1, 2, 3, 4, 5, -1, -2) for d in weekdays]
        ordinal = frequency in ("YEARLY", "MONTHLY") and chance.random() < 0.5
        parts.append("BYDAY=" + some(chance, ordinals if ordinal else weekdays, 4))
    if chance.random() < 0.3:
        parts.append("BYHOUR=" + some(chance, [str(n) for n in range(24)], 3))
    if chance.random() < 0.3:
        parts.append("BYMINUTE=" + some(chance, [str(n) for n in range(60)], 3))
    if len(parts) > 2 and frequency != "WEEKLY" and any(p.startswith("BY") for p in parts) and chance.random() < 0.3:
        parts.append("BYSETPOS=" + some(chance, ["1", "2", "-1", "-2"], 2))
    if frequency == "WEEKLY" and chance.random() < 0.5:
        parts.append("WKST=" + chance.choice(weekdays))
    if chance.random() < 0.4:
        parts.append(chance.choice([f"COUNT={chance.randint(1, 40)}", "UNTIL=20290615T120000Z"]))
    return ";".join(parts)


@pytest.mark.parametrize("seed", one_in(5, range(200 * ROUNDS)))
def test_random_rrules_agree_with_dateutil(seed: int) -> None:
    chance = random.Random(seed)
    rule = recur_rule(chance)
    start = datetime(chance.randint(2015, 2027), chance.randint(1, 12), chance.randint(1, 28), chance.randint(0, 23))
    dtstart = format_local((start - EPOCH) // timedelta(seconds=1))
    ours = rrule(rule, dtstart)
    if ours.is_empty():
        return  # dateutil would look for ten seconds; that empty means empty is proved in test_never
    theirs = rrulestr(rule.replace("120000Z", "120000"), dtstart=start, cache=False)
    # dateutil searches every year up to 9999 when there is nothing left, so it is stopped by the end of a span.
    begin, end = start - timedelta(days=1), datetime(2036, 1, 1)
    expected = [(moment - EPOCH) // timedelta(seconds=1) for moment in theirs.between(begin, end)][:60]
    first = (begin - EPOCH) // timedelta(seconds=1)
    last = (end - EPOCH) // timedelta(seconds=1)
    assert local(ours, ours.between(first, last, 60)) == local(ours, expected), rule
    middle = expected[len(expected) // 2] if expected else first
    assert ours.between(middle + 1, last, 10) == [time for time in expected if time > middle][:10]
    if expected:
        assert ours.prev(middle + 1) == middle
        assert ours.count(first, middle + 1) == len(expected) // 2 + 1


@pytest.mark.parametrize("seed", one_in(5, range(60 * ROUNDS)))
def test_random_rules_below_a_day_agree_with_dateutil(seed: int) -> None:
    chance = random.Random(seed)
    frequency = chance.choice(["HOURLY", "MINUTELY", "SECONDLY"])
    parts = [f"FREQ={frequency}", f"INTERVAL={chance.choice([1, 2, 5, 7, 10, 13, 36, 90])}"]
    if chance.random() < 0.5:
        parts.append("BYDAY=" + some(chance, ["MO", "TU", "WE", "TH", "FR", "SA", "SU"], 4))
    if chance.random() < 0.5:
        parts.append("BYHOUR=" + some(chance, [str(n) for n in range(24)], 6))
    if frequency != "SECONDLY" and chance.random() < 0.5:
        parts.append("BYMINUTE=" + some(chance, [str(n) for n in range(60)], 12))
    if chance.random() < 0.4:
        parts.append("BYSECOND=" + some(chance, [str(n) for n in range(60)], 12))
    if chance.random() < 0.3:
        parts.append(f"COUNT={chance.randint(1, 30)}")
    rule = ";".join(parts)
    start = datetime(2026, chance.randint(1, 12), chance.randint(1, 28), chance.randint(0, 23), chance.randint(0, 59))
    dtstart = format_local((start - EPOCH) // timedelta(seconds=1))
    ours = rrule(rule, dtstart)
    begin = (start - EPOCH) // timedelta(seconds=1) - 1
    end = begin + 3 * 86_400
    stop = EPOCH + timedelta(seconds=end)
    expected: list[int] = []
    try:
        theirs = rrulestr(rule + ("" if "COUNT" in rule else f";UNTIL={stop:%Y%m%dT%H%M%S}"), dtstart=start)
    except ValueError as problem:
        assert "empty set" in str(problem)
        assert ours.is_empty()
        return
    for moment in theirs:
        if len(expected) == 40 or moment >= stop:
            break
        expected.append((moment - EPOCH) // timedelta(seconds=1))
    got = ours.between(begin, end, 40)
    assert local(ours, got) == local(ours, expected), (rule, dtstart)
    assert ours.count(begin, (got[-1] + 1) if got else begin) == len(got)
    for earlier, later in pairwise(got):
        assert ours.prev(later) == earlier
