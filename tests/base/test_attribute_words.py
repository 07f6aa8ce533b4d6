"""Values of attributes as words of command lines and addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.base.errors import Misuse
from evertick.base.records.workflows import Value, from_word, from_words, word_of, words_in, words_of


@given(st.text() | st.booleans() | st.integers(-(10**18), 10**18))
def test_a_word_reads_back_as_the_same_value(value: Value) -> None:
    found = from_word(word_of(value))
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("007", "007"),
        ('"7"', "7"),
        ("true", True),
        ("True", "True"),
        ("", ""),
        ("9" * 5_000, "9" * 5_000),
    ],
)  # fmt: skip
def test_words_have_types(word: str, value: Value) -> None:
    assert from_word(word) == value
    assert type(from_word(word)) is type(value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("customer=ada paid=true", ["customer=ada", "paid=true"]),
        ("  a=1   b=2 ", ["a=1", "b=2"]),
        ("note=to be checked paid=true", ["note=to be checked", "paid=true"]),
        ('note="a b=c" x=1', ['note="a b=c"', "x=1"]),
        ("plan", ["plan"]),
        ("", []),
    ],
)
def test_a_line_of_attributes_is_taken_apart_where_a_name_begins(line: str, words: list[str]) -> None:
    assert words_in(line) == words


def test_attributes_come_back_from_their_line() -> None:
    attributes: dict[str, Value] = {"a": "x y=z", "b": True, "c": "7", "d": " lead", "e": "", "f": 'say "hi"', "g": -4}
    assert from_words(words_in(words_of(attributes))) == attributes


@pytest.mark.parametrize(("words", "why"), [(["plan"], "is name=value"), (["a=1", "a=2"], "is there twice")])
def test_words_that_are_no_attributes_are_refused(words: list[str], why: str) -> None:
    with pytest.raises(Misuse, match=why):
        from_words(words)
