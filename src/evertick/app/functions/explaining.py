"""What pydantic finds wrong with values, in one line."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic_core import ValidationError

PROBLEMS_MAX: Final = 5
"""Problems of one value that are told."""


def problems_of(error: "ValidationError", whole: str, *, below: int = 0) -> str:
    """What is wrong and where: `items[1].price: input should be a valid number (got 'x' (str))`.

    `whole` names what was checked; places are told from so many steps `below` it.
    """
    return "; ".join(
        f"{_place(item['loc'][below:]) or whole}: {item['msg'][:1].lower()}{item['msg'][1:]}"
        + ("" if item["type"] in ("missing", "extra_forbidden") else f" (got {_short(item['input'])})")
        for item in error.errors(include_url=False)[:PROBLEMS_MAX]
    )


def _place(steps: tuple[str | int, ...]) -> str:
    """Where in a value: `items[1].price`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}… ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"
