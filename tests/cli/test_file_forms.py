"""The YAML and JSON of files of schedules: what is written is read back, each part has its line, tricks are refused."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from evertick.base.escaping import printable
from evertick.cli.schedule.files.forms import Unreadable, json_of, read_json, read_yaml, yaml_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["on", "No", "~", "null", "0o17", "017", "1e3", "1_000", "17:30", "2026-01-01", "<<", "=", "- a", "a: b", "#",
     " x ", "a\n", "\n", "'"]
)  # fmt: skip
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)

DOUBLINGS = "\n".join(["- &a0 [1, 1]", *(f"- &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))])


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    found = read_yaml(yaml_of(value), "f").value
    assert found == value
    assert yaml_of(found) == yaml_of(value)
    assert read_json(json_of(value), "f").value == value


@given(VALUES)
@example(["\u202e", {"\u2066": "a\nb\u200f"}, "\x1b", "\U000e0001", "\ufeff"])
def test_a_terminal_obeys_nothing_of_what_is_written(value: Any) -> None:
    lines = yaml_of(value).split("\n")
    assert [printable(line) for line in lines] == lines


@given(VALUES)
def test_readers_of_older_yaml_read_the_same(value: Any) -> None:
    assert yaml.safe_load(yaml_of(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[on, No, y, 17:30, 2026-01-01, 1_000, 0b1]", ["on", "No", "y", "17:30", "2026-01-01", "1_000", "0b1"]),
        ("[true, False, null, ~, 0x1F, 0o17, 017, -3, 1e3, .5, !!str 5]",
         [True, False, None, None, 31, 15, 17, -3, 1000.0, 0.5, "5"]),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: [*x]",
         {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}, "e": [{"b": 1, "c": 2}]}),
        ("a: {<<: [{b: 1}, {b: 2, c: 3}]}", {"a": {"b": 1, "c": 3}}),
        ("", None),
    ],
)  # fmt: skip
def test_plain_words_are_read_by_the_core_schema(text: str, value: Any) -> None:
    assert read_yaml(text, "f").value == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "f:2: the key 'a' is there twice"),
        ("a: 1\n1: 2", "f:2: a key is text; put it in quotes"),
        ("? [a]\n: 2", "f:1: a key is text; put it in quotes"),
        ("a:\n  - !!python/object/apply:os.system [ls]", "f:2: a value of the kind tag:yaml.org,2002:python/"),
        ("a:\n  !new x", "f:2: a value of the kind !new is not understood"),
        ("a: .inf", "f:1: .inf is not a number of JSON"),
        ("a: " + "9" * 5000, "f:1: a number has too many digits"),
        ("a: {<<: 5}", "f:1: << takes a mapping, or a list of mappings"),
        ("a: [1\nb: 2", "f:2: not YAML: "),
        ("a: 1\n---\nb: 2", "f:2: not YAML: "),
        ("a: \x07", "f:1: not YAML: "),
        ("[" * 101, "f:1: it is more than 100 levels deep"),
        ("[" * 200_000, "f:1: it is more than 100 levels deep"),
        ("- &a [*a]", "f:1: it is more than 100 levels deep"),
        (DOUBLINGS, "it has more than 1,000,000 parts"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_yaml(text, "f")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": [\n{"b": 1},\n{"b": }]}', "f:3: not JSON: Expecting value"),
        ('{"a": 1\n "b": 2}', "f:2: not JSON: ',' is missing"),
        ('{"a"\n 1}', "f:2: not JSON: ':' is missing"),
        ('{"a": [\n{"b": 1, "b": 2}]}', "f:2: not JSON: the member 'b' is there twice"),
        ('{"a": 1,\n"a": 2}', "the member 'a' is there twice"),
        ("{a: 1}", "f:1: not JSON: a member begins with its name in double quotes"),
        ('{"a": [NaN]}', "NaN is not a number of JSON"),
        ('{"a": 1} x', "f:1: not JSON: there is more after the value"),
        ('{"a": [1', "f:1: not JSON: ',' is missing"),
        ("[" * 200_000, "f:1: not JSON: "),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_json(text, "f")
    assert says in str(refused.value)


def test_every_part_has_its_line() -> None:
    text = "schedules:\n- id: a\n  when:\n    crons:\n    - x\n- id: b\n"
    parsed = read_yaml(text, "f")
    places: list[tuple[str | int, ...]] = [
        (),
        ("schedules", 0),
        ("schedules", 0, "when", "crons", 0),
        ("schedules", 1, "x"),
    ]
    assert [parsed.where(place) for place in places] == ["f:1", "f:2", "f:5", "f:6"]
    parsed = read_json('{\n"schedules": [\n{"id": "a",\n"when": 1},\n{}]}', "f")
    places = [("schedules",), ("schedules", 0), ("schedules", 0, "when"), ("schedules", 1, "x")]
    assert [parsed.where(place) for place in places] == ["f:2", "f:3", "f:4", "f:5"]
