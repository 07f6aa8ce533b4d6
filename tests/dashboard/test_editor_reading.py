"""Forms of the editor: what a schedule is becomes fields, and the fields become the same again."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from evertick.base.errors import InvalidSpec
from evertick.dashboard.editor.drafts import Draft, differing, merged, patch
from evertick.dashboard.editor.forms import pairs_of, read, source_rows, switched
from evertick.dashboard.editor.session import update_options
from evertick.dashboard.forms.form import Form
from evertick.recurrence.builders import sentence
from evertick.recurrence.spec.spec import Dst, Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import spec_to_wire
from tests.recurrence.authors import specs
from tests.sampling import examples

NOW_S = 1_795_500_000
DEFINITIONS = st.fixed_dictionaries(
    {
        "function": st.just("shop.order"),
        "args": st.sampled_from([{}, {"item": "bread", "n": 2}]),
        "overlap": st.sampled_from(["skip", "buffer_all"]),
        "concurrency_limit": st.integers(1, 9),
        "catch_up_window": st.sampled_from(["10s", "1h30m", "365d"]),
        "pause_on_failure": st.booleans(),
        "retry": st.sampled_from([None, {"attempts": 3, "first": "1s", "factor": 1.5, "cap": "1h", "jitter": 0.25}]),
        "remaining_actions": st.sampled_from([None, 5]),
        "workflow_id": st.sampled_from([None, "stem"]),
        "note": st.sampled_from(["", "a note, with a comma"]),
        "memo": st.sampled_from([{}, {"team": "billing"}]),
    }
)


def posted(draft: Draft) -> Form:
    """The form of a draft as a browser sends it: lines end with CR LF, and ticked boxes come in their order."""
    pairs = [(name, value.replace("\n", "\r\n")) for name, value in pairs_of(draft)]
    return Form(pairs)


def written(spec: Spec) -> Spec:
    """A spec as it is read from its wire form; those that Temporal's rules cannot write are passed over."""
    try:
        return spec_from_wire(spec_to_wire(spec))
    except InvalidSpec:
        reject()


def draft_of(**wire: Any) -> Draft:
    return Draft.of_spec(spec_from_wire(wire))


def form_of(*pairs: tuple[str, str], **fields: str) -> Form:
    return Form([*pairs, *fields.items()])


@examples(100)
@given(specs(), DEFINITIONS)
def test_what_a_schedule_is_comes_back_unchanged_from_its_form(spec: Spec, definition: dict[str, Any]) -> None:
    kept = written(spec)
    draft = Draft.of_spec(kept, **definition)
    form = posted(draft)
    reading = read(form, NOW_S, kept)
    assert not form.errors
    assert differing(draft, reading.draft) == []
    assert reading.spec == (kept if kept.dst != Dst() else replace(kept, dst=None))
    assert patch(draft, reading.draft, kept) == {}
    assert not any(value for value in update_options(draft, reading).values())
    assert Draft.from_json(draft.to_json()) == draft


def test_only_what_was_changed_is_sent() -> None:
    spec = spec_from_wire({"crons": ["0 9 * * 1-5"], "time_zone": "Europe/Berlin", "except": [{"holidays": "DE"}]})
    draft = Draft.of_spec(spec, function="shop.order", args={"item": "x"}, note="n")
    form = posted(draft)
    form.pairs = [(name, "5s" if name == "jitter" else value) for name, value in form.pairs]
    reading = read(form, NOW_S, spec)
    assert differing(draft, reading.draft) == ["jitter"]
    [(name, when)] = patch(draft, reading.draft, spec).items()
    assert name == "when"
    assert when == spec_to_wire(spec) | {"jitter": "5s"}, "the days of the holidays are those that were looked up"
    assert {flag: value for flag, value in update_options(draft, reading).items() if value} == {"jitter": "5s"}


@pytest.mark.parametrize(
    ("rule", "in_builder"),
    [
        ("FREQ=DAILY", True),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", True),
        ("FREQ=MONTHLY;BYDAY=2SU", True),
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", True),
        ("BYMONTH=3,10;FREQ=YEARLY;BYMONTHDAY=-1", True),  # in another order: its text stays as it is
        ("FREQ=DAILY;COUNT=10", True),
        ("FREQ=DAILY;UNTIL=20261231T090000Z", True),
        ("FREQ=WEEKLY;BYDAY=WE,MO", False),  # boxes cannot say that Wednesday comes first
        ("FREQ=MONTHLY;BYDAY=1MO,-1FR", False),
        ("FREQ=YEARLY;BYDAY=20MO", False),
    ],
)
def test_a_rule_opens_in_the_builder_only_if_its_fields_say_the_same(rule: str, in_builder: bool) -> None:
    draft = draft_of(rrules=[{"dtstart": "2026-01-05T09:00:00", "rrule": rule}])
    [row] = source_rows(draft.sources)
    assert (row["kind"], row["mode"]) == ("rrule", "form" if in_builder else "text")
    form = posted(draft)
    assert read(form, NOW_S).draft.sources == draft.sources
    other, why = switched(row)
    assert (why is None) is in_builder
    if in_builder:
        assert other["mode"] == "text"
        assert switched(other) == (row, None)


def test_a_complaint_stands_beside_its_field() -> None:
    form = form_of(
        ("s", "0"), ("s.0.kind", "cron"), ("s.0.cron", "0 25 * * *"),
        ("s", "1"), ("s.1.kind", "sentence"), ("s.1.sentence", "every wekday at 9am"),
        ("s", "2"), ("s.2.kind", "interval"), ("s.2.every", "5x"),
        ("s", "3"), ("s.3.kind", "rrule"), ("s.3.dtstart", "2026-01-05"), ("s.3.month_days", "77"),
        ("s", "4"), ("s.4.kind", "calendar"), ("s.4.minute", "77"),
        ("s", "5"), ("s.5.kind", "rrule"), ("s.5.freq", "DAILY"),
        ("x", "0"), ("x.0.kind", "dates"), ("x.0.dates", "2026-02-30"),
        zone="Europe/Berlim", jitter="45x", start="tomorow", concurrency_limit="many", args="[1]", memo="{",
    )  # fmt: skip
    read(form, NOW_S)
    assert set(form.errors) == {
        "s.0.cron", "s.1.sentence", "s.2.every", "s.3.month_days", "s.4.minute", "s.5.dtstart", "x.0.dates", "zone",
        "jitter", "start", "concurrency_limit", "args", "memo",
    }  # fmt: skip
    assert "did you mean Europe/Berlin" in form.errors["zone"]
    assert "45x" in form.errors["jitter"]
    assert "weekday" in form.errors["s.1.sentence"], "what may have been meant is named"


def test_a_sentence_brings_its_zone_and_exceptions() -> None:
    text = "every weekday at 9am except holidays in New York, New York time"
    row = (("s", "0"), ("s.0.kind", "sentence"), ("s.0.sentence", text))
    offered = form_of(*row, zone="Europe/Berlin", zone_offered="Europe/Berlin")
    reading = read(offered, NOW_S)
    assert not offered.errors
    assert reading.spec == sentence(text)
    assert reading.draft.time_zone == "America/New_York"
    chosen = form_of(*row, zone="Europe/Paris", zone_offered="Europe/Berlin")
    read(chosen, NOW_S)
    assert "America/New_York" in chosen.errors["zone"]


def test_another_editors_members_can_be_taken() -> None:
    mine = Draft(overlap="skip", note="mine", jitter="5s")
    assert merged(mine, Draft(overlap="buffer_all", note="theirs"), ["overlap"]) == Draft(
        overlap="buffer_all", note="mine", jitter="5s"
    )
