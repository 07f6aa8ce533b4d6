"""Holidays in files of schedules: the place in place of hundreds of days.

A schedule keeps the days that were looked up for a place when it was made. A file has the place alone; the schedule
that it is applied to keeps the days that it has, so a newer package of holidays changes no schedule.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from evertick.recurrence.parse.holidays import YEARS_DEFAULT

LOOKED_UP: Final = "holidays "
"""How the source of days begins that the package `holidays` has named."""
_PLACE: Final = ("country", "subdivision", "categories", "years")


def shortened(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec in its wire form, with the place and the years alone for holidays that were looked up."""
    return _with_exceptions(spec, _short)


def completed(spec: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A spec in its wire form, in which holidays have the days that `known`, another spec, has for the same place."""
    days = [each for each in known.get("except", ()) if isinstance(each.get("holidays"), dict)]

    def complete(one: dict[str, Any]) -> dict[str, Any]:
        if "resolved" in one["holidays"]:
            return one
        return next((full for full in days if _place(_short(full)) == _place(one)), one)

    return _with_exceptions(spec, complete)


def _with_exceptions(spec: Mapping[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    found = spec.get("except")
    if not isinstance(found, list):
        return dict(spec)
    changed = [change(one) if isinstance(one, dict) and isinstance(one.get("holidays"), dict) else one for one in found]
    return {**spec, "except": changed}


def _short(one: dict[str, Any]) -> dict[str, Any]:
    """An exception without its days, unless they were given by hand."""
    holidays = one["holidays"]
    if not str(holidays.get("source", "")).startswith(LOOKED_UP) or not holidays.get("resolved"):
        return one
    kept = {key: holidays[key] for key in _PLACE if key in holidays}
    years = [int(holidays["resolved"][place][0][:4]) for place in (0, -1)]
    if years != [YEARS_DEFAULT[0], YEARS_DEFAULT[-1]]:
        kept["years"] = years
    return {"holidays": kept}


def _place(one: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one["holidays"].get(key) for key in _PLACE if one["holidays"].get(key) not in (None, [])}
