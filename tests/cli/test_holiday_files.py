"""Holidays in files of schedules: a place in the file, the days in the schedule."""

import pytest
import yaml

from evertick import App, cron
from evertick.recurrence.parse import holidays
from tests.cli.desk import Command
from tests.cli.test_schedule_files import Apply, apply, one

__all__ = ["apply", "one"]


@pytest.mark.long
def test_holidays_are_a_place_in_a_file_and_the_days_of_a_schedule_stay(
    one: App, apply: Apply, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = one.functions.resolve("shop.count")
    place = {"holidays": {"country": "US", "subdivision": "NY"}}
    one.schedules.create("looked up", when=cron("0 8 * * 1-5", tz="America/New_York", exclude=place), do=count)
    few = {"holidays": {"country": "DE", "years": [2026, 2027]}}
    one.schedules.create("two years", when=cron("0 8 * * *", exclude=few), do=count)
    hand = {"holidays": {"country": "US", "resolved": [["2027-05-03", "our birthday"]], "source": "the office"}}
    one.schedules.create("by hand", when=cron("0 8 * * *", exclude=hand), do=count)
    before = {each: one.schedules.get(each) for each in ("looked up", "two years", "by hand")}
    text = command("schedule", "export").out
    assert [each["when"]["except"] for each in yaml.safe_load(text)["schedules"]] == [[hand], [place], [few]]

    monkeypatch.setattr(holidays, "version", lambda package: "999.0")  # another release names other days
    assert apply(text, "--check").code == 0
    moved = text.replace("0 8 * * 1-5", "0 7 * * 1-5")
    assert apply(moved, "--yes").code == 0
    assert one.schedules.get("looked up").spec.excludes == before["looked up"].spec.excludes
    assert one.schedules.get("looked up").spec.crons != before["looked up"].spec.crons
    assert apply(text.replace("subdivision: NY", "subdivision: CA"), "--check").code == 8

    one.schedules.delete_all()
    assert apply(text, "--yes").code == 0
    for name, was in before.items():  # looked up again, for the same place and the same years
        [left], [now] = was.spec.excludes, one.schedules.get(name).spec.excludes
        assert (getattr(now, "resolved", ()), getattr(now, "country", "")) == (left.resolved, left.country)  # type: ignore[union-attr]
