"""What pydantic finds wrong with values, in one line."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, ValidationError

PROBLEMS_MAX: Final = 5
"""Problems of one value that are reported."""


def problems_of(error: "ValidationError", whole: str, *, below: int = 0, unknown: str | None = None) -> str:
    """What is wrong and where: `items[1].price: input should be a valid number (got 'x' (str))`.

    `whole` names what was checked; paths begin that many steps `below` it. `unknown` says what
    is wrong with a name that is not known, in place of pydantic's words.
    """
    return "; ".join(
        f"{_place(item['loc'][below:]) or whole}: {_words(item, unknown)}"
        + ("" if item["type"] in ("missing", "extra_forbidden", "value_error") else f" (got {_short(item['input'])})")
        for item in error.errors(include_url=False)[:PROBLEMS_MAX]
    )


def _words(item: "ErrorDetails", unknown: str | None) -> str:
    if unknown is not None and item["type"] == "extra_forbidden":
        return unknown
    words = item["msg"].removeprefix("Value error, ")
    return f"{words[:1].lower()}{words[1:]}"


def _place(steps: tuple[str | int, ...]) -> str:
    """Where in a value: `items[1].price`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}… ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"
