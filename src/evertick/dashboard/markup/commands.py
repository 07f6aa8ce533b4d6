"""Commands for the terminal that do the same as a page, to be copied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from evertick.base.escaping import shell_word


def command(*words: str, **options: str | bool | Sequence[str] | None) -> str:
    """A line of `evertick`, quoted for a shell.

    Options that are None or False are omitted, an option that is True has no value, and one with several values is
    repeated. Words from the first one with a leading dash on come last, after `--`: a schedule with the id

    `command("schedule", "pause", "crm.sync", reason="vendor outage")`
    """
    flags: list[str] = []
    for name, value in options.items():
        flag = f"--{name.strip('_').replace('_', '-')}"
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            flags += [f"{flag} {shell_word(each)}" for each in ([value] if isinstance(value, str) else value)]
    dashed = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    last = ["--", *map(shell_word, words[dashed:])] if dashed < len(words) else []
    return " ".join(["evertick", *map(shell_word, words[:dashed]), *flags, *last])


def command_line(line: str) -> Markup:
    """A command with a copy button. Lines break only between options."""
    first, *options = line.split(" --")
    shown = escape(first)
    for option in options:
        shown += Markup(" <span>--{}</span>").format(option)
    return Markup(
        '<div class="cli"><code tabindex="0" role="group" aria-label="The same as a command">{}</code>'
        '<button class="b sm" type="button" data-copy>Copy</button></div>'
    ).format(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class SameCommand:
    """The commands that do the same as a form; none while it is incomplete or has errors."""

    lines: Sequence[str] = ()
    wrong: Sequence[str] = ()
    """Errors that are shown nowhere else."""
    more: str = ""
    """Additional text about the commands."""
    at: str = ""
    """The address of the form's preview; empty for a form without fields."""


def complaints(errors: Mapping[str, str]) -> list[str]:
    """The errors of a form as lines; for arguments of functions with the argument's name."""
    found = (f"{name[2:]}: {words}" if name.startswith("a.") else words for name, words in errors.items())
    return list(dict.fromkeys(found))
