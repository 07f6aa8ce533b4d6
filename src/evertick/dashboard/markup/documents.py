"""Documents as JSON with links for ids, and as one line in a list."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape

from evertick.base.ids import JOB_PREFIX, table_of

_ID: Final = re.compile("&#34;([A-Za-z][A-Za-z0-9_]{0,63}_[0-9a-f]{28})&#34;")
SHOWN_FIELDS: Final = 8
"""Fields of a document that a row of a list shows."""


def linked(text: str, url: Callable[..., str]) -> Markup:
    """JSON as HTML; ids of jobs and documents are links, whose pages show whether they still exist."""

    def link(found: re.Match[str]) -> str:
        place = "jobs" if table_of(found[1]) == JOB_PREFIX else "documents"
        return f'&#34;<a href="{escape(url(place, found[1]))}">{found[1]}</a>&#34;'

    return Markup(_ID.sub(link, str(escape(text))))  # noqa: S704


def first_fields(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The fields that a row shows."""
    return list(fields.items())[:SHOWN_FIELDS]


# -- The differences of a change, field by field.

ABSENT: Final = object()


class Difference(NamedTuple):
    """A field before and after; `ABSENT` if it did not exist, or no longer exists."""

    field: str
    before: Any
    after: Any


def differences(before: Any, after: Any, within: str = "") -> list[Difference]:
    """The fields in which two values differ; nested fields are named with a dot: `limits.running`."""
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
