"""The builder of RRULEs: the parts of a rule as fields of a form, and back.

A rule opens in the builder only if its fields give the same rule again; any other is edited as text.
"""

from collections.abc import Mapping
from typing import Any, Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.moments import parse_moment
from evertick.recurrence.parse.rrule import RFC_WEEKDAYS, parse_recur
from evertick.recurrence.spec.sources import MomentKind, Recur, Skip

Fields = dict[str, str]
"""The fields of one row; several values of a field are separated by commas."""

LISTS: Final = {
    "months": ("BYMONTH", "by_month"),
    "weeks": ("BYWEEKNO", "by_week_no"),
    "year_days": ("BYYEARDAY", "by_year_day"),
    "month_days": ("BYMONTHDAY", "by_month_day"),
    "hours": ("BYHOUR", "by_hour"),
    "minutes": ("BYMINUTE", "by_minute"),
    "seconds": ("BYSECOND", "by_second"),
    "positions": ("BYSETPOS", "by_set_pos"),
}
"""The fields that list numbers: the part of the rule, and the member of `Recur`."""
WEEK: Final = (*RFC_WEEKDAYS[1:], RFC_WEEKDAYS[0])
"""The days of the week, as the form shows them."""
ORDINALS: Final = {
    "": "every", "1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "-1": "last",
}  # fmt: skip
FREQUENCIES: Final = {
    "DAILY": "days", "WEEKLY": "weeks", "MONTHLY": "months", "YEARLY": "years", "HOURLY": "hours",
    "MINUTELY": "minutes", "SECONDLY": "seconds",
}  # fmt: skip
NAMED: Final = {part: name for name, (part, _) in LISTS.items()} | {
    "FREQ": "freq", "INTERVAL": "interval", "BYDAY": "weekdays", "COUNT": "count", "UNTIL": "until",
    "dtstart": "dtstart", "rdate": "rdates", "exdate": "exdates",
}  # fmt: skip
"""Which field a complaint about a part belongs to."""


def rule_fields(wire: Mapping[str, Any]) -> Fields | None:
    """The fields of a recurrence set, or None if they would not give the same set again."""
    text = wire.get("rrule")
    if text is None or wire.get("exrule"):
        return None
    fields = _fields(parse_recur(text)) | {
        "dtstart": wire["dtstart"],
        "rdates": "\n".join(wire.get("rdate", ())),
        "exdates": "\n".join(wire.get("exdate", ())),
        "was": text,
    }
    try:
        return fields if rule_wire(fields) == wire else None
    except InvalidSpec:
        return None


def rule_wire(fields: Mapping[str, str]) -> dict[str, Any]:
    """The recurrence set that the fields of the builder say. Raises InvalidSpec."""
    text, was = rule_text(fields), fields.get("was")
    if was and parse_recur(was) == parse_recur(text):
        text = was  # nothing has changed, so its parts stay as they were written
    wire: dict[str, Any] = {"dtstart": fields.get("dtstart", ""), "rrule": text}
    for key, name in (("rdate", "rdates"), ("exdate", "exdates")):
        if dates := lines_of(fields.get(name, "")):
            wire[key] = dates
    return wire


def rule_text(fields: Mapping[str, str]) -> str:
    """The RRULE that the fields of the builder say. Raises InvalidSpec for an end that is no moment."""
    parts = {"FREQ": fields.get("freq") or "DAILY"}
    if (interval := fields.get("interval", "").strip()) not in ("", "1"):
        parts["INTERVAL"] = interval
    for name, (part, _) in LISTS.items():
        if values := _listed(fields.get(name, "")):
            parts[part] = values
    if days := _listed(fields.get("weekdays", "")):
        ordinal = fields.get("ordinal", "")
        parts["BYDAY"] = ",".join(f"{ordinal}{day}" for day in days.split(","))
    if count := fields.get("count", "").strip():
        parts["COUNT"] = count
    if until := fields.get("until", "").strip():
        parts["UNTIL"] = _until(until)
    if (start := fields.get("week_start") or "MO") != "MO":
        parts["WKST"] = start
    if skip := fields.get("skip"):
        parts |= {"RSCALE": "GREGORIAN", "SKIP": skip}
    return ";".join(f"{name}={value}" for name, value in parts.items())


def set_lines(wire: Mapping[str, Any]) -> str:
    """A recurrence set as the lines of RFC 5545."""
    lines = [f"DTSTART:{wire['dtstart']}"]
    lines += [f"RRULE:{wire['rrule'].removeprefix('RRULE:')}"] if wire.get("rrule") else []
    lines += [f"{key.upper()}:{','.join(wire[key])}" for key in ("rdate", "exdate") if wire.get(key)]
    lines += [f"EXRULE:{rule}" for rule in wire.get("exrule", ())]
    return "\n".join(lines)


def lines_of(text: str) -> list[str]:
    """What stands on the lines of a field, or between its commas."""
    return [part for line in text.splitlines() for each in line.split(",") if (part := each.strip())]


def _fields(recur: Recur) -> Fields:
    ordinals = {day.ordinal for day in recur.by_day}
    ticked = sorted(recur.by_day, key=lambda day: WEEK.index(RFC_WEEKDAYS[day.weekday]))
    fields = {
        "freq": str(recur.frequency),
        "interval": str(recur.interval),
        "weekdays": ",".join(RFC_WEEKDAYS[day.weekday] for day in ticked),
        "ordinal": next((str(each) for each in ordinals if len(ordinals) == 1 and str(each) in ORDINALS), ""),
        "count": "" if recur.count is None else str(recur.count),
        "until": "" if recur.until is None else recur.until.text,
        "week_start": RFC_WEEKDAYS[recur.week_start],
        "skip": "" if recur.skip in (None, Skip.OMIT) else str(recur.skip),
    }
    lists = {name: getattr(recur, member) for name, (_, member) in LISTS.items()}
    lists["months"] = sorted(recur.by_month)
    return fields | {name: ",".join(map(str, values)) for name, values in lists.items()}


def _listed(text: str) -> str:
    return ",".join(part for part in text.replace(",", " ").split() if part)


def _until(text: str) -> str:
    moment = parse_moment(text, "UNTIL")
    bare = moment.text.replace("-", "").replace(":", "").replace(" ", "T")
    if moment.kind is MomentKind.INSTANT and not bare.upper().endswith("Z"):
        raise InvalidSpec(f"UNTIL {text!r}: write it in UTC, such as 2026-12-31T09:00:00Z, or without an offset")
    return bare
