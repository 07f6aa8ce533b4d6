"""JSON on the command line: values that are JSON or else text, and what `--json` and `--file` bring."""

import sys
from pathlib import Path
from typing import Any, Final

import click

from evertick.base.errors import EvertickError
from evertick.base.escaping import begins_as_json, reason
from evertick.cli.schedule.flags import parse_json

FILE_MAX: Final = 16 * 1024 * 1024


def json_or_text(text: str, what: str) -> Any:
    """A value of a command line: as JSON if it reads as JSON, else as text.

    Raises UsageError for what begins as an object, a list or a text of JSON and is none: it is one with a mistake.
    """
    try:
        return parse_json(text)
    except EvertickError as error:
        if begins_as_json(text):
            raise click.UsageError(
                f"{what} begins as JSON, but is {error}; a text that begins so is written in double quotes, as JSON"
            ) from None
        return text


def given_json(json_words: str | None, json_file: Path | None, what: str) -> tuple[Any, str] | None:
    """What `--json` or `--file` bring, and which of them did; None if neither is given.

    `what`: what they bring. Raises UsageError.
    """
    if json_words is not None and json_file is not None:
        raise click.UsageError(f"--json and --file both bring {what}; give one")
    text, option = json_words, "--json"
    if json_file is not None:
        option = f"--file {json_file}"
        text = text_of(json_file, option)
    if text is None:
        return None
    try:
        return parse_json(text), option
    except EvertickError as error:
        raise click.UsageError(f"{option}: {error}") from None


def text_of(file: Path, option: str) -> str:
    """The text of a file, or of stdin for `-`. Raises UsageError, which names the `option`."""
    try:
        if str(file) == "-":
            return sys.stdin.read(FILE_MAX)
        if file.stat().st_size > FILE_MAX:
            raise click.UsageError(f"{option}: larger than {FILE_MAX} bytes")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option}: {reason(error)}") from None
