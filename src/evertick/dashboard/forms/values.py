"""Values in fields of forms: whole numbers and JSON. What is wrong with one is said beside its field."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from evertick.base.errors import EvertickError
from evertick.dashboard.forms.form import Form
from evertick.server.bodies import strict_json
from evertick.server.problems import Problem

DIGITS_MAX: Final = 12
NO_REASON: Final = "Say why, in a few words: it is what others read who find {} paused."


def whole_numbers(form: Form, names: Iterable[str]) -> dict[str, int | None]:
    """Numbers in fields; None for an empty field, which is no limit, and for what is no number."""
    found: dict[str, int | None] = {}
    for name in names:
        text = form[name].replace(",", "")
        is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
        if text and not is_number:
            form.fail(name, f"A whole number, or nothing for no limit, and not {text[:40]!r}.")
        found[name] = int(text) if is_number else None
    return found


def flags_of(limits: Mapping[str, int | None]) -> dict[str, str | None]:
    """Limits as options of the command line."""
    return {name: "none" if value is None else str(value) for name, value in limits.items()}


def json_field(form: Form, name: str) -> Any:
    """The JSON in a field, None for an empty one."""
    if not form[name]:
        return None
    try:
        return strict_json(form[name].encode())
    except Problem as problem:
        form.fail(name, f"This is not JSON: {str(problem.detail).removeprefix('the body is not JSON: ')}")
        return None


def changed_numbers(form: Form, names: Iterable[str], now: object) -> dict[str, int | None]:
    """The whole numbers of a form that differ from those of `now`; without any, that is what is wrong with the form."""
    chosen = whole_numbers(form, names)
    changes = {name: value for name, value in chosen.items() if value != getattr(now, name)}
    if not form.errors and not changes:
        form.fail("", "Nothing is different from what it is now.")
    return changes


async def limits_changed(
    form: Form, names: Iterable[str], now: object, change: Callable[[dict[str, int | None]], Awaitable[object]]
) -> bool:
    """Change limits as a form says; returns whether they were, else what is wrong stands beside its field."""
    changes = changed_numbers(form, names, now)
    if not form.errors:
        try:
            await change(changes)
        except EvertickError as error:
            form.field_of(error, {f"{each}=": each for each in names})
    return not form.errors


def limits_form(names: Iterable[str], now: object) -> Form:
    """A form that shows limits as they are."""
    values = [(each, getattr(now, each)) for each in names]
    return Form([(name, "" if value is None else str(value)) for name, value in values])


def reason_in(form: Form, name: str = "note", *, of: str = "it") -> str:
    """Why something is paused, which has to be said; `of` is `them` for several things."""
    if not form[name]:
        form.fail(name, NO_REASON.format(of))
    return form[name]
