"""An index of the public names, `docs/reference/python.md`: each with the first sentence of its docstring.

Run `python -m tools.public_names` to write it again; a test compares it with the code.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
MODULES: Final = (
    "evertick",
    "evertick.functions",
    "evertick.schedules",
    "evertick.workflows",
    "evertick.scripts",
    "evertick.documents",
    "evertick.recurrence",
    "evertick.client",
    "evertick.errors",
    "evertick.metrics",
    "evertick.integrations.asgi",
    "evertick.integrations.django",
    "evertick.integrations.logs",
    "evertick.integrations.otel",
    "evertick.testing",
)
HEAD: Final = """\
# Python reference

The public modules and their names. Import from these modules only: everything below them may move between releases.
`help(evertick.App)` shows a name with its signature, its methods, and the errors that it raises; `make docs` builds the
pages with all of them.

Names that begin with an underscore are private. Times are aware `datetime` objects and durations are `timedelta`
objects or seconds, unless a parameter's name ends in its unit (`timeout_ms`).
"""


def page() -> str:
    """The page as it should be."""
    return HEAD + "".join(_part(name) for name in MODULES)


def _part(name: str) -> str:
    module = import_module(name)
    rows = [
        f"| `{each}` | {_meaning(getattr(module, each))} |"
        for each in sorted(module.__all__)
        if not each.startswith("_")
    ]
    return "\n".join(
        ["", f"## {name}", "", _first_sentence(module.__doc__ or ""), "", "| name | meaning |", "|---|---|", *rows, ""]
    )


def _meaning(value: Any) -> str:
    """What a name stands for."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return _first_sentence(inspect.getdoc(value) or "")
    if inspect.ismodule(value):
        return _first_sentence(value.__doc__ or "")
    if hasattr(value, "__supertype__"):
        return f"A type of `{value.__supertype__.__name__}`."
    if hasattr(value, "__args__"):
        return "A type: " + ", ".join(f"`{getattr(each, '__name__', each)}`" for each in value.__args__) + "."
    return f"A value of the type `{type(value).__name__}`."


def _first_sentence(text: str) -> str:
    """The first sentence, in one line, fit for a cell of a table."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z0-9`)\"'])[.](?=\s|$)|:(?=\s*$)", paragraph, maxsplit=1)[0]
    return sentence.rstrip(":.").replace("|", "\\|") + "."


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
