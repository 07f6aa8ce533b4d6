"""The pages on which schedules are made and changed: with real data, on both databases, without script."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag

from evertick import calendar, cron, every
from evertick.base.escaping import json_fault
from evertick.cli.root import run
from evertick.dashboard.editor.drafts import Draft, differing
from tests.dashboard.commands import soup_of
from tests.dashboard.conftest import Site, text_of
from tests.dashboard.fields import fields_sent
from tests.sampling import one_in
from tests.server.conftest import order_of


def fields_of(page: BeautifulSoup, **changes: Any) -> dict[str, list[str]]:
    """What a browser would send of the editor's form; `changes` are typed before, by the name with `__` for dots."""
    form = page.find("form", id="editor")
    assert isinstance(form, Tag)
    found = fields_sent(form)
    for name, value in changes.items():
        found[name.replace("__", ".")] = value if isinstance(value, list) else [value]
    return found


def line_of(page: BeautifulSoup) -> str:
    """The command that does the same."""
    code = page.select_one("#savebar .cli code")
    assert code is not None
    return code.get_text()


def page_of(reply: Any) -> BeautifulSoup:
    return soup_of(reply.text)


@pytest.fixture
def report(site: Site) -> Iterator[str]:
    """A schedule with a bit of everything."""
    site.app.schedules.create(
        "report", when=[cron("0 8 * * 1-5", tz="Europe/Berlin"), calendar(hour=12, day=1, tz="Europe/Berlin")],
        do=order_of(site.app), exclude=[{"holidays": {"country": "DE"}}], overlap="buffer_one", note="the monthly one",
    )  # fmt: skip
    yield "report"


def test_a_schedule_is_created_as_the_form_and_its_command_say(site: Site) -> None:
    empty = site.page("new-schedule?function=shop.order&tz=Europe/Berlin")
    assert "Write when it is to fire" in text_of(empty)
    typed = fields_of(
        empty, id="mine", s__0__cron="0 9 * * 1-5", **{"a.item": "bread"}, overlap="buffer_all", jitter="90s",
        catch_up_window="2h", retry__attempts="3", retry__first="2s", note="it's mine", memo='{"team": "x"}',
    )  # fmt: skip
    shown = page_of(site.send("new-schedule/preview", status=200, **typed))
    words = text_of(shown.select_one("#preview") or shown)
    assert "at 09:00 on weekdays" in words and "Europe/Berlin" in words
    assert not site.app.schedules.list().schedules, "a preview creates nothing"
    made = site.send("new-schedule", **typed, do="save")
    assert made.headers["location"] == "/t/default/schedules/mine"
    by_form = Draft.of(site.app.schedules.get("mine"))
    assert by_form.catch_up_window == "2h" and by_form.retry is not None and by_form.retry["attempts"] == 3

    line = line_of(shown).replace("create mine", "create other")
    assert run([*shlex.split(line)[1:], "--db", str(site.app.environment.store.url)]) == 0
    assert differing(by_form, Draft.of(site.app.schedules.get("other"))) == []


@pytest.mark.long
def test_bad_input_comes_back_with_its_complaint(site: Site) -> None:
    typed = fields_of(site.page("new-schedule"), s__0__cron="0 25 * * *", jitter="45x", function="shop.order")
    back = page_of(site.send("new-schedule", status=422, **typed, do="save"))
    assert "Enter an id" in text_of(back.find(id="f-id-e") or back)
    assert "hour" in text_of(back.find(id="f-s.0.cron-e") or back)
    assert "'45x' is not a duration" in text_of(back.find(id="f-jitter-e") or back)
    jitter = back.find(id="f-jitter")
    assert isinstance(jitter, Tag) and jitter["value"] == "45x" and jitter["aria-invalid"] == "true"
    lacking = fields_of(site.page("new-schedule"), id="x", s__0__cron="0 9 * * *", function="shop.order")
    assert "required" in text_of(
        page_of(site.send("new-schedule", status=422, **lacking, do="save")).find(id="f-a.item-e")
    )  # type: ignore[arg-type]
    never = fields_of(site.page("new-schedule"), id="x", s__0__cron="0 9 31 2 *", function="shop.order")
    assert "never fires" in text_of(page_of(site.send("new-schedule", status=422, **never, do="save")))
    site.app.schedules.create("taken", when=every(hours=1), do=order_of(site.app))
    twice = lacking | {"id": ["taken"], "args": ['{"item": "x"}']}
    assert "taken" in text_of(page_of(site.send("new-schedule", status=422, **twice, do="save")).find(id="f-id-e"))  # type: ignore[arg-type]


