"""What pydantic finds wrong with values, in one line."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, ValidationError

PROBLEMS_MAX: Final = 5
"""Problems of one value that are reported."""
Unknown = Callable[[tuple[str | int, ...]], str | None]


def problems_of(error: "ValidationError", whole: str, *, below: int = 0, unknown: Unknown = lambda _: None) -> str:
    """The errors that pydantic found, in one line: `items[1].price: input should be a valid number (got 'x' (str))`.

    `whole` describes the checked value. Each path is shown without its first `below` steps. `unknown` returns the error
    text for an unknown name at a path; if it returns None, pydantic's text is used.
    """
    return "; ".join(
        f"{_place(item['loc'][below:]) or whole}: {_words(item, unknown, below)}"
        + ("" if item["type"] in ("missing", "extra_forbidden", "value_error") else f" (got {_short(item['input'])})")
        for item in error.errors(include_url=False)[:PROBLEMS_MAX]
    )


def _words(item: "ErrorDetails", unknown: Unknown, below: int) -> str:
    if item["type"] == "extra_forbidden" and (found := unknown(item["loc"][below:])) is not None:
        return found
    words = item["msg"].removeprefix("Value error, ")
    return f"{words[:1].lower()}{words[1:]}"


def _place(steps: tuple[str | int, ...]) -> str:
    """Where in a value: `items[1].price`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}… ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"
