"""Recurrence beside other libraries, in one run: microseconds for the next time, compiling, never, and a preview.

    python -m benchmarks.bench_recurrence [--quick]

Each figure is the best of several rounds. "next" walks from time to time and starts again after a while, so that
warm and cold places are mixed as a scheduler mixes them; "x" is how many times longer the other library takes.
croniter and cronsim are asked on their own terms: one iterator, walked. dateutil is asked `after` a moment 36 years
from DTSTART, which is what a scheduler asks. Compiling includes parsing.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import islice, product
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr

from evertick.recurrence import Recurrence, Spec, compile_spec
from evertick.recurrence.parse.cron import Written, parse_calendar, parse_cron
from evertick.recurrence.parse.moments import parse_moment
from evertick.recurrence.parse.rrule import parse_rrule

START = 1_767_225_630  # 2026-01-01T00:00:30Z
FAR = 1_780_272_000  # 2026-06-01T00:00:00Z
ZONES = ("UTC", "America/New_York")

CRON = {
    "every minute": "* * * * *",
    "every 5 min": "*/5 * * * *",
    "weekdays 09:00": "0 9 * * 1-5",
    "monthly 08:30": "30 8 1 * *",
    "29 Feb": "0 0 29 2 *",
    "29 Feb or Monday": "0 0 29 2 1",
    "13th or Friday": "0 0 13 * 5",
    "last day": "0 0 L * *",
    "office hours": "*/5 9-17 * * 1-5",
}
CALENDAR: dict[str, dict[str, Written]] = {
    "Fridays 11:03": {"day_of_week": "Fri", "hour": "11", "minute": "3"},
    "quarterly": {"month": "*/3", "day_of_month": "1,15", "hour": "11-14"},
    "13th and Friday": {"day_of_month": "13", "day_of_week": "5", "hour": "12"},
}
RRULE = {
    "daily": "FREQ=DAILY",
    "weekly MO,WE,FR": "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "last Friday": "FREQ=MONTHLY;BYDAY=-1FR",
    "last weekday": "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "yearly": "FREQ=YEARLY",
    "hourly": "FREQ=HOURLY",
    "every 15 minutes, Mondays": "FREQ=MINUTELY;INTERVAL=15;BYDAY=MO",
    "every 5 hours, Mondays": "FREQ=HOURLY;INTERVAL=5;BYDAY=MO",
    "every 7 seconds at 9": "FREQ=SECONDLY;INTERVAL=7;BYHOUR=9",
}
HOPELESS = {"hourly", "every 15 minutes, Mondays", "every 5 hours, Mondays", "every 7 seconds at 9"}
NEVER: dict[str, Callable[[str], Recurrence]] = {
    "cron 30 February": lambda zone: of_cron("0 0 30 2 *", zone),
    "cron 29 February 2023": lambda zone: of_cron("0 0 0 29 2 * 2023", zone),
    "rrule daily, 30 February": lambda zone: of_rrule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", zone),
    "rrule minutely, 30 February": lambda zone: of_rrule("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", zone),
    "rrule every 14 days, wrong day": lambda zone: of_rrule("FREQ=DAILY;INTERVAL=14;BYDAY=SU", zone),
    "rrule residues that never meet": lambda zone: of_rrule("FREQ=SECONDLY;INTERVAL=60;BYSECOND=30", zone),
}


def of_cron(line: str, zone: str) -> Recurrence:
    return compile_spec(Spec(crons=(parse_cron(line),), time_zone=zone))


def of_calendar(fields: dict[str, Written], zone: str) -> Recurrence:
    return compile_spec(Spec(calendars=(parse_calendar(fields),), time_zone=zone))


def of_rrule(rule: str, zone: str) -> Recurrence:
    return compile_spec(Spec(rrules=(parse_rrule(parse_moment("1990-01-01T09:00:00"), rule),), time_zone=zone))


def best(rounds: int, work: Callable[[], int]) -> float:
    """Microseconds for one unit of work, which `work` counts; the best of several rounds."""
    figures = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        units = work()
        figures.append((time.perf_counter_ns() - begin) / 1_000 / units)
    return min(figures)


def walking(rule: Recurrence, start: int, number: int, back_after: int) -> Callable[[], int]:
    """Ask for the next time over and over, from the start again after so many."""

    def work() -> int:
        following, at, step = rule.next, start, 0
        for _ in range(number):
            found = following(at)
            step += 1
            at, step = (start, 0) if found is None or step == back_after else (found, step)
        return number

    return work


def iterating(make: Callable[[], Iterable[datetime]], number: int) -> Callable[[], int]:
    """Walk another library's iterator."""
    return lambda: sum(1 for _ in islice(make(), number))


