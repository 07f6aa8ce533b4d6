"""The root of the command line: the table of commands, and how every error becomes one line and an exit code."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from evertick._version import __version__
from evertick.base.errors import EvertickError
from evertick.base.escaping import one_line
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.lazy import Lazy, LazyGroup
from evertick.cli.core.output import choose_color

COMMANDS: Final = {
    "init": Lazy("evertick.cli.init.command:init", "Make a project that runs"),
    "dev": Lazy("evertick.cli.dev.command:dev", "Run an app on this machine, reloading it when its code changes"),
    "run": Lazy("evertick.cli.run:run", "Call a function, or schedule it with --after or --at"),
    "job": Lazy("evertick.cli.job.commands:job", "Scheduled functions: list, get, cancel, logs"),
    "schedule": Lazy("evertick.cli.schedule.group:schedule", "Schedules: create, list, pause, backfill, explain"),
    "backfill": Lazy("evertick.cli.backfill.commands:backfills", "Backfills of a schedule: list, get, watch, stop"),
    "cron": Lazy("evertick.cli.cron:cron", "Crons declared in code: list, get, trigger, pause, resume"),
    "logs": Lazy("evertick.cli.logs:logs", "What functions logged, across all jobs; -f follows"),
    "workflow": Lazy("evertick.cli.workflow.group:workflow", "Runs of workflows: start, signal, cancel, history"),
    "script": Lazy("evertick.cli.script.group:script", "Scripts of customers: create, test, publish, runs, logs"),
    "gateway": Lazy("evertick.cli.gateway.group:gateway", "Gateways: processes with crons of their own"),
    "data": Lazy("evertick.cli.data.commands:data", "Tables, and the documents in them"),
    "tenant": Lazy("evertick.cli.tenant:tenant", "Tenants: what each may use, and what it uses"),
    "pool": Lazy("evertick.cli.pool:pool", "Pools: what each may run, what it has to do; pause and resume"),
    "worker": Lazy("evertick.cli.workers:worker", "Run an app's jobs in production; list the workers"),
    "serve": Lazy("evertick.cli.server.serve:serve", "Serve the HTTP API of an app"),
    "mcp": Lazy("evertick.cli.mcp.command:mcp", "Let AI agents use a database or a server (Model Context Protocol)"),
    "open": Lazy("evertick.cli.server.open:open_page", "Open the dashboard of a server: open schedule ID"),
    "api": Lazy("evertick.cli.server.api:api", "Send a request to a server: api GET jobs state=failed"),
    "token": Lazy("evertick.cli.server.token:token", "Tokens of the HTTP API: create, list, revoke, rotate"),
    "status": Lazy("evertick.cli.status:status", "Show workers, what waits for them, and recent failures"),
    "doctor": Lazy("evertick.cli.doctor:doctor", "Check that what is scheduled fits the code, before a deploy"),
    "backup": Lazy("evertick.cli.backup:backup", "Copy a SQLite database while programs use it"),
    "copy": Lazy("evertick.cli.copying:copy", "Copy everything to another database, such as PostgreSQL"),
    "migrate": Lazy("evertick.cli.migrate:migrate", "Bring a database's schema up to this version"),
    "version": Lazy("evertick.cli.version:version", "Show the versions of everything that matters"),
    "completion": Lazy("evertick.cli.completion:completion", "Print the completion script for a shell"),
}

EPILOG: Final = (
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 conflict, 6 partly done, "
    "7 database or server unavailable, 8 checked and not fulfilled, 130 interrupted."
)

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a full disk."""


class ReaderGone(Exception):
    """The reader of the output has ended. It replaces BrokenPipeError, for which click exits with the code 1."""


class Root(LazyGroup):
    """The group of all commands."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parse the arguments; this also writes the text of `--help`."""
        with _as_reader_gone():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _as_reader_gone():
            return super().invoke(ctx)


@contextlib.contextmanager
def _as_reader_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


@click.group(
    cls=Root,
    table=COMMANDS,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="evertick %(version)s")
@click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    expose_value=False,
    callback=choose_color,
    help="Whether output has colors; auto: on a terminal, unless NO_COLOR or FORCE_COLOR is set.",
)
@click.pass_context
def root(ctx: click.Context) -> None:
    """Durable scheduling: functions that run later, committed together with your data."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@root.command(hidden=True)
@click.argument("words", nargs=-1)
def config(words: tuple[str, ...]) -> None:
    """For scripts that were written for tctl, which had its commands in two versions."""
    if words[:2] != ("set", "version"):
        raise click.UsageError("there is nothing to configure; every command takes flags and environment variables")
    click.echo("evertick has its commands in one version: nothing to set", err=True)


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`; return the exit code. An error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        result: Any = root.main(list(arguments), prog_name="evertick", standalone_mode=False)
        if sys.stdout is not None:  # it is where it was closed before we began
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        return Exit.USAGE
    except click.UsageError as problem:
        where = f" (see {problem.ctx.command_path} --help)" if problem.ctx is not None else ""
        return fail(f"{problem.format_message()}{where}", Exit.USAGE)
    except click.ClickException as problem:
        return fail(problem.format_message(), problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return fail("interrupted", Exit.INTERRUPTED)
    except EvertickError as problem:
        return fail(str(problem), exit_code_of(problem))
    except (BrokenPipeError, ReaderGone):
        return _reader_gone()
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        _write_no_more()
        return fail(f"cannot write any more: {problem.strerror}", Exit.FAILED)
    return result if isinstance(result, int) else Exit.OK


def _reader_gone() -> int:
    """End without an error: the reader of the output has what it wanted, as in `evertick job list | head`."""
    _write_no_more()
    return Exit.OK


def _write_no_more() -> None:
    """Discard output that is still buffered, so that nothing is written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int) -> int:
    """Write an error message in one line; return the exit code."""
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"error: {one_line(message)}", err=True)
    return code
