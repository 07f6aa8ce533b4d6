"""Pages that explain the source code name files and folders that exist."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT

SOURCE: Final = ROOT / "src" / "evertick"
DOCS: Final = ROOT / "docs"
ARCHITECTURE: Final = sorted((DOCS / "architecture").glob("*.md"))
PAGES: Final = [*ARCHITECTURE, *sorted((DOCS / "decisions").glob("*.md")), DOCS / "dependencies.md"]
_PATH: Final = re.compile(r"`(\w[\w/.-]*(?:\.py|\.sql|/))`")


def paths_of(page: Path) -> set[str]:
    """What the page names as a file or a folder: `engine/worker.py`, `store/sql/`, `tests/simulation/`."""
    return set(_PATH.findall(page.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_on_a_page_exists(page: Path) -> None:
    """A path starts at src/evertick, or at the root of the repository."""
    missing = {path for path in paths_of(page) if not (SOURCE / path).exists() and not (ROOT / path).exists()}

    assert missing == set()


def test_every_module_of_the_lower_layers_is_on_a_page() -> None:
    """A module is on a page if the page names it or a folder above it."""
    named = {path for page in ARCHITECTURE for path in paths_of(page)}

    missing = {
        module
        for layer in ("base", "recurrence", "rules", "sandbox", "store", "engine", "app", "testing")
        for file in (SOURCE / layer).rglob("*.py")
        if file.name != "__init__.py" and (module := file.relative_to(SOURCE).as_posix()) not in named
        if not any(f"{folder.as_posix()}/" in named for folder in Path(module).parents)
    }

    assert missing == set()
