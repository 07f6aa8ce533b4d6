"""Values of attributes as words of command lines and addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.base.records.attributes import Value, from_word, word_of


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
