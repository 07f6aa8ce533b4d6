"""Output of rows: a table for people, tab-separated lines for pipes, JSON for programs.

`table` is aligned and has a header; when standard output is not a terminal and no form was given, the same columns come
tab-separated without header. `json` is one array (or one object), `jsonl` one object a line, `none` nothing.
Data goes to stdout, words to stderr.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import click

from evertick.base.durations import distance
from evertick.base.escaping import json_text, printable, printable_lines
from evertick.base.instants import Instant, from_datetime, to_iso, to_local
from evertick.cli.core.flags import flag, flags

if TYPE_CHECKING:
    from evertick.api.schema import Schema


FORMS: Final = ("table", "json", "jsonl", "none")
Row = Mapping[str, Any]
MomentWriter = Callable[[datetime | None], str]
V = TypeVar("V", bound="Schema")
Words = Callable[[V, MomentWriter], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The output options of a command: `-o`, and `--fields` and `--time` if the command has them."""

    time_style: str | None = flag(
        "--time", type=click.Choice(("relative", "iso", "local")),
        help="How tables write times; JSON always has them in UTC.",
    )  # fmt: skip
    output: str | None = flag(
        "-o", "--output", type=click.Choice(FORMS), help="Table on a terminal, tab-separated in a pipe, unless given."
    )
    fields: str | None = flag("--fields", metavar="A,B", help="Only these fields, in this order.")

    @property
    def is_data(self) -> bool:
        """Whether the output is for programs."""
        return self.output in ("json", "jsonl")

    @property
    def is_none(self) -> bool:
        """Whether nothing is written."""
        return self.output == "none"

    @property
    def is_table(self) -> bool:
        """Whether the output is a table with aligned columns."""
        return self.output == "table" or (self.output is None and on_terminal())

    @property
    def tells_of_nothing(self) -> bool:
        """Whether the output is for people, so that an empty list is mentioned."""
        return self.output in (None, "table")

    def columns(self, known: Sequence[str], default: Sequence[str]) -> list[str]:
        """The fields to write: the given ones, or else all for programs and `default` for people.

        Raises UsageError, with the valid names, for an unknown field.
        """
        if self.fields is None:
            return list(known if self.is_data else default)
        fields = [field.strip() for field in self.fields.split(",") if field.strip()]
        unknown = [field for field in fields if field not in known]
        if unknown or not fields:
            raise click.UsageError(f"no field {', '.join(unknown) or self.fields!r}; the fields are {', '.join(known)}")
        return fields

    def moments(self, now: Instant) -> MomentWriter:
        """A function that writes times for people: as `--time` says, else relative in a table and exact in a pipe."""
        style = self.time_style or ("relative" if self.is_table else "iso")

        def write(moment: datetime | None) -> str:
            if moment is None:
                return ""
            if style == "local":
                return f"{to_local(from_datetime(moment)):%Y-%m-%d %H:%M:%S %z}"
            at = from_datetime(moment)
            return to_iso(at) if style == "iso" else distance(at, now)

        return write

    def write_json(self, value: Any) -> None:
        """Write one JSON value, indented for `json`."""
        click.echo(json_text(value, indent=2 if self.output == "json" else None))

    def write_view(self, view: "Schema") -> None:
        """Write the result of a change for programs. People get a sentence from `say` instead."""
        if self.is_data:
            self.write_json(view.to_json())

    def say(self, words: str) -> None:
        """Write a sentence about the result of a change to stdout, for people. Programs get it from `write_view`."""
        if not self.is_data and not self.is_none:
            click.echo(words)

    def write_views(self, views: "Sequence[Schema]") -> None:
        """As `write_view`, for several results."""
        if self.output == "json":
            self.write_json([view.to_json() for view in views])
        elif self.output == "jsonl":
            for view in views:
                self.write_json(view.to_json())

    def write_rows(self, rows: Sequence[Row], shown: Sequence[Mapping[str, str]], fields: Sequence[str]) -> None:
        """Write rows: `rows` for programs, `shown` (the same cells as text) for people."""
        if self.is_none:
            return
        cells = [[row[field] for field in fields] for row in shown]
        if self.output == "json":
            self.write_json([{field: row[field] for field in fields} for row in rows])
        elif self.output == "jsonl":
            for row in rows:
                self.write_json({field: row[field] for field in fields})
        elif self.is_table:
            _table([list(map(str.upper, fields)), *cells] if cells else [])
        else:
            for line in cells:
                click.echo("\t".join(map(printable, line)))

    def write_one(self, row: Row, shown: Mapping[str, str], fields: Sequence[str]) -> None:
        """Write one row: as an object for programs, as lines `name  value` for people."""
        if self.is_none:
            return
        if self.is_data:
            self.write_json({field: row[field] for field in fields})
            return
        width = max(map(len, fields), default=0)
        for field in fields:
            if not self.is_table:
                for line in shown[field].splitlines() or [""]:
                    click.echo(f"{field}\t{printable(line)}")
            elif shown[field]:
                lines = shown[field].splitlines() or [""]
                click.echo(f"{field:<{width}}  {printable(lines[0])}")
                for line in lines[1:]:
                    click.echo(f"{'':<{width}}  {printable(line)}")

    def show_views(
        self, views: "Sequence[V]", now: Instant, fields: Sequence[str], words: "Words[V] | None" = None
    ) -> None:
        """Write views as rows; `words` converts a view to text fields."""
        moment, said = self.moments(now), words or words_of
        self.write_rows([each.to_json() for each in views], [said(each, moment) for each in views], fields)

    def show_view(self, view: "V", now: Instant, fields: Sequence[str], words: "Words[V] | None" = None) -> None:
        """Write one view; `words` converts it to text fields."""
        self.write_one(view.to_json(), (words or words_of)(view, self.moments(now)), fields)

    def show_whole(self, view: "V", now: Instant, fields: Sequence[str], words: "Words[V]") -> None:
        """Write one view completely. A table has each time both exact and relative; people also get the traceback of an
        error.
        """
        relative, exact = self.moments(now), OutputOptions(time_style="iso").moments(now)

        def moment(at: datetime | None) -> str:
            return f"{exact(at)} ({relative(at)})" if at is not None and self.is_table else exact(at)

        row = view.to_json()
        self.write_one(row, words(view, moment), fields)
        trace = (row["error"] or {}).get("traceback")
        if trace and self.tells_of_nothing and self.fields is None:
            click.echo(f"\n{printable_lines(trace)}")


