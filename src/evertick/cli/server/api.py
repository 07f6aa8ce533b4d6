"""`evertick api`: one request to a server, for what no command does, and for scripts."""

from dataclasses import dataclass
from typing import Any, Final, TextIO

import click

from evertick.base.errors import Misuse
from evertick.base.escaping import json_text, printable_lines, read_json
from evertick.cli.core.connections import chosen_server, open_client, server_options
from evertick.cli.core.databases import named_tenant, tenant_option
from evertick.cli.core.flags import flag, flags
from evertick.cli.json_values import json_or_text

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
BODY_MAX: Final = 16 * 1024 * 1024
"""More than any server takes."""


@dataclass(frozen=True, slots=True)
class ApiFlags:
    """The options of a request other than its fields."""

    text: str | None = flag("--json", metavar="JSON", help="The whole body.")
    file: TextIO | None = flag(
        "--file", type=click.File("r", encoding="utf-8"), help="A file with the whole body; - is stdin."
    )
    key: str | None = flag("--idempotency-key", metavar="KEY", help="Do it once, however often it is sent.")
    if_version: int | None = flag("--if-version", metavar="N", help="Only if it is still at version N (If-Match).")

    def body(self) -> Any:
        """The request body from the options; None if none is given. Raises UsageError."""
        if self.text is not None and self.file is not None:
            raise click.UsageError("--json and --file give two bodies; give one")
        text = self.text if self.file is None else self.file.read(BODY_MAX + 1)
        if text is None:
            return None
        if len(text) > BODY_MAX:
            raise click.UsageError("the body is too long for any server")
        try:
            return read_json(text)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"the body is not JSON: {error}") from None


@click.command()
@click.argument("method", type=click.Choice(METHODS, case_sensitive=False), metavar="METHOD")
@click.argument("path")
@click.argument("fields", metavar="[NAME=VALUE]...", nargs=-1)
@flags(ApiFlags, "given")
@server_options
@tenant_option
def api(method: str, path: str, fields: tuple[str, ...], given: ApiFlags) -> None:
    """Send a request to a server and print the JSON of its reply.

    PATH is below the tenant: `jobs` means /api/v1/tenants/~/jobs. One that begins with / is taken as it is:
    /api/v1/status. Fields are parameters of a GET, and members of the body of all others; a value that reads as JSON is
    sent as JSON, any other as text. The guide of the HTTP API lists what there is.
    """
    server = chosen_server()
    if server is None:
        raise Misuse("which server? give --url or --profile")
    values, body = _values(fields), given.body()
    if body is not None and values:
        raise click.UsageError("give a body or fields")
    method = method.upper()
    is_question = method == "GET"
    if is_question and body is not None:
        raise click.UsageError("a GET has no body; give its parameters as NAME=VALUE")
    with open_client(server, named_tenant()) as client:
        found = client.request(
            method,
            path,
            query=values if is_question else {},
            body=None if is_question else values if body is None else body,
            key=given.key,
            if_version=given.if_version,
        )
    if isinstance(found, str):
        click.echo(printable_lines(found))
    elif found is not None:
        click.echo(json_text(found, indent=2))


def _values(fields: tuple[str, ...]) -> dict[str, Any]:
    """The fields by name; a repeated field becomes a list. Raises UsageError."""
    found: dict[str, list[Any]] = {}
    for field in fields:
        name, equals, text = field.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{field!r} is no field; write NAME=VALUE")
        found.setdefault(name, []).append(json_or_text(text, name))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
