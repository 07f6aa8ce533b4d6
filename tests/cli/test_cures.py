"""Every line for a terminal that a message of the product offers is one that the command line understands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from evertick.base.suggested_commands import commands_of
from tests.dashboard.commands import parse

SOURCE: Final = Path(__file__).parents[2] / "src" / "evertick"
LINE: Final = re.compile(
    r"`(evertick [a-z][^`]*)`"  # in a sentence
    r"|(?:^|: |; then |, or )(evertick [a-z][^`;]*?)(?=$|; then|, or|;|\.$| \()"  # as a cure
)
FILLED: Final = {"whose": " --tenant acme", "tenant_option": " --tenant acme", "option": " --tenant acme"}
"""What stands for tenants; any other value is a word."""
WORDS: Final = {"name.replace": "jobs", "verb": "resume", "field": "jobs", "subject": "jobs"}
NOT_LINES: Final = re.compile(r"evertick (word\b.*|has .*|schedule|run|retry word)")
"""Commands that are named without their arguments, or by a value; a sentence about the program; a key of a call."""


def texts_in(module: ast.Module) -> Iterator[str]:
    """The texts of a module, but for docstrings and parts of others; values in them are replaced by words."""
    left_out = set()
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(each) for each in node.values}
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
    for node in ast.walk(module):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield "".join(_part(each) for each in node.values)


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    value = ast.unparse(node.value)
    for known, text in {**FILLED, **WORDS}.items():
        if value.startswith(known):
            return text
    return "; then " if value == "SEPARATOR" else "word"


def lines_in(source: str) -> list[str]:
    found = [match for text in texts_in(ast.parse(source)) for match in LINE.finditer(text)]
    return [line for match in found if not NOT_LINES.fullmatch(line := match[1] or match[2])]


def found_lines() -> dict[str, list[str]]:
    """The lines of each module in which there are any."""
    texts = {path: path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    found = {str(path.relative_to(SOURCE)): lines_in(text) for path, text in texts.items() if "evertick " in text}
    return {name: lines for name, lines in found.items() if lines}


@pytest.mark.long
def test_the_command_line_understands_what_messages_offer() -> None:
    # One test for all modules: to make one for each, they would have to be parsed whenever tests are collected.
    found = found_lines()
    assert "evertick job cancel-all --function word --tenant acme" in found["app/insight/fleet_doctor.py"]
    assert any(line.startswith("evertick schedule resume") for line in found["app/schedules/explain.py"])
    assert sum(map(len, found.values())) > 40

    refused = []
    for name, lines in found.items():
        for line in lines:
            try:
                parse(line)
            except click.UsageError as error:
                refused.append(f"{name}: {line}: {error.format_message()}")
    assert refused == []


def test_a_cure_names_the_tenant_where_a_command_takes_one() -> None:
    option = " --tenant acme"
    for fix in ("evertick worker", "evertick schedule resume s; then evertick schedule delete s"):
        for line in commands_of(fix, option):
            parse(line)
    assert commands_of("evertick worker", option) == ["evertick worker"]
    assert commands_of("evertick job get j", option) == ["evertick job get j --tenant acme"]