@pytest.mark.long
def test_rows_are_added_and_removed_without_script(site: Site) -> None:
    typed = fields_of(site.page("new-schedule"), s__0__cron="0 9 * * *")
    two = page_of(site.send("new-schedule", status=200, **typed, do="add:s"))
    assert len(two.select("input[name=s]")) == 2
    typed = fields_of(two, s__1__kind="rrule", s__1__dtstart="2026-01-05T09:00", s__1__freq="MONTHLY")
    typed |= {"s.1.weekdays": ["MO"], "s.1.ordinal": ["2"]}
    as_text = page_of(site.send("new-schedule", status=200, **typed, do="rule:s.1"))
    area = as_text.find(id="f-s.1.lines")
    assert isinstance(area, Tag) and "RRULE:FREQ=MONTHLY;BYDAY=2MO" in area.get_text()
    again = page_of(site.send("new-schedule", status=200, **fields_of(as_text), do="rule:s.1"))
    assert again.find(id="f-s.1.freq") is not None
    one = page_of(site.send("new-schedule", status=200, **fields_of(again), do="remove:s.0"))
    assert len(one.select("input[name=s]")) == 1
    assert "second Monday" in text_of(one.select_one("#preview") or one)
    excepted = page_of(site.send("new-schedule", status=200, **fields_of(one), do="add:x"))
    assert excepted.find(id="f-x.0.dates") is not None


def test_only_what_was_changed_is_saved(site: Site, report: str) -> None:
    before = site.app.schedules.get(report)
    page = site.page("schedules/report/edit")
    assert "Nothing changed yet" in text_of(page)
    shown = page_of(site.send("schedules/report/edit/preview", status=200, **fields_of(page, jitter="5s")))
    assert "Changes: Jitter" in text_of(shown)
    assert line_of(shown) == "evertick schedule update report --jitter 5s --if-version 1"
    site.send("schedules/report/edit", **fields_of(page, jitter="5s"), do="save")
    after = site.app.schedules.get(report)
    assert differing(Draft.of(before), Draft.of(after)) == ["jitter"]
    assert after.spec.excludes == before.spec.excludes, "the days of holidays were looked up once"
    nothing = site.send("schedules/report/edit", **fields_of(site.page("schedules/report/edit")), do="save")
    assert "Nothing%20was%20changed" in nothing.headers["set-cookie"]
    assert site.app.schedules.get(report).version == 2