def compiling(make: Callable[[], Recurrence]) -> Callable[[], int]:
    """Parse and compile a hundred times."""
    return lambda: len([make() for _ in range(100)])


def previewing(make: Callable[[], Recurrence], start: int) -> Callable[[], int]:
    """Parse, compile, and list the next hundred times, all cold."""
    return lambda: len(make().preview(100, start)) > 0


def cron_row(name: str, line: str, zone: str, rounds: int) -> None:
    begin = datetime.fromtimestamp(START, ZoneInfo(zone))
    back, number = (24, 12) if name == "29 Feb" else (400, 150)
    make = partial(of_cron, line, zone)
    ours = best(rounds, walking(make(), START, 5_000, back))
    sim = best(min(rounds, 3), iterating(lambda: CronSim(line, begin), number))
    iterator = best(min(rounds, 3), iterating(lambda: croniter(line, begin, ret_type=datetime), number))
    compiled, preview = best(rounds, compiling(make)), best(rounds, previewing(make, START))
    row(f"{name}, {zone}", ours, sim, sim / ours, iterator, iterator / ours, compiled, preview)


def calendar_row(name: str, fields: dict[str, Written], zone: str, rounds: int) -> None:
    make = partial(of_calendar, fields, zone)
    ours = best(rounds, walking(make(), START, 5_000, 400))
    row(f"{name}, {zone}", ours, best(rounds, compiling(make)), best(rounds, previewing(make, START)))


def rrule_row(name: str, rule: str, zone: str, rounds: int) -> None:
    make = partial(of_rrule, rule, zone)
    found = make()
    ours = best(rounds, walking(found, FAR, 3_000, 1))
    walked = best(rounds, walking(found, FAR, 3_000, 24 if name == "yearly" else 300))
    theirs = 0.0
    if name not in HOPELESS:  # dateutil needs from seconds to minutes for one answer
        other = rrulestr(rule, dtstart=datetime(1990, 1, 1, 9, tzinfo=ZoneInfo(zone)), cache=False)
        theirs = best(1, lambda: bool(other.after(datetime.fromtimestamp(FAR, UTC))))
    compiled, preview = best(rounds, compiling(make)), best(rounds, previewing(make, FAR))
    row(f"{name}, {zone}", ours, walked, theirs, theirs / ours, compiled, preview)


def title(name: str, *columns: str) -> None:
    print(f"\n{name + ' (us)':48}" + "".join(f"{column:>12}" for column in columns))


def row(name: str, *figures: float) -> None:
    print(f"{name:48}" + "".join(f"{'-' if not figure else format(figure, '.2f'):>12}" for figure in figures))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 2 if parser.parse_args().quick else 7
    title("cron: next", "evertick", "cronsim", "x", "croniter", "x", "compile", "preview 100")
    for (name, line), zone in product(CRON.items(), ZONES):
        cron_row(name, line, zone, rounds)
    title("calendar: next", "evertick", "compile", "preview 100")
    for (name, fields), zone in product(CALENDAR.items(), ZONES):
        calendar_row(name, fields, zone, rounds)
    title("rrule from 1990: next after 2026-06-01", "evertick", "walking", "dateutil", "x", "compile", "preview 100")
    for (name, rule), zone in product(RRULE.items(), ZONES):
        rrule_row(name, rule, zone, rounds)
    title("never: compile and find out", "evertick")
    for (name, make), zone in product(NEVER.items(), ZONES):
        row(f"{name}, {zone}", best(rounds, partial(proving, make, zone)))


def proving(make: Callable[[str], Recurrence], zone: str) -> int:
    """Compile a rule that never fires, and find that out."""
    return int(make(zone).is_empty())


if __name__ == "__main__":
    main()
