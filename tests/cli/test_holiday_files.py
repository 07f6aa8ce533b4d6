"""Holidays in files of schedules: a place in the file, the days in the schedule."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from evertick import App, cron
from evertick.recurrence.parse import holidays
from tests.cli.desk import Command, Ended
from tests.cli.test_schedule_files import shop

Apply = Callable[..., Ended]


@pytest.fixture
def app(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """An app on a SQLite file that commands find without an option."""
    monkeypatch.setenv("EVERTICK_DATABASE_URL", f"sqlite:///{tmp_path}/shop.db")
    app = shop()
    app.open()
    yield app
    app.close()


@pytest.fixture
def apply(command: Command, tmp_path: Path) -> Apply:
    """Applies a text as a file."""

    def applied(text: str, *words: str) -> Ended:
        (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
        return command("schedule", "apply", "f.yaml", *words)

    return applied


def test_holidays_are_a_place_in_a_file_and_the_days_of_a_schedule_stay(
    app: App, apply: Apply, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = app.functions.resolve("shop.count")
    place = {"holidays": {"country": "US", "subdivision": "NY"}}
    app.schedules.create("looked up", when=cron("0 8 * * 1-5", tz="America/New_York", except_=place), do=count)
    few = {"holidays": {"country": "DE", "years": [2026, 2027]}}
    app.schedules.create("two years", when=cron("0 8 * * *", except_=few), do=count)
    hand = {"holidays": {"country": "US", "resolved": [["2027-05-03", "our birthday"]], "source": "the office"}}
    app.schedules.create("by hand", when=cron("0 8 * * *", except_=hand), do=count)
    before = {each: app.schedules.get(each) for each in ("looked up", "two years", "by hand")}
    text = command("schedule", "export").out
    assert [each["when"]["except"] for each in yaml.safe_load(text)["schedules"]] == [[hand], [place], [few]]

    monkeypatch.setattr(holidays, "version", lambda package: "999.0")  # another release names other days
    assert apply(text, "--check").code == 0
    moved = text.replace("0 8 * * 1-5", "0 7 * * 1-5")
    assert apply(moved, "--yes").code == 0
    assert app.schedules.get("looked up").spec.excludes == before["looked up"].spec.excludes
    assert app.schedules.get("looked up").spec.crons != before["looked up"].spec.crons
    assert apply(text.replace("subdivision: NY", "subdivision: CA"), "--check").code == 8

    app.schedules.delete_all()
    assert apply(text, "--yes").code == 0
    for name, was in before.items():  # looked up again, for the same place and the same years
        [left], [now] = was.spec.excludes, app.schedules.get(name).spec.excludes
        assert (getattr(now, "resolved", ()), getattr(now, "country", "")) == (left.resolved, left.country)  # type: ignore[union-attr]