@pytest.mark.parametrize(
    "changes",
    one_in(3, [
        {"jitter": "5s", "zone": "Asia/Kathmandu"},
        {"s__0__cron": "0 9 * * *", "note": "", "overlap": "allow_all"},
        {"start": "2027-01-01 00:00", "end": "2028-01-01", "catch_up": "latest", "concurrency_limit": "3"},
        {"gap": "skip", "pause_on_failure": "on", "buffer_limit": "7", "remaining_actions": "9"},
        {"retry__attempts": "4", "retry__cap": "1h", "workflow_id": "stem", "memo": '{"a": [1, "it\'s"]}'},
        {"s__0__kind": "sentence", "s__0__sentence": "every Monday at 9am, except 24 December 2026"},
        {"s__0__kind": "interval", "s__0__every": "5h", "s__0__offset": "15m", "a.item": "y", "a.n": "2"},
        {"s__0__kind": "moments", "s__0__moments": "2027-01-01 09:00\n2027-02-01 09:00"},
        {"s__0__kind": "interval", "s__0__every": "1d", "s__0__anchor": "at", "s__0__anchor_at": "2026-01-05T09:00Z"},
        {"x__0__kind": "dates", "x__0__dates": "2026-12-24, 2026-12-31", "run_id_template": "r-{nominal}"},
    ]),
)  # fmt: skip
def test_the_command_makes_of_a_schedule_what_the_form_makes(
    site: Site, report: str, changes: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = site.app.schedules.get(report)
    site.app.schedules.create("twin", when=found.spec, do=order_of(site.app), overlap="buffer_one", note=found.note)
    typed = fields_of(site.page("schedules/report/edit"), **changes)
    line = line_of(page_of(site.send("schedules/report/edit/preview", status=200, **typed)))
    site.send("schedules/report/edit", **typed, do="save")
    words = shlex.split(line.replace("update report", "update twin"))[1:]
    assert run([*words, "--db", str(site.app.environment.store.url)]) == 0, capsys.readouterr().err
    assert differing(Draft.of(site.app.schedules.get(report)), Draft.of(site.app.schedules.get("twin"))) == []


def test_two_editors_at_once_decide_what_holds(site: Site, report: str) -> None:
    mine = fields_of(site.page("schedules/report/edit"), jitter="5s", note="mine", overlap="skip")
    site.app.schedules.update("report", note="theirs", concurrency_limit=4)
    told = page_of(site.send("schedules/report/edit", status=409, **mine, do="save"))
    words = text_of(told.find(id="conflict") or told)
    assert "Changed meanwhile" in words and "theirs" in words and "Runs at a time" in words
    assert "Jitter" not in words, "only what the other one changed is to be decided"
    note = told.find(id="f-note")
    assert isinstance(note, Tag) and note["value"] == "mine", "what was typed stays"
    assert site.app.schedules.get(report).version == 2

    decided = fields_of(told)
    assert decided["take.note"] == ["mine"] and decided["take.concurrency_limit"] == ["theirs"]
    site.send("schedules/report/edit", **decided, do="save")
    after = site.app.schedules.get(report)
    assert (after.version, after.note, after.policies.concurrency_limit, after.policies.overlap) == (
        3,
        "mine",
        4,
        "skip",
    )
    assert after.spec.jitter_ms == 5_000


def test_what_another_editor_changed_alike_is_no_conflict(site: Site, report: str) -> None:
    mine = fields_of(site.page("schedules/report/edit"), note="the same", jitter="5s")
    site.app.schedules.update("report", note="the same")
    site.send("schedules/report/edit", **mine, do="save")
    after = site.app.schedules.get(report)
    assert (after.version, after.note, after.spec.jitter_ms) == (3, "the same", 5_000)


@pytest.mark.long
def test_the_times_before_stand_beside_those_after(site: Site, report: str) -> None:
    typed = fields_of(site.page("schedules/report/edit?tz=Asia/Kathmandu"), s__0__cron="0 9 * * 1-5")
    words = text_of(page_of(site.send("schedules/report/edit/preview", status=200, **typed)).select_one("#preview"))  # type: ignore[arg-type]
    assert "new" in words and "gone" in words and "clocks go" in words
    same = site.send("schedules/report/edit/preview", status=200, **fields_of(site.page("schedules/report/edit")))
    assert "same" not in text_of(page_of(same).select_one("#preview"))  # type: ignore[arg-type]


def test_a_cron_of_code_says_where_it_is_declared(site: Site) -> None:
    app = site.app
    app.crons.add("nightly", cron("0 3 * * *"), app.functions.resolve("shop.order"), item="x")
    app.sync_crons()
    words = text_of(site.page("schedules/nightly/edit"))
    assert "declared in" in words and "test_editor.py:" in words
    copy = site.page("new-schedule?from=nightly")
    assert fields_of(copy)["id"] == ["nightly-copy"]
    typed = fields_of(copy, base="{}")
    assert site.request("POST", "schedules/nightly/edit", data={**typed, "do": "save"}).status_code == 422


def test_readers_may_not_edit(site: Site, report: str) -> None:
    reader = site.by("read")
    assert "may not do this" in text_of(reader.page("new-schedule", status=403))
    typed = fields_of(site.page("schedules/report/edit"))
    assert reader.send("schedules/report/edit", status=403, **typed, do="save")
    assert reader.send("schedules/report/edit/preview", status=403, **typed)


def test_a_schedule_may_be_called_new(site: Site) -> None:
    typed = fields_of(site.page("new-schedule?function=shop.order"), id="new", s__0__cron="0 9 * * *")
    made = site.send("new-schedule", **typed | {"a.item": "x", "do": "save"})
    assert made.headers["location"] == "/t/default/schedules/new"
    assert "Edit" in text_of(site.page("schedules/new")) and "0 9 * * *" in text_of(site.page("schedules/new"))
    assert site.page("schedules/new/edit").find(id="editor") is not None


def test_what_is_wrong_with_json_is_said_plainly(site: Site) -> None:
    typed = fields_of(site.page("new-schedule"), id="x", s__0__cron="0 9 * * *", function="shop.order")
    back = page_of(site.send("new-schedule", status=422, **typed | {"memo": '{"team": "a"\n "b": 1}', "do": "save"}))
    complaint = back.find(id="f-memo-e")
    assert complaint is not None
    assert "line 2, column 2: a comma is expected, or the end of the list or object" in text_of(str(complaint))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'a': 1}", "line 1, column 2: a name in double quotes is expected"),
        ('{"a" 1}', "line 1, column 6: a colon is expected after the name"),
        ('{"a": }', "line 1, column 7: a value is expected"),
        ("[1] 2", "line 1, column 5: there is more after the end of the value"),
        ('["a', "line 1, column 2: the text that begins here has no closing quote"),
        ('["a\n"]', "line 1, column 4: a line break or tab in a text is written \\n or \\t"),
        (r'["\d"]', "a backslash in a text is written twice"),
        (r'["\u12"]', "four hexadecimal digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_each_fault_of_a_json_text_has_plain_words(text: str, words: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as raised:
        json.loads(text)
    assert words in json_fault(raised.value)


@pytest.mark.long
def test_the_arguments_are_fields_of_the_function(site: Site, report: str) -> None:
    shown = site.page("schedules/report/edit")
    item = shown.find(id="f-a.item")
    assert isinstance(item, Tag) and item.get_text().strip() == "x" and shown.find(id="f-args") is None
    typed = fields_of(shown, **{"a.n": "many"})
    back = page_of(site.send("schedules/report/edit", status=422, **typed, do="save"))
    assert "integer" in text_of(back.find(id="f-a.n-e") or back)
    assert back.find(id="f-a.n")["value"] == "many"  # type: ignore[index]
    as_json = page_of(site.send("schedules/report/edit", status=200, **fields_of(shown), args_switch="json"))
    assert json.loads(as_json.find(id="f-args").get_text()) == {"item": "x"}  # type: ignore[union-attr]
    other = fields_of(shown, function="shop.fail")
    other_fields = page_of(site.send("schedules/report/edit", status=200, **other, do="preview"))
    assert other_fields.find(id="f-a.how") is not None and other_fields.find(id="f-a.item") is None
    unknown = fields_of(shown, function="elsewhere.report")
    assert (
        page_of(site.send("schedules/report/edit", status=200, **unknown, do="preview")).find(id="f-args") is not None
    )
    site.send("schedules/report/edit", **fields_of(shown, **{"a.item": "tea"}), do="save")
    assert site.app.schedules.get("report").target.args == {"item": "tea"}


def test_arguments_that_no_field_can_say_stay_json(site: Site) -> None:
    call = site.app.functions.resolve("shop.order")
    site.app.schedules.create("s", when=every(hours=1), do=call.with_args(item="two\u2028lines"))  # type: ignore[attr-defined]
    shown = site.page("schedules/s/edit")
    assert json.loads(shown.find(id="f-args").get_text()) == {"item": "two\u2028lines"}  # type: ignore[union-attr]
    assert "Nothing changed yet" in text_of(shown)


def test_a_function_is_not_valid_while_what_it_needs_is_empty(site: Site) -> None:
    """The form says so without a complaint: nothing was typed yet."""
    new = fields_of(site.page("new-schedule"), function="shop.order")
    shown = page_of(site.send("new-schedule/preview", status=200, **new))
    said = shown.find(id="args-now")
    assert isinstance(said, Tag) and text_of(said).startswith("1 argument is needed by shop.order(item: str")
    assert said.select(".failed, .ok") == [] and shown.select("#arguments [aria-invalid]") == []
    for changes, words in (
        ({"a.item": "tea"}, "valid against"),
        ({"args_as": "json", "args": ""}, "arguments are needed by"),
    ):
        shown = page_of(site.send("new-schedule/preview", status=200, **new | changes))
        assert words in text_of(shown.find(id="args-now"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ({"s.0.kind": "cron"}, "Write a cron line, such as 0 9 * * 1-5"),
        ({"s.0.kind": "interval"}, "Write how often, such as 5h or 15m"),
        ({"s.0.kind": "interval", "s.0.every": "5h", "s.0.anchor": "at"}, "Write the time from which intervals count"),
        ({"s.0.kind": "calendar"}, "Fill in at least one field of the calendar"),
        ({"s.0.kind": "rrule", "s.0.freq": "WEEKLY"}, "Write the first time of the rule"),
        ({"s.0.kind": "rrule", "s.0.mode": "text"}, "Write the lines of a rule"),
        ({"s.0.kind": "sentence"}, "Write a sentence"),
        ({"s.0.kind": "moments"}, "Write one time per line"),
        ({"s.0.cron": "0 9 * * *", "x": "0", "x.0.kind": "dates"}, "No times yet: "),
        ({"s.0.cron": "0 9 * * *", "x": "0", "x.0.kind": "range"}, "No times yet: "),
        ({"s.0.cron": "0 9 * * *", "x": "0", "x.0.kind": "holidays"}, "No times yet: "),
        ({"s.0.cron": "0 9 * * *", "x": "0", "x.0.kind": "cron"}, "No times yet: "),
        ({"s.0.cron": "0 9 * * *", "start": "2026-06-02", "end": "2026-06-01"}, "end"),
        ({"s.0.cron": "0 9 * * *", "zone": "Europe/Berlim"}, "Correct what is marked"),
        ({"s.0.cron": "0 9 30 2 *"}, "never fires: no moment matches it"),
    ],
)
def test_a_preview_without_times_says_why(site: Site, typed: dict[str, str], why: str) -> None:
    """Also while a field is empty, of which the form itself says nothing yet."""
    fields = fields_of(site.page("new-schedule")) | {name: [value] for name, value in typed.items()}
    shown = page_of(site.send("new-schedule/preview", status=200, **fields))
    assert why in text_of(shown.select_one("#preview") or shown)


def test_every_complaint_of_the_editor_is_shown_with_the_button(site: Site) -> None:
    """Whatever is missing, options are checked, and each complaint leads to its field."""
    fields = fields_of(site.page("new-schedule"), id="x", s__0__cron="0 9 * * *", concurrency_limit="0", memo="{")
    back = page_of(site.send("new-schedule", status=422, **fields, do="save"))
    bar = back.select_one("#savebar")
    assert bar is not None
    assert {str(each["href"]) for each in bar.select(".st.failed a")} >= {"#f-concurrency_limit", "#f-memo"}
    assert "Choose a function" in text_of(bar)


@pytest.mark.long
def test_what_catch_up_means_follows_the_overlap_policy(site: Site) -> None:
    fields = fields_of(site.page("new-schedule"), s__0__cron="0 9 * * *", overlap="skip")
    words = {}
    for overlap in ("skip", "buffer_all"):
        shown = page_of(site.send("new-schedule/preview", status=200, **fields | {"overlap": [overlap]}))
        words[overlap] = text_of(shown.find(id="catch-up-all") or shown)
    assert "only the oldest starts" in words["skip"]
    assert "Every time inside the window runs" in words["buffer_all"]
