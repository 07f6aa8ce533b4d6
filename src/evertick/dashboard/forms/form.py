"""The contents of a form, and its errors."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from evertick.app.transacting import Work
from evertick.base.errors import EvertickError, InvalidSpec, Unavailable
from evertick.base.ids import TenantId
from evertick.base.instants import MINUTE_MS, SECOND_MS, Instant, from_datetime, to_datetime, to_iso
from evertick.base.records.jobs import Call
from evertick.base.suggested_commands import did_you_mean
from evertick.dashboard.markup.times import Times
from evertick.recurrence.parse.duration import format_duration, parse_milliseconds
from evertick.recurrence.parse.moments import typed_moment
from evertick.recurrence.zones.zones import Edge
from evertick.server.bodies import strict_json
from evertick.server.problems import Problem, has_own_words
from evertick.store.transaction.transaction import Transaction

_NAMES: Final = """
after all args args_as args_switch argument_bytes arguments at at_a_time attribute attributes base body buffer_limit
builtin catch_up catch_up_window choose command concurrency_limit confirmed cpu_ms cpu_s_per_hour cron dialect do does
end error event every expires force from from_now function gap host_calls hosts how id input interval_ms jitter jobs key
keys language list log_bytes memo memory_bytes message method more name next not_retried note occurrence of overlap
parameters params pause_on_failure paused per_key per_tenant plans progress q query reads remaining_actions repeated
request rerun result_bytes revision roots row rrule run_id_template run_timeout running runs_per_hour s schedule
schedules scope script scripts shared shown since source source_bytes speed start starts_per_minute state step
take_version tenant text times token trigger typed tz until url username value version wall_ms when which workflow
workflow_id writes x zone zone_offered
"""
FIELDS: Final = frozenset(_NAMES.split())
"""The fields of all forms, by name."""
_NUMBERED: Final = re.compile(r"a\..+|[sx]\.[0-9]+\.[a-z_]+|take\.[a-z_]+|retry\.[a-z]+", re.DOTALL)
"""Fields with a number or name: of an argument, a row of times, a conflict and a retry policy."""


def reason_of(error: Exception) -> str:
    """The message of an error about what was typed.

    Raises the error again if it is an outage of the database: what was typed is then not wrong, and its message is for
    those who run the server, such as the path of a file.
    """
    if isinstance(error, Unavailable) and not has_own_words(error):
        raise error
    return str(error)


class Form:
    """The fields of a form, and their errors."""

    def __init__(self, pairs: list[tuple[str, str]] | None = None) -> None:
        self.pairs = pairs or []
        self.errors: dict[str, str] = {}
        """The errors, by field; under `""` those about the whole form."""

    @property
    def unknown(self) -> str | None:
        """The error for the first unknown field; None if there is none."""
        for name, _ in self.pairs:
            if name not in FIELDS and not _NUMBERED.fullmatch(name):
                return f"no form has a field {name[:60]!r}; {did_you_mean(name[:60], FIELDS)}nothing was done"
        return None

    def __getitem__(self, name: str) -> str:
        """The text in a field; empty if the field is absent."""
        return next((value for key, value in self.pairs if key == name), "").strip()

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for key, value in self.pairs if key == name]

    def given(self, name: str) -> str | None:
        """The text in a field; None if it is empty or absent."""
        return self[name] or None

    def fail(self, name: str, why: str) -> None:
        """Record an error of a field; only the first error of a field is kept."""
        self.errors.setdefault(name, why)

    def error(self, name: str) -> str | None:
        """The error of a field; None if there is none."""
        return self.errors.get(name)

    def field_of(self, error: Exception, fields: Mapping[str, str], otherwise: str = "") -> None:
        """Record an error at the field that its message contains; `fields` maps words to fields.

        Raises an outage of the database again, as `reason_of` does.
        """
        words = reason_of(error)
        name = next((field for word, field in fields.items() if word in words[:120]), otherwise)
        self.fail(name, words)


# -- Forms that are sent twice: the second request gets the reply of the first.
#
# This applies for a minute, in which people press a button again. Actions that must never happen twice also have the
# form's key in the API (`Caller.once`). This is for all others, whose second reply would be that nothing is left to do.

KIND: Final = "form"


class SentBefore(Problem):
    """The form was carried out before: `to` is the page it led to, with the message `said`."""

    def __init__(self, to: str, said: str) -> None:
        super().__init__(409, "sent_before", "this form was already sent and carried out")
        self.to = to
        self.said = said


def checked_new(key: str, tenant: TenantId, now: Instant) -> Work[None]:
    """Work that raises SentBefore if the same form was carried out within the last minute."""

    def work(transaction: Transaction) -> None:
        known = transaction.find_call(f"{KIND} {key}", tenant=tenant)
        if known is not None:
            at, to, said = json.loads(known.result)
            if now - at < MINUTE_MS:
                raise SentBefore(to, said)

    return work


def kept_reply(key: str, tenant: TenantId, now: Instant, to: str, said: str) -> Work[None]:
    """Work that records that a form was carried out, and the page it led to."""
    key = f"{KIND} {key}"

    def work(transaction: Transaction) -> None:
        if transaction.find_call(key, tenant=tenant) is None:
            transaction.save_call(key, Call(KIND, key, json.dumps([now, to, said])), tenant=tenant, now=now)

    return work


# -- Values in fields of forms: whole numbers and JSON. Errors are stored at the field.

DIGITS_MAX: Final = 12
NO_REASON: Final = "Give a short reason: others who find {} paused read it."


def whole_numbers(form: Form, names: Iterable[str]) -> dict[str, int | None]:
    """Numbers in fields; None for an empty field, which means no limit, and for an invalid one."""
    found: dict[str, int | None] = {}
    for name in names:
        text = form[name].replace(",", "")
        is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
        if text and not is_number:
            form.fail(name, f"Enter a whole number, or nothing for no limit, not {text[:40]!r}.")
        found[name] = int(text) if is_number else None
    return found


def flags_of(limits: Mapping[str, int | None]) -> dict[str, str | None]:
    """Limits as options of the command line."""
    return {name: "none" if value is None else str(value) for name, value in limits.items()}


def json_field(form: Form, name: str) -> Any:
    """The JSON value in a field; None for an empty field."""
    if not form[name]:
        return None
    try:
        return strict_json(form[name].encode())
    except Problem as problem:
        form.fail(name, f"This is not JSON: {str(problem.detail).removeprefix('the body is not JSON: ')}")
        return None


def changed_numbers(form: Form, names: Iterable[str], now: object) -> dict[str, int | None]:
    """The whole numbers of a form that differ from those of `now`; if none differs, that is an error of the form."""
    chosen = whole_numbers(form, names)
    changes = {name: value for name, value in chosen.items() if value != getattr(now, name)}
    if not form.errors and not changes:
        form.fail("", "Nothing has changed.")
    return changes


async def limits_changed(
    form: Form, names: Iterable[str], now: object, change: Callable[[dict[str, int | None]], Awaitable[object]]
) -> bool:
    """Change limits as given in a form; returns whether they were changed. If not, errors are stored at the fields."""
    changes = changed_numbers(form, names, now)
    if not form.errors:
        try:
            await change(changes)
        except EvertickError as error:
            form.field_of(error, {f"{each}=": each for each in names})
    return not form.errors


def limits_form(names: Iterable[str], now: object) -> Form:
    """A form with the current limits."""
    values = [(each, getattr(now, each)) for each in names]
    return Form([(name, "" if value is None else str(value)) for name, value in values])


def reason_in(form: Form, name: str = "note", *, of: str = "it") -> str:
    """The reason for a pause, which is required; `of` is `them` for several things."""
    if not form[name]:
        form.fail(name, NO_REASON.format(of))
    return form[name]


# -- Times and durations as people type them into a form.


def moment_in(form: Form, name: str, times: Times, edge: Edge = "first") -> datetime | None:
    """The time typed into a field, in the zone of the page's `times` unless it has an offset.

    None if the field is empty, or if it is invalid, with the error stored at the field.
    """
    text = form[name]
    if not text:
        return None
    try:
        return moment_of(text, times, edge)
    except (InvalidSpec, OverflowError) as error:
        form.fail(name, str(error))
        return None


def moment_of(text: str, times: Times, edge: Edge = "first") -> datetime:
    """The time in a text; see `typed_moment`. Raises InvalidSpec, OverflowError."""
    return to_datetime(Instant(typed_moment(text, "the time", times.zone, times.now // SECOND_MS, edge) * SECOND_MS))


def duration_in(form: Form, name: str) -> timedelta | None:
    """The duration typed into a field, such as `1h30m` or 90 (seconds); None as in `moment_in`."""
    text = form[name]
    if not text:
        return None
    try:
        return timedelta(milliseconds=parse_milliseconds(f"{text}s" if text.isdecimal() else text))
    except (InvalidSpec, OverflowError) as error:
        form.fail(name, str(error))
        return None


def said_moment(moment: datetime | None) -> str | None:
    """A time for the command line, which does not know the page's zone; None for None."""
    return None if moment is None else to_iso(from_datetime(moment))


def said_duration(duration: timedelta | None) -> str | None:
    """A duration for the command line; None for None."""
    if duration is None:
        return None
    seconds, rest = divmod(duration, timedelta(seconds=1))
    return f"{duration // timedelta(milliseconds=1)}ms" if rest else format_duration(seconds)
