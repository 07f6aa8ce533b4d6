"""`evertick completion`: the script that lets a shell complete commands, options, ids, functions and zones."""

import click
from click.shell_completion import get_completion_class

from evertick.cli.core.completing.parameters import VARIABLE

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; add it with: eval "$(evertick completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101
    click.echo(kind(ctx.find_root().command, {}, "evertick", VARIABLE).source())
