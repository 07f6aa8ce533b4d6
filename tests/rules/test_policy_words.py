"""The words of the policies: every reason has a fate, and the page for users lists them all."""

from pathlib import Path

from evertick.rules.schedules.fates import FATE_OF, Fate, Reason
from evertick.rules.schedules.policies import Overlap

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_every_reason_belongs_to_one_fate() -> None:
    assert set(FATE_OF) == set(Reason)
    assert set(FATE_OF.values()) == set(Fate)


def test_the_page_for_users_lists_every_reason_under_its_fate() -> None:
    table = PAGE.read_text().partition("## All reasons")[2]
    rows = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}

    assert set(rows) == set(Fate)
    for reason, fate in FATE_OF.items():
        assert f"`{reason}`" in rows[fate]


def test_the_page_for_users_has_a_figure_for_every_overlap_policy() -> None:
    page = PAGE.read_text()
    for overlap in Overlap:
        section = page.partition(f"### {overlap}")[2].partition("### ")[0]
        assert "\ntime  1 " in section
