"""Colors: whether output has them, which `--color`, NO_COLOR and FORCE_COLOR say, else whether it is a terminal."""

import os
from typing import Final

import click

OFF: Final = "NO_COLOR"
ON: Final = "FORCE_COLOR"


def choose_color(context: click.Context, parameter: click.Parameter, value: str) -> None:
    """Obey `--color` until the command has ended, by the variables that child processes, such as those of dev, see."""
    if value == "auto" or context.resilient_parsing:
        return
    before = {name: os.environ.pop(name, None) for name in (OFF, ON)}

    def restore() -> None:
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text

    context.call_on_close(restore)
    os.environ[ON if value == "always" else OFF] = "1"
