"""The same action as a line for the terminal, to be copied: what a page does, the command line does, too."""

import shlex

from markupsafe import Markup, escape


def command(*words: str, **options: str | None) -> str:
    """A line of `evertick`, quoted as a shell needs it; options that are None are left out.

    `command("schedule", "pause", "crm.sync", reason="vendor outage")`
    """
    given = {name.strip("_").replace("_", "-"): value for name, value in options.items() if value is not None}
    flags = [f"--{name} {shlex.quote(value)}" for name, value in given.items()]
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
