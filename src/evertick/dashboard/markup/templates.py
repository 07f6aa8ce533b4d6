"""The environment of the templates: the globals and filters of every template, and how untrusted text gets into HTML.

Every value is escaped for HTML. Control characters and marks that change the text direction are shown as escapes
(`\\u202e`), so that a name cannot look like another one.
"""

import json
import re
from datetime import datetime
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from evertick.base.escaping import finite, printable
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.base.records.workflows import word_of, words_of
from evertick.dashboard.assets import asset
from evertick.dashboard.markup.charts import spark, strip
from evertick.dashboard.markup.commands import command, command_line
from evertick.dashboard.markup.documents import first_fields, linked
from evertick.dashboard.markup.states import (
    REASONS,
    beginning,
    glyph,
    has_begun,
    job_note,
    job_state,
    kind_words,
    last_why,
    outcome_of,
    state,
    unread,
    why_of,
)
from evertick.dashboard.markup.times import lasted, seconds
from evertick.dashboard.markup.tracebacks import trace_of
from evertick.recurrence.parse.duration import format_milliseconds
from evertick.rules.schedules.fates import FATE_OF

SHOWN_CHARS_MAX: Final = 20_000
"""Characters of a text; a longer one is truncated, with a note."""
CLIPPED_CHARS: Final = 300
"""Characters of a text that is shown in full elsewhere."""
CONTROL: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Escape sequences of a terminal, and control characters other than newline and tab."""
MANY: Final = 10_000
"""Larger numbers are not counted exactly."""


@cache
def environment() -> jinja2.Environment:
    """The environment; created once."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("evertick.dashboard"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible,
        auto_reload=False,
    )
    made.globals.update(
        asset=asset, st=state, g=glyph, strip=strip, cli=command_line, command=command, outcome_of=outcome_of,
        reasons=REASONS, fates=FATE_OF, lasted=lasted, seconds=seconds, json_lines=json_lines, json_line=json_line,
        last_why=last_why, why_of=why_of, iso=iso, job_state=job_state, job_note=job_note, has_begun=has_begun,
        unread=unread, beginning=beginning, word_of=word_of, words_of=words_of, spark=spark,
        script_function=SCRIPT_FUNCTION, linked=linked, trace_of=trace_of, first_fields=first_fields, visible=visible,
        every=every, zip=zip,
    )  # fmt: skip
    made.filters.update(
        part=part, many=many, typed=typed, kind=kind_words, unquoted=unquoted, clipped=clipped, capitalise=capitalise,
        action_words=action_words, plain_text=plain_text,
    )  # fmt: skip
    return made


DONE: Final = {
    "backfill": "backfilled", "cancel": "canceled", "create": "created", "delete": "deleted",
    "deprecate": "deprecated", "pause": "paused", "replace": "replaced", "reschedule": "rescheduled",
    "restart": "restarted", "resume": "resumed", "retry": "retried", "revoke": "revoked", "rotate": "rotated",
    "run_now": "ran", "set": "changed", "signal": "signaled", "stop": "stopped", "terminate": "terminated",
    "trigger": "triggered", "update": "updated", "add": "added", "remove": "removed", "run": "ran",
    "join_token": "made a join token for",
}  # fmt: skip
"""The past participle for the verb of an audited action."""


def visible(value: Any) -> Any:
    """The output of a value: text without invisible characters that have an effect; empty for None."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    if len(value) > SHOWN_CHARS_MAX:
        value = f"{value[:SHOWN_CHARS_MAX]}… ({len(value):,} characters)"
    return value if value.isprintable() else "\n".join(map(printable, value.split("\n")))


def plain_text(text: str) -> str:
    """The output of a program without colors, cursor movements and other control characters."""
    return CONTROL.sub("", text.replace("\r\n", "\n")).expandtabs(8)


def every(every_ms: int) -> str:
    """An interval as people type it: `1h30m`."""
    return format_milliseconds(every_ms)


def typed(value: str) -> Markup:
    """The content of a field, exactly as it was typed."""
    return escape(value)


def unquoted(text: str) -> str:
    """JSON for a list of choices; a text without its quotation marks."""
    value = json.loads(text) if text[:1] == '"' else text
    return value if isinstance(value, str) and value.strip() else text


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="", errors="backslashreplace")


def action_words(action: str, number: str = "") -> str:
    """An audited action as text after its actor: `paused` for a schedule, otherwise with the kind, `canceled the job`.

    With a `number`: `created 600 schedules`.
    """
    thing, _, done = action.rpartition(".")
    verb = done.removesuffix("_all")
    past = DONE.get(verb, verb).replace("_", " ")
    what = thing.replace("_", " ").replace(".", " ")
    if number:
        return f"{past} {number} {what}s"
    if thing == "schedule":
        return past
    return f"{past} many {what}s" if verb != done else f"{past} the {what}"


def clipped(text: str, chars: int = CLIPPED_CHARS) -> str:
    """A text in a small space; a longer one is truncated. The full text is behind a link next to it."""
    return text if len(text) <= chars else f"{text[:chars]}…"


def capitalise(text: str) -> str:
    """A sentence that begins with a capital letter, unless its first word is a name."""
    first = text.partition(" ")[0].rstrip(",.:;")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def iso(moment: datetime) -> str:
    """A time in UTC, for programs."""
    return to_iso(from_datetime(moment))


def many(count: int) -> str:
    """A count: `1,204`, or `10,000+`."""
    return f"{MANY:,}+" if count > MANY else f"{count:,}"


def json_line(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(finite(value), ensure_ascii=False)


def json_lines(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(finite(value), ensure_ascii=False, indent=2)
