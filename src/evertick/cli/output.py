"""Output of rows: a table for people, tab-separated lines for pipes, JSON for programs.

`table` is aligned and has a header; when standard output is no terminal and nobody asked for a form, the same columns
come tab-separated without header. `json` is one array (or one object), `jsonl` one object a line, `none` nothing.
Data goes to stdout, words to stderr.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO, TypeVar

import click

from evertick.cli.printable import json_text, printable

FORMS: Final = ("table", "json", "jsonl", "none")
Row = Mapping[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(command: Command) -> Command:
    """`-o table|json|jsonl|none`, received as `output: str | None`."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), help="Table on a terminal, tab-separated in a pipe, unless given."
    )(command)


def fields_option(command: Command) -> Command:
    """`--fields a,b`, received as `fields: str | None`."""
    return click.option("--fields", metavar="A,B", help="Only these fields, in this order.")(command)


def chosen_fields(asked: str | None, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """The fields to show. Raises UsageError, with the valid names, for one that does not exist."""
    if asked is None:
        return list(default)
    fields = [field.strip() for field in asked.split(",") if field.strip()]
    unknown = [field for field in fields if field not in known]
    if unknown or not fields:
        raise click.UsageError(f"no field {', '.join(unknown) or asked!r}; the fields are {', '.join(known)}")
    return fields


def write_rows(rows: Sequence[Row], shown: Sequence[Sequence[str]], fields: Sequence[str], output: str | None) -> None:
    """Write rows: `rows` for programs, `shown` (the same cells as text) for people."""
    if output == "none":
        return
    if output == "json":
        click.echo(json_text([{field: row[field] for field in fields} for row in rows], indent=2))
    elif output == "jsonl":
        for row in rows:
            click.echo(json_text({field: row[field] for field in fields}))
    elif output == "table" or on_terminal():
        _table([list(map(str.upper, fields)), *shown] if shown else [])
    else:
        for cells in shown:
            click.echo("\t".join(map(printable, cells)))


def write_one(row: Row, shown: Mapping[str, str], fields: Sequence[str], output: str | None) -> None:
    """Write one row: as an object for programs, as lines `name  value` for people."""
    if output == "none":
        return
    if output in ("json", "jsonl"):
        click.echo(json_text({field: row[field] for field in fields}, indent=2 if output == "json" else None))
        return
    wide = output == "table" or on_terminal()
    width = max(map(len, fields), default=0)
    for field in fields:
        if not wide:
            click.echo(f"{field}\t{printable(shown[field])}")
        elif shown[field]:
            lines = shown[field].splitlines() or [""]
            click.echo(f"{field:<{width}}  {printable(lines[0])}")
            for line in lines[1:]:
                click.echo(f"{'':<{width}}  {printable(line)}")


def on_terminal() -> bool:
    """Whether a person looks at standard output."""
    return is_terminal(sys.stdout)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is at the other end of a standard stream; None is one that was closed before we began."""
    return stream is not None and stream.isatty()


def _table(rows: Sequence[Sequence[str]]) -> None:
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    for row in cells:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
