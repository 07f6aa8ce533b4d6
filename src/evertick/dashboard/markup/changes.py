"""What a change has made different, field by field."""

from typing import Any, Final, NamedTuple

ABSENT: Final = object()


class Difference(NamedTuple):
    """A field before and after; `ABSENT` where there was none, or is none now."""

    field: str
    before: Any
    after: Any


def differences(before: Any, after: Any, within: str = "") -> list[Difference]:
    """The fields in which two values differ; what is inside of a field is named with a dot: `limits.running`."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    found: list[Difference] = []
    for name in dict.fromkeys((*before, *after)):
        was, becomes = before.get(name, ABSENT), after.get(name, ABSENT)
        if was == becomes:
            continue
        if isinstance(was, dict) and isinstance(becomes, dict):
            found += differences(was, becomes, f"{within}{name}.")
        else:
            found.append(Difference(f"{within}{name}", was, becomes))
    return found
