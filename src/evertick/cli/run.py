"""`evertick run`: call a function from the terminal, or schedule it. Works while `evertick dev` runs.

The function's module says where the app is: `app.send` lives in `app.py` of the current folder. The function runs in
this process, on the app's database; what it schedules is run by the app's worker. On a server, the server calls it.
"""

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evertick.app.functions.text_arguments import encode_words
from evertick.base.clock import SystemClock
from evertick.base.errors import EvertickError, FunctionFailed, Misuse
from evertick.base.escaping import finite, json_text, printable, printable_lines, shell_word
from evertick.base.ids import JobId
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.records.jobs import FunctionKind
from evertick.cli.core.connections import Server, chosen_server, open_client
from evertick.cli.core.databases import chosen_tenant, data_options, named_tenant, require_file
from evertick.cli.core.exits import FunctionRaised
from evertick.cli.core.flags import flag, flags, not_empty, shared
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target, place_of
from evertick.cli.json_values import given_json, json_or_text
from evertick.cli.schedule.flags import parse_when
from evertick.cli.sessions.base import note_new_tenant
from evertick.recurrence.parse.duration import parse_milliseconds

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.app.functions.function import Function
    from evertick.store.store import Store

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call, by position and by name."""


@dataclass(frozen=True, slots=True)
class CallFlags:
    """The options for the arguments of a call, and for its app."""

    words: tuple[str, ...] = shared(click.argument("words", nargs=-1, metavar="[NAME=VALUE]..."))
    json_words: str | None = flag("--json", metavar="JSON", help="Arguments as a JSON object.")
    json_file: Path | None = flag(
        "--file", type=click.Path(path_type=Path), metavar="FILE", help="The same, from a file; - is stdin."
    )
    app_file: str | None = flag(
        "--app", metavar="FILE", callback=not_empty, help="Where the app is, if the function's name does not tell."
    )


@dataclass(frozen=True, slots=True)
class RunFlags(CallFlags):
    """The options for what is called, when, and where."""

    after: str | None = flag(
        "--after", metavar="DURATION", help="Schedule it: this long from now, such as 5s or 1h30m."
    )
    at: str | None = flag(
        "--at",
        metavar="TIME",
        help="Schedule it: at a time, such as 2026-12-24T09:00:00Z; without a zone it is in UTC.",
    )
    key: str | None = flag(
        "--key", metavar="KEY", help="With --after or --at: at most one unfinished job holds this key."
    )
    limit_key: str | None = flag(
        "--limit-key", metavar="KEY", help="With --after or --at: whom the job is for, where a pool has limits by key."
    )
    pool: str | None = flag(
        "--pool", metavar="NAME", help="With --after or --at: the pool of the job, in place of its function's."
    )
    priority: int | None = flag(
        "--priority", metavar="N", help="With --after or --at: ready jobs of a higher one run first; 0 unless given."
    )
    retry: str | None = flag(
        "--retry",
        metavar="N|JSON",
        help="With --after or --at: attempts in all, or attempts, first, factor, cap, jitter.",
    )
    idempotency_key: str | None = flag(
        "--idempotency-key", metavar="KEY", help="Call a mutation once: again with the same key, the same result."
    )
    db: str | None = shared(data_options)
    output: str | None = flag(
        "-o", "--output", type=click.Choice(("json", "none")), help="JSON unless given; a job's id is plain text."
    )
    show_traceback: bool = flag("--traceback", default=False, help="Show where in the code the function raised.")

    @property
    def is_scheduled(self) -> bool:
        """Whether the call is scheduled instead of made now."""
        return self.after is not None or self.at is not None

    def of_job(self) -> dict[str, Any]:
        """The given options of a scheduled job. Raises InvalidArguments, Misuse."""
        from evertick.cli.schedule.flags import retry_of

        retry = None if self.retry is None else retry_of(self.retry)
        given = ("key", "limit_key", "pool", "priority")
        found = {name: getattr(self, name) for name in given} | {"retry": retry}
        return {name: value for name, value in found.items() if value is not None}

    def check(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if self.after is not None and self.at is not None:
            raise click.UsageError("--after and --at name two times; give one")
        if self.key is not None and not self.is_scheduled:
            raise click.UsageError("--key names a scheduled job; give --after or --at, or use --idempotency-key")
        if not self.is_scheduled and (given := self.of_job()):
            name = next(iter(given)).replace("_", "-")
            raise click.UsageError(f"--{name} is for a scheduled job; give --after or --at")
        if self.idempotency_key is not None and self.is_scheduled:
            raise click.UsageError("--idempotency-key is for a call made now; a scheduled job takes --key")


@click.command()
@click.argument("function")
@flags(RunFlags, "flags")
def run(function: str, flags: RunFlags) -> None:
    """Call FUNCTION (module.function) and print what it returns as JSON; with --after or --at, schedule it.

    Arguments are NAME=VALUE; a value is read as JSON where that fits the function's signature, else as text; on a
    server, as JSON if it reads as JSON.
    """
    flags.check()
    given = given_arguments(flags.json_words, flags.json_file)
    server = chosen_server(flags.db)
    if server is not None:
        _on_server(server, function, {**given, **unread(given, flags.words)}, flags)
        return
    with opened(function, flags.app_file, flags.db) as (app, _):
        resolved = app.functions.resolve(function)
        if resolved.kind is FunctionKind.WORKFLOW and not flags.is_scheduled:
            line = " ".join(map(shell_word, (resolved.name, *flags.words)))
            raise Misuse(f"{resolved.name} is a workflow; start it: evertick workflow start {line}")
        call = resolved.decode_args(encoded(resolved, given, flags.words))
        if flags.is_scheduled:
            _print_job(app, _schedule(app, resolved, call, flags), flags.output)
            return
        value = _call(app, resolved, call, flags)
        if flags.output != "none":
            result = json.loads(resolved.encode_result(value))
            click.echo(json_text(result, indent=2))
            if finite(result) != result:
                click.echo("note: NaN and infinities are printed as null, because JSON has none", err=True)


@contextmanager
def opened(function: str, app_file: str | None, db: str | None) -> "Iterator[tuple['App', Store]]":
    """The app of a function, with the database `db` open, or else the app's own database. Raises Misuse."""
    from evertick.store.open import open_settled

    app = load_app(parse_target(app_file or home_of(function))).app
    url = db or app.database_url
    require_file(url)
    store = open_settled(url)
    try:
        if store.single_engine:
            store.migrate()  # as the app itself would: an embedded database belongs to the program
        note_new_tenant(store)
        app.open_on(store)
        yield app, store
    finally:
        app.close()
        store.close()


