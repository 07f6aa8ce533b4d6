"""A draft as the fields of a form: what the editor shows at first, and after another draft took the place of one."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from evertick.base.errors import InvalidSpec
from evertick.dashboard.editor.drafts import Draft
from evertick.dashboard.editor.rows import except_rows, source_rows
from evertick.recurrence.parse.moments import format_instant, format_local, parse_instant, parse_moment
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Zone, local_of, moment_instant

Pairs = list[tuple[str, str]]

MANY: Final = ("weekdays", "months")
"""The fields of a row that are ticked one by one."""
CREATED: Final = (("paused", ""), ("trigger", ""))


def pairs_of(draft: Draft) -> Pairs:
    """The fields of a form that says this draft."""
    zone = zone_of(draft.time_zone, draft.dialect)
    pairs = [*_rows("s", source_rows(draft.sources)), *_rows("x", except_rows(draft.excepted))]
    pairs += [("zone", draft.time_zone or ""), ("dialect", draft.dialect or "")]
    pairs += [(name, local_text(text, zone)) for name, text in (("start", draft.start), ("end", draft.end)) if text]
    dst, retry = draft.dst or {}, draft.retry or {}
    pairs += [("jitter", draft.jitter or ""), ("gap", dst.get("gap", "")), ("repeated", dst.get("overlap", ""))]
    pairs += [("function", draft.function), ("args", json_text(draft.args) or "{}")]
    pairs += [(name, str(getattr(draft, name))) for name in ("overlap", "catch_up", "catch_up_window")]
    pairs += [("concurrency_limit", str(draft.concurrency_limit)), ("buffer_limit", str(draft.buffer_limit))]
    pairs += [("run_timeout", draft.run_timeout or "")]
    pairs += [("pause_on_failure", "on")] if draft.pause_on_failure else []
    pairs += [(f"retry.{name}", _plain(value)) for name, value in retry.items()]
    pairs += [("remaining_actions", "" if draft.remaining_actions is None else str(draft.remaining_actions))]
    pairs += [("workflow_id", draft.workflow_id or ""), ("run_id_template", draft.run_id_template or "")]
    return [*pairs, ("note", draft.note), ("memo", json_text(draft.memo))]


def with_rows(prefix: str, rows: Iterable[Mapping[str, str]], pairs: Pairs) -> Pairs:
    """The fields of a form with other rows of one prefix."""
    kept = [(name, value) for name, value in pairs if name != prefix and not name.startswith(f"{prefix}.")]
    return [*_rows(prefix, rows), *kept]


def zone_of(name: str | None, dialect: str | None = None) -> Zone:
    """The zone in which moments of a form are read: UTC if it names none, or none that is known."""
    try:
        return zone_named(name or "UTC", abbreviations=dialect == "temporal")
    except InvalidSpec:
        return zone_named("UTC")


def local_text(instant: str, zone: Zone) -> str:
    """A moment on the wall clock of a zone; with its offset where the wall clock alone would mean another one."""
    at = parse_instant(instant)
    text = format_local(local_of(zone, at)).replace("T", " ").removesuffix(":00")
    if moment_instant(zone, parse_moment(text)) == at:
        return text
    return format_instant(at, zone.offset_at(at))


def json_text(value: Mapping[str, Any]) -> str:
    """An object of JSON for a text area; nothing for an empty one."""
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


def _rows(prefix: str, rows: Iterable[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for number, fields in enumerate(rows):
        yield prefix, str(number)
        for name, value in fields.items():
            values = [each for each in value.split(",") if each] if name in MANY else [value]
            yield from ((f"{prefix}.{number}.{name}", each) for each in values)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
