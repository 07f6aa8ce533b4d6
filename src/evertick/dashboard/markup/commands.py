"""The same action as a line for the terminal, to be copied: what a page does, the command line does, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from evertick.base.escaping import shell_word


def command(*words: str, **options: str | bool | Sequence[str] | None) -> str:
    """A line of `evertick`, quoted as a shell needs it.

    Options that are None or False are left out, one that is True has no value, and one with several is repeated. Words
    from the first that begins with a dash on come last, after `--`: a schedule called `-qstate:active` is no option.

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
    """A command with a button that copies it. Lines break between options alone, so that none is torn."""
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
    """What a form does as lines of `evertick`; none as long as it is not complete, or something in it is wrong."""

    lines: Sequence[str] = ()
    wrong: Sequence[str] = ()
    """What is wrong, where it stands nowhere else."""
    more: str = ""
    """What else is to be said of the lines."""
    at: str = ""
    """Where it follows what is typed; nothing for a form without fields."""


def complaints(errors: Mapping[str, str]) -> list[str]:
    """What is wrong with a form, of its errors by field; arguments of functions have names that are told."""
    found = (f"{name[2:]}: {words}" if name.startswith("a.") else words for name, words in errors.items())
    return list(dict.fromkeys(found))