def home_of(function: str) -> str:
    """The file of the module in a function's full name, or else app.py. Raises Misuse if none exists."""
    module = function.rpartition(".")[0]
    if not all(each.isidentifier() for each in module.split(".")):
        module = ""  # an address such as ../app names no module
    path = Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py") if module else ():
        if file.is_file():
            return str(file)
    if Path(FILE_DEFAULT).is_file():
        return FILE_DEFAULT
    if not module:
        modules = sorted(each.stem for each in Path().glob("*.py") if each.stem.isidentifier())
        example = f"{modules[0] if len(modules) == 1 else Path(FILE_DEFAULT).stem}.{function}"
        raise Misuse(f"a function's name is module.function, such as {example}")
    sought = " or ".join(dict.fromkeys((f"{path}.py", FILE_DEFAULT)))
    raise Misuse(f"there is no {sought} in this folder; name the app with --app FILE")


def encoded(function: "Function[..., Any]", given: Mapping[str, Any], words: tuple[str, ...]) -> str:
    """The arguments of a call in their stored form. Raises UsageError or InvalidArguments."""
    return encode_words(function, _named(given, words), given)


def unread(given: Mapping[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
    """The arguments NAME=VALUE without a signature to check against: parsed as JSON if valid, otherwise text.

    Raises UsageError.
    """
    return {name: json_or_text(text, f"the argument {name}") for name, text in _named(given, words).items()}


def _named(given: Mapping[str, Any], words: tuple[str, ...]) -> dict[str, str]:
    """The arguments NAME=VALUE as texts, by name. Raises UsageError."""
    named: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{printable(word)!r} is not an argument; write NAME=VALUE")
        if name in named or name in given:
            raise click.UsageError(f"the argument {printable(name)!r} is given twice")
        named[name] = value
    return named


def given_arguments(json_words: str | None, json_file: Path | None) -> dict[str, Any]:
    """The arguments in --json or --file. Raises UsageError."""
    found = given_json(json_words, json_file, "arguments")
    if found is None:
        return {}
    given, option = found
    if not isinstance(given, dict):
        raise click.UsageError(f"{option} must hold a JSON object: arguments by name")
    return given


# -- helpers


def _schedule(app: "App", function: "Function[..., Any]", call: Call, flags: RunFlags) -> str:
    """Schedule the call; return the job's id."""
    args, kwargs = call
    scheduler = app.tenant(chosen_tenant()).scheduler.using(**flags.of_job())
    if flags.after is not None:
        return scheduler.run_after(parse_milliseconds(flags.after) / 1000, function, *args, **kwargs)
    return scheduler.run_at(_moment(flags.at or "", app.environment.clock.now()), function, *args, **kwargs)


def _moment(text: str, now: Instant) -> datetime:
    """The time in --at. Raises InvalidSpec."""
    from evertick.recurrence.zones.names import zone_named

    return to_datetime(Instant(parse_when(text, zone_named("UTC"), "--at", now // SECOND_MS) * SECOND_MS))


def _call(app: "App", function: "Function[..., Any]", call: Call, flags: RunFlags) -> Any:
    """Call the function now and return its result. Raises FunctionRaised if it raises."""
    args, kwargs = call
    tenant = app.tenant(chosen_tenant())
    try:
        if flags.idempotency_key is not None:
            mutation: Any = function  # `call_once` refuses anything else
            return tenant.call_once(flags.idempotency_key, mutation, *args, **kwargs)
        return tenant.call(function.name, *args, **kwargs)
    except (Exception, SystemExit) as error:  # a function that exits has failed, as in a worker
        place = place_of(error)
        if flags.show_traceback and not (isinstance(error, EvertickError) and place is None):
            click.echo(printable_lines(traceback.format_exc()), err=True)
        if isinstance(error, EvertickError) and place is None:
            raise
        where = f" ({place})" if place else ""
        raise FunctionRaised(f"{function.name} raised {type(error).__name__}: {error}{where}") from error


def _on_server(server: Server, function: str, args: dict[str, Any], flags: RunFlags) -> None:
    """Call a function on a server, or schedule it there. Raises FunctionRaised if it raises."""
    refuse_app(flags.app_file)
    if flags.show_traceback:
        raise click.UsageError("--traceback needs the database: a server keeps to itself where its code raised")
    with open_client(server, named_tenant()) as opened:
        client: Any = opened  # functions are known by their names alone, so their types are not
        if flags.is_scheduled:
            scheduler = client.scheduler.using(**flags.of_job())
            if flags.after is not None:
                job_id = scheduler.run_after(parse_milliseconds(flags.after) / 1000, function, **args)
            else:
                job_id = scheduler.run_at(_moment(flags.at or "", SystemClock().now()), function, **args)
            due_at = None if flags.output is None else client.jobs.get(job_id).due_at
            _write_job(job_id, due_at, flags.output)
            return
        key = flags.idempotency_key
        try:
            value = client.call(function, **args) if key is None else client.call_once(key, function, **args)
        except FunctionFailed as error:
            raise FunctionRaised(f"{function} raised {error}") from error
    if flags.output != "none":
        click.echo(json_text(value, indent=2))


def refuse_app(app_file: str | None) -> None:
    """Raise UsageError if both an app and a server were given."""
    if app_file is not None:
        raise click.UsageError("--app needs the database: a server has the app's code itself")


def _print_job(app: "App", job_id: str, output: str | None) -> None:
    store = app.environment.store
    job = store.read(lambda transaction: transaction.get_job(JobId(job_id), tenant=chosen_tenant()))
    _write_job(job_id, None if job is None else to_datetime(job.due_at), output)


def _write_job(job_id: str, due_at: datetime | None, output: str | None) -> None:
    if output is None:
        click.echo(job_id)
    elif output != "none":
        from evertick.api.commands import ScheduledCall

        click.echo(json_text(ScheduledCall(job_id=JobId(job_id), due_at=due_at).to_json(), indent=2))
