"""Rules in notations of other schedulers: recognised, and refused with the form to write instead.

AWS writes `cron(0 12 * * ? *)` and `rate(5 minutes)`, `/etc/crontab` has a user before the command, calendars export
whole components. None of them is accepted: a sixth field, or a weekday's number, means something else here.
"""

import re
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.sources import MONTHS, WEEKDAYS, shown

_AWS_CRON: Final = re.compile(r"cron\((.*)\)", re.IGNORECASE | re.DOTALL)
_AWS_RATE: Final = re.compile(r"rate\(\s*([0-9]{1,9})\s*(minute|hour|day)s?\s*\)", re.IGNORECASE)
_AWS: Final = re.compile(r"(?:cron|rate|at)\(.*\)", re.IGNORECASE | re.DOTALL)
_NAMES: Final = "|".join(name[:3] for name in (*WEEKDAYS, *MONTHS))
_FIELD: Final = re.compile(rf"(?!/)(?:[0-9*/,?#LW+-]|{_NAMES})+", re.IGNORECASE)
_COMMAND: Final = re.compile(r"/.*|[a-z_][a-z0-9_.-]*\$?")
_NUMBER: Final = re.compile(r"(?<![#/0-9])([1-7])(?![0-9])")
_PROPERTY: Final = re.compile(r"^(?:DTSTART|RRULE|RDATE|EXDATE)[;:].*$", re.IGNORECASE | re.MULTILINE)
_SHOWN_MAX: Final = 200


def refuse_foreign(text: str) -> None:
    """Raise InvalidSpec for a rule in the notation of another scheduler, with the form to write instead."""
    plain = text.strip()
    if _AWS.fullmatch(plain):
        raise InvalidSpec(f"{shown(plain)} is written for AWS; {_instead_of_aws(plain)}")
    if plain.lower() == "@reboot":
        raise InvalidSpec(
            "'@reboot' has no times: a schedule does not start with a machine; write "
            "app.scheduler.run_after(0, function) where the program starts"
        )
    if plain[:6].upper() == "BEGIN:":
        lines = [line.strip() for line in _PROPERTY.findall(plain.replace("\\n", "\n"))]
        written = shown(" ".join(lines) or "DTSTART:20260105T090000 RRULE:FREQ=DAILY", _SHOWN_MAX)
        raise InvalidSpec(f"{shown(plain)} is a whole component of a calendar; give the lines of its times: {written}")
    if "\\n" in plain and re.search(r"(?:DTSTART|RRULE|RDATE|EXDATE)[;:]", plain, re.IGNORECASE):
        written = shown(plain.replace("\\r", "").replace("\\n", " "), _SHOWN_MAX)
        raise InvalidSpec(
            f"{shown(plain)} has the characters \\n in place of a line break; write a line break or a space: {written}"
        )


def refuse_crontab(text: str, parts: list[str]) -> None:
    """Raise InvalidSpec for a line of a crontab: five fields, and then a user or a command."""
    if len(parts) < 6 or _FIELD.fullmatch(parts[5]) or not _COMMAND.fullmatch(parts[5]):
        return
    if all(_FIELD.fullmatch(part) for part in parts[:5]):
        fields = " ".join(parts[:5])
        raise InvalidSpec(
            f"the cron line {shown(text)} has the user or the command of a crontab after its five fields; write "
            f"{fields!r}, and give the function to run separately"
        )


def aws_hint(parts: list[str]) -> str:
    """A hint for six fields in AWS's notation: the year last, weekdays from 1."""
    return f"; if it is written for AWS, whose sixth field is the year, write {_from_aws(parts)!r}"


def _instead_of_aws(text: str) -> str:
    if rate := _AWS_RATE.fullmatch(text):
        count, unit = int(rate[1]), rate[2].lower()
        words = f"every {unit}" if count == 1 else f"every {count} {unit}s"
        return f"write {words!r}, '@every {count}{unit[0]}', or every({unit}s={count})"
    if cron := _AWS_CRON.fullmatch(text):
        parts = cron[1].split()
        if len(parts) == 6:
            return f"write {_from_aws(parts)!r}: here a year is the seventh field, and weekdays count from 0, Sunday"
    return "write a cron line such as '0 9 * * 1-5', or a sentence such as 'every 5 minutes'"


def _from_aws(parts: list[str]) -> str:
    """AWS's six fields (minute hour day month weekday year) as a line of Evertick; `?` is `*` in both day fields."""
    minute, hour, day, month, weekday, year = parts
    weekday = _NUMBER.sub(lambda found: WEEKDAYS[int(found[1]) - 1][:3].upper(), weekday)
    fields = [minute, hour, *("*" if each == "?" else each for each in (day, month, weekday))]
    return " ".join(fields if year in ("*", "?") else ["0", *fields, year])
