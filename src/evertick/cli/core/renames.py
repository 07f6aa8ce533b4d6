"""`--rename OLD=NEW`: other names for arguments of what is scheduled."""

from typing import Final

import click

rename_option: Final = click.option(
    "--rename", "renames", multiple=True, metavar="OLD=NEW", help="Give an argument another name; may be repeated."
)


def names_of(renames: tuple[str, ...]) -> dict[str, str]:
    """A mapping of old names to new names. Raises UsageError."""
    return dict(_pair(text) for text in renames)


def _pair(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not (old.isidentifier() and new.isidentifier()):
        raise click.UsageError(f"--rename {text!r}: name both arguments, for example --rename email=address")
    return old, new
