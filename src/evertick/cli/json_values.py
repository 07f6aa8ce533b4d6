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
    """The value of an argument: parsed as JSON if it is valid JSON, otherwise the text itself.

    Raises UsageError for invalid JSON that begins as an object, a list or a string, because it has a mistake.
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
    """The value of `--json` or `--file`, and the name of that option; None if neither is given.

    `what` is the name of the value in messages. Raises UsageError.
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
    """The text of a file, or of stdin for `-`. Raises UsageError with the name of the `option`."""
    try:
        if str(file) == "-":
            return sys.stdin.read(FILE_MAX)
        if file.stat().st_size > FILE_MAX:
            raise click.UsageError(f"{option}: larger than {FILE_MAX} bytes")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option}: {reason(error)}") from None
