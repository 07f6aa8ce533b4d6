"""Words of lines that people paste into a shell: each is read as the text that it was made from."""

import subprocess

import pytest

from evertick.base.escaping import schedule_word, shell_word

TEXTS = (
    "plain", "", "two words", "it's", 'a "b"', "$(rm -rf ~)", "`id`", "a\\b", "日本 café", "\x03rm -rf ~\n",
    "\x1b[201~", "tab\there", "\u202elive", "it's \\ \x07 'so'", "\x85\xa0\xad", "\U000e0001",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_shell_reads_a_word_as_the_text_it_was_made_from(text: str) -> None:
    line = f"printf %s {shell_word(text)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode() == text
    assert line.replace("\xa0", " ").isprintable()


def test_the_id_of_a_schedule_is_never_read_as_an_option() -> None:
    assert schedule_word("nightly") == "nightly"
    assert schedule_word("-qstate:active") == "--schedule-id=-qstate:active"
