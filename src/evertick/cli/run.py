"""`evertick run`: call a function from the terminal, or schedule it. Works beside a running `evertick dev`.

The function's module tells where the app is: `app.send` lives in `app.py` of the current folder. The function runs in
this process, on the app's database; what it schedules is run by whoever runs the app's jobs.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import EvertickError, Misuse
from evertick.base.instants import to_iso
from evertick.cli.databases import db_option
from evertick.cli.exits import FunctionRaised
from evertick.cli.loading import FILE_DEFAULT, load_app, parse_target, place_of
from evertick.cli.printable import json_text, printable, printable_lines
from evertick.cli.spec_flags import parse_json
from evertick.rules.recurrence.duration import parse_milliseconds
from evertick.rules.recurrence.moments import parse_instant
from evertick.store.open import open_store

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.app.functions import Function

ARGUMENTS_FILE_MAX: Final = 16 * 1024 * 1024


@click.command()
@click.argument("function")
@click.argument("words", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--json", "json_words", metavar="JSON", help="Arguments as a JSON object.")
@click.option(
    "--file", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="The same, from a file; - is stdin."
)
@click.option("--after", metavar="DURATION", help="Schedule it: this long from now, such as 5s or 1h30m.")
@click.option("--at", metavar="TIME", help="Schedule it: at a time with its zone, such as 2026-12-24T09:00:00Z.")
@click.option("--key", metavar="KEY", help="With --after or --at: at most one unfinished job holds this key.")
@click.option(
    "--idempotency-key", metavar="KEY", help="Call a mutation once: again with the same key, the same answer."
)
@click.option("--app", "app_file", metavar="FILE", help="Where the app is, if the function's name does not tell.")
@db_option
@click.option(
    "-o", "--output", type=click.Choice(("json", "none")), help="JSON unless given; a job's id is plain text."
)
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where in the code the function raised.")
def run(
    function: str, words: tuple[str, ...], json_words: str | None, json_file: Path | None, after: str | None,
    at: str | None, key: str | None, idempotency_key: str | None, app_file: str | None, db: str | None,
    output: str | None, show_traceback: bool,
) -> None:  # fmt: skip
    """Call FUNCTION (module.function) and print what it returns as JSON; with --after or --at, schedule it.

    Arguments are NAME=VALUE; a value is read as JSON where that fits the function's signature, else as text.
    """
    if after is not None and at is not None:
        raise click.UsageError("--after and --at name two times; give one")
    scheduled = after is not None or at is not None
    if key is not None and not scheduled:
        raise click.UsageError("--key names a scheduled job; give --after or --at, or use --idempotency-key")
    if idempotency_key is not None and scheduled:
        raise click.UsageError("--idempotency-key is for a call made now; a scheduled job takes --key")
    given = _given(json_words, json_file)
    app = load_app(parse_target(app_file or home_of(function))).app
    store = open_store(db or app.database_url)
    try:
        if store.single_engine:
            store.migrate()  # as the app itself would: an embedded database belongs to the program
        app.open_on(store)
        resolved = app.functions.resolve(function)
        args, kwargs = resolved.decode_args(encoded(resolved, given, words))
        if scheduled:
            scheduler = app.scheduler if key is None else app.scheduler.using(key=key)
            if after is not None:
                job_id = scheduler.run_after(parse_milliseconds(after) / 1000, resolved, *args, **kwargs)
            else:
                moment = datetime.fromtimestamp(parse_instant(at or "", "--at"), UTC)
                job_id = scheduler.run_at(moment, resolved, *args, **kwargs)
            _print_job(app, job_id, output)
            return
        value = _call(app, resolved, args, kwargs, idempotency_key, show_traceback=show_traceback)
        if output != "none":
            click.echo(json_text(json.loads(resolved.encode_result(value)), indent=2))
    finally:
        app.close()
        store.close()


def home_of(function: str) -> str:
    """The module of a function's name, as `load_app` takes it; app.py where it names none. Raises Misuse."""
    module = function.rpartition(".")[0]
    path = Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py") if module else ():
        if file.is_file():
            return str(file)
    if Path(FILE_DEFAULT).is_file():
        return FILE_DEFAULT
    if not module:
        raise Misuse(f"a function's name is module.function, such as app.{function}")
    sought = " or ".join(dict.fromkeys((f"{path}.py", FILE_DEFAULT)))
    raise Misuse(f"there is no {sought} in this folder; name the app with --app FILE")


def encoded(function: "Function[..., Any]", given: Mapping[str, Any], words: tuple[str, ...]) -> str:
    """The arguments of a call as they are stored. Raises UsageError or InvalidArguments."""
    named: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{printable(word)!r} is no argument; write NAME=VALUE")
        if name in named or name in given:
            raise click.UsageError(f"the argument {printable(name)!r} is given twice")
        named[name] = value
    return function.encode_words(named, given)


# -- helpers


def _given(json_words: str | None, json_file: Path | None) -> dict[str, Any]:
    if json_words is not None and json_file is not None:
        raise click.UsageError("--json and --file both bring arguments; give one")
    text, what = json_words, "--json"
    if json_file is not None:
        what = f"--file {json_file}"
        try:
            if str(json_file) == "-":
                text = sys.stdin.read(ARGUMENTS_FILE_MAX)
            elif json_file.stat().st_size > ARGUMENTS_FILE_MAX:
                raise click.UsageError(f"{what}: larger than {ARGUMENTS_FILE_MAX} bytes")
            else:
                text = json_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{what}: {error}") from None
    if text is None:
        return {}
    try:
        given = parse_json(text)
    except EvertickError as error:
        raise click.UsageError(f"{what}: {error}") from None
    if not isinstance(given, dict):
        raise click.UsageError(f"{what} must hold a JSON object: arguments by name")
    return given


def _call(
    app: "App", function: "Function[..., Any]", args: Any, kwargs: Any, key: str | None, *, show_traceback: bool
) -> Any:
    try:
        if key is not None:
            mutation: Any = function  # `call_once` refuses what is none
            return app.call_once(key, mutation, *args, **kwargs)
        return app.call(function.name, *args, **kwargs)
    except Exception as error:
        place = place_of(error)
        if show_traceback and not (isinstance(error, EvertickError) and place is None):
            click.echo(printable_lines(traceback.format_exc()), err=True)
        if isinstance(error, EvertickError):
            if place is not None:  # the function asked for what cannot be
                error.args = (f"{error} ({place})",)
            raise
        where = f" ({place})" if place else ""
        raise FunctionRaised(f"{function.name} raised {type(error).__name__}: {error}{where}") from error


def _print_job(app: "App", job_id: str, output: str | None) -> None:
    if output == "none":
        return
    if output is None:
        click.echo(job_id)
        return
    from evertick.base.ids import DEFAULT_TENANT, JobId

    store = app.environment.store
    job = store.read(lambda transaction: transaction.get_job(JobId(job_id), tenant=DEFAULT_TENANT))
    due_at = None if job is None else to_iso(job.due_at)
    click.echo(json_text({"job_id": job_id, "due_at": due_at}, indent=2))