output_option: Final = flags(OutputOptions, "out", only=("output",))
"""`-o`, received as `out: OutputOptions`."""
row_options: Final = flags(OutputOptions, "out", only=("output", "fields"))
"""`-o` and `--fields`, received as `out: OutputOptions`."""
limit_option: Final = click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
"""How many rows of a list of named things."""
time_row_options: Final = flags(OutputOptions, "out")
"""`--time`, `-o` and `--fields`, received as `out: OutputOptions`."""


def words_of(view: "Schema", moment: MomentWriter, *, exact: Sequence[str] = ()) -> dict[str, str]:
    """The fields of a view as text. Times are written by `moment`, except the fields in `exact`, which are in UTC."""
    row = view.to_json()
    fields = {str(field.serialization_alias or name): name for name, field in type(view).model_fields.items()}
    values = {name: getattr(view, fields[name]) for name in row if name in fields and name not in exact}
    times = {name: moment(value) for name, value in values.items() if isinstance(value, datetime)}
    return {name: plain(value) for name, value in row.items()} | times


def plain(value: Any) -> str:
    """A value as the text of a cell; empty for no value."""
    if value is None or value in ({}, []):
        return ""
    return value if isinstance(value, str) else json_text(value)


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return is_terminal(sys.stdout)


def colorful() -> bool:
    """Whether standard output may have colors: on a terminal unless NO_COLOR is set, and always with FORCE_COLOR."""
    if "NO_COLOR" in os.environ:
        return False
    return "FORCE_COLOR" in os.environ or on_terminal()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal. The stream is None if it was closed before the start."""
    return stream is not None and stream.isatty()


def _table(rows: Sequence[Sequence[str]]) -> None:
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    for row in cells:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


# -- Colors: whether output has them, which `--color`, NO_COLOR and FORCE_COLOR say, else whether it is a terminal.

OFF: Final = "NO_COLOR"
ON: Final = "FORCE_COLOR"


def choose_color(context: click.Context, parameter: click.Parameter, value: str) -> None:
    """Apply `--color` until the command ends. It sets environment variables, so that child processes apply it too."""
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
