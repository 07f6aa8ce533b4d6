"""What the pages show passes `mypy --strict`, so what a reader copies does."""

import re
from pathlib import Path

import pytest
from mypy import api

from tests.docs.pages import ROOT, blocks_of
from tests.docs.test_pages import GUIDE, README

OPTIONS = ("--strict", "--allow-untyped-calls", "--no-error-summary", "--hide-error-context", "--no-pretty")
"""Untyped calls: of what hidden blocks prepare, such as a mail server."""
OWN_MODULE = re.compile(r"^from app import .*$", re.MULTILINE)
"""A page is one module, whatever files its blocks are written to."""
COMPLAINT = re.compile(r"^(?:.*/)?(page_\d+\.py):(\d+): error: (.+)$", re.MULTILINE)
"""The folder is perhaps that of an earlier run: mypy keeps what it has said of the same text."""


@pytest.mark.long
def test_every_example_passes_mypy_in_its_strict_mode(tmp_path: Path) -> None:
    hidden: dict[str, set[int]] = {}
    places: dict[str, str] = {}
    for page in [README, *GUIDE]:
        text, lines = "", set[int]()
        for block in blocks_of(page):
            if block.language == "python":
                text += "\n" * (block.line - 1 - text.count("\n")) + OWN_MODULE.sub("", block.text)
                if is_hidden(page, block.line):
                    lines |= set(range(block.line, block.line + block.text.count("\n") + 1))
        name = f"page_{len(places)}.py"
        (tmp_path / name).write_text(text, encoding="utf-8")
        places[name], hidden[name] = str(page.relative_to(ROOT)), lines

    # In the cache of `make types`, which has looked at all that the pages import.
    output, errors, _ = api.run([*OPTIONS, *(str(tmp_path / name) for name in places)])

    assert errors == ""
    found = COMPLAINT.findall(output)
    complaints = [f"{places[file]}:{line}: {says}" for file, line, says in found if int(line) not in hidden[file]]
    assert not complaints, "\n".join(complaints)


def is_hidden(page: Path, line: int) -> bool:
    """Whether the block that begins in this line is not shown."""
    return page.read_text(encoding="utf-8").splitlines()[line - 2].startswith("<!--")
