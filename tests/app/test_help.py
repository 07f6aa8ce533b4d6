"""What `help()` tells of the public names."""

import re
from dataclasses import fields

from evertick import Settings
from evertick.base.instants import DAY_MS


def test_help_explains_every_setting_with_its_default() -> None:
    explained = dict(re.findall(r"^ *- `(\w+)` \(([^)]*)\): .+", Settings.__doc__ or "", re.M))

    assert explained.keys() == {each.name for each in fields(Settings)}
    for each in fields(Settings):
        days = f"{each.default // DAY_MS} days"
        assert explained[each.name] in (f"{each.default:,}", days), each.name
