"""Every example of the README and of the guide is run, and does what the page says."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cli.programs import Start, programs_in
from tests.docs.pages import ROOT, blocks_of, run_page
from tests.sampling import one_in

README = ROOT / "README.md"
GUIDE = sorted(page for folder in ("guide", "coming-from") for page in (ROOT / "docs" / folder).glob("*.md"))
OTHERS = [ROOT / "CHANGELOG.md", *sorted({*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[dr]*/*.md")})]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVERTICK_DATABASE_URL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))  # where a page keeps its profiles
    monkeypatch.syspath_prepend(tmp_path)  # the tests of a page import its app.py
    monkeypatch.setitem(sys.modules, "app", None)  # as it was before, once the page has been run
    del sys.modules["app"]
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts programs in the folder."""
    with programs_in(folder) as begin:
        yield begin


@pytest.mark.processes
@pytest.mark.parametrize("page", one_in(3, [README, *GUIDE]), ids=lambda page: page.name)
def test_every_example_of_a_page_does_what_the_page_says(page: Path, folder: Path, start: Start) -> None:
    assert run_page(page, folder, start) > 0


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.postgres
def test_the_tests_of_the_guide_run_on_postgres(
    folder: Path, start: Start, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERTICK_DATABASE_URL", postgres_url)

    assert run_page(ROOT / "docs" / "guide" / "testing.md", folder, start) > 0
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select count(*) from evertick.history where state = 'success'").fetchone() >= (1,)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"messages_01a1fe0d6dda00034d24a0ef882f"', '"notes_01a1fe0d6dda00034d24a0ef882f"'),
        ("internal\n", "public\n"),
        ("✓ app.destruct", "✕ app.destruct"),
        ("assert world.get(message_id) is None", "assert world.get(message_id) is not None"),
    ],
)
def test_a_page_that_says_something_else_is_found_out(folder: Path, start: Start, old: str, new: str) -> None:
    text = README.read_text(encoding="utf-8")
    assert old in text
    page = folder / "page.md"
    page.write_text(text.replace(old, new, 1), encoding="utf-8")

    with pytest.raises(AssertionError):
        run_page(page, folder, start)


def test_the_first_screen_of_the_readme_is_one_screen_and_shows_the_program_and_its_output() -> None:
    screen = README.read_text(encoding="utf-8").split("\n## ")[0].splitlines()

    assert len(screen) <= 40
    assert [block.language for block in blocks_of(README)][:2] == ["python", "console"]


@pytest.mark.parametrize("page", [README, *GUIDE, *OTHERS], ids=lambda page: page.name)
def test_links_inside_the_documentation_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        if "://" in file:
            continue
        linked = page if not file else page.parent / file
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors_of(linked), f"{page.name} links to {target}"


def anchors_of(page: Path) -> set[str]:
    """The anchors that a forge gives the titles of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}
