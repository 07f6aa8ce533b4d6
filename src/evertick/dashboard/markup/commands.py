"""The same action as a line for the terminal, to be copied: what a page does, the command line does, too."""

import shlex
from collections.abc import Sequence

from markupsafe import Markup, escape


def command(*words: str, **options: str | bool | Sequence[str] | None) -> str:
    """A line of `evertick`, quoted as a shell needs it.

    Options that are None or False are left out, one that is True has no value, and one with several is repeated.

    `command("schedule", "pause", "crm.sync", reason="vendor outage")`
    """
    flags: list[str] = []
    for name, value in options.items():
        flag = f"--{name.strip('_').replace('_', '-')}"
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            flags += [f"{flag} {shlex.quote(each)}" for each in ([value] if isinstance(value, str) else value)]
    return " ".join(["evertick", *map(shlex.quote, words), *flags])


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
