"""What `help()` tells of the public names."""

import re
from dataclasses import fields
from datetime import timedelta

from evertick import Settings


def in_words(duration: timedelta) -> str:
    """`7 days`, `1 minute`, `200 ms`."""
    if duration < timedelta(seconds=1):
        return f"{duration // timedelta(milliseconds=1)} ms"
    units = [("day", timedelta(days=1)), ("minute", timedelta(minutes=1)), ("s", timedelta(seconds=1))]
    unit, one = next((unit, one) for unit, one in units if duration >= one)
    return f"{duration // one} {unit}{'s' if unit != 's' and duration > one else ''}"


def test_help_explains_every_setting_with_its_default() -> None:
    explained = dict(re.findall(r"^ *- `(\w+)` \(([^)]*)\): .+", Settings.__doc__ or "", re.M))

    assert explained.keys() == {each.name for each in fields(Settings)}
    for each in fields(Settings):
        default = each.default
        words = f"{default:,}" if isinstance(default, int) else in_words(default)
        assert explained[each.name] == words, each.name
