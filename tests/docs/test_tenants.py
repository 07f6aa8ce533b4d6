"""The guide about tenants names every command that takes --tenant, and all that a tenant of the app has."""

import re
from collections.abc import Iterator

import click

from evertick import App
from evertick.cli.root import root
from tests.docs.pages import ROOT

GUIDE = (ROOT / "docs" / "guide" / "tenants.md").read_text("utf-8")
OF_A_SERVER = {"actor", "environment", "functions", "tenant_id", "views_of"}
"""What others than programs use."""


def with_tenant(command: click.Command) -> Iterator[click.Command]:
    """A command, or those below it, that take --tenant."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (member := command.get_command(context, name)) is not None:
                yield from with_tenant(member)
    elif any("--tenant" in parameter.opts for parameter in command.params):
        yield command


def test_the_commands_that_take_a_tenant_are_named() -> None:
    rows = GUIDE.partition("These commands take `--tenant NAME`:")[2].partition("```")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    context = click.Context(root)
    commands = {name: root.get_command(context, name) for name in root.list_commands(context)}

    assert named == {name for name, each in commands.items() if each is not None and any(with_tenant(each))}


def test_what_a_tenant_of_the_app_has_is_named() -> None:
    sentence = GUIDE.partition("`app.tenant(name)` has what the app has:")[2].partition(".")[0]
    tenant = App("shop").tenant("acme")

    assert set(re.findall(r"`(\w+)`", sentence)) == {n for n in dir(tenant) if n[0] != "_"} - OF_A_SERVER
