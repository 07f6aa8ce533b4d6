"""The figures in the stories' docstrings, so that a story can hold its figure against what happened."""

import re
from textwrap import dedent


def figure(docstring: str | None, number: int = 0) -> str:
    """A figure of a module's docstring: from a line that begins with `time` to the next empty one, counted from 0."""
    return dedent(re.findall(r"(?m)^ *time .*\n(?:.+\n)*", f"{docstring}\n")[number]).rstrip()
