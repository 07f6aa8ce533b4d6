"""`evertick pool ...`: what each pool may run, and what it has to do. Imports no app."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

import click

from evertick.cli.core.databases import source_options
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import MomentWriter, OutputOptions, row_options, words_of
from evertick.cli.core.reasons import asked_for, reason_option
from evertick.cli.core.watching import refreshed, watch_option
from evertick.cli.sessions.fleet import AnyFleet, open_fleet
from evertick.cli.tenant import changes_of, limit_options

if TYPE_CHECKING:
    from evertick.api.limits import PoolView

FIELDS: Final = (
    "pool",
    "state",
    "running",
    "per_tenant",
    "per_key",
    "starts_per_minute",
    "limits_from",
    "ready",
    "oldest",
    "note",
    "held",
)
LIMITS: Final = {
    "running": "Jobs that run at a time on all workers; more wait.",
    "per_tenant": "Jobs of one tenant that run at a time in the pool; more wait.",
    "per_key": "Jobs of one limit key that run at a time in the pool; more wait.",
    "starts_per_minute": "Attempts that start in a minute, evenly spread; more wait.",
}


@click.group(cls=LazyGroup)
def pool() -> None:
    """Pools: what each may run, and what it has to do."""


@pool.command("list")
@watch_option
@source_options
@row_options
def list_pools(db: str | None, out: OutputOptions) -> int:
    """List pools: of each, the jobs that run and those that are due and wait, with their limits."""
    from evertick.api.limits import PoolView

    chosen = out.columns(PoolView.names() if out.is_data else FIELDS, FIELDS)
    with open_fleet(db) as fleet:

        def write() -> None:
            out.show_views(fleet.pools.list(), fleet.now, chosen, _words)

        return refreshed(fleet.store if fleet.is_local else None, out, write)


def _add(operation: str, words: str) -> None:
    """Add a command with the name of the operation, which applies it to the pool NAME and shows the result."""

    @pool.command(operation, help=words)
    @click.argument("name")
    @source_options
    @row_options
    def command(name: str, db: str | None, out: OutputOptions) -> None:
        _write(lambda fleet: getattr(fleet.pools, operation)(name), db, out)


_add("get", "Show the limits of a pool, and what it has to do.")


@pool.command("set")
@limit_options(LIMITS)
def set_pool(name: str, db: str | None, out: OutputOptions, **limits: int | str | None) -> None:
    """Change what a pool may run; 'none' removes a limit."""
    changes = changes_of(limits)
    _write(lambda fleet: fleet.pools.set(name, **changes), db, out)


@pool.command("pause")
@click.argument("name")
@reason_option
@source_options
@row_options
def pause_pool(name: str, reason: str | None, db: str | None, out: OutputOptions) -> None:
    """Let no job of a pool start, and say why; what runs goes on."""
    note = asked_for(reason)
    _write(lambda fleet: fleet.pools.pause(name, note), db, out)


_add("resume", "Let the jobs of a paused pool start again.")


@pool.command("delete")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also while jobs of it run or are due, or a worker has functions in it.")
@source_options
@row_options
def delete_pool(name: str, force: bool, db: str | None, out: OutputOptions) -> None:
    """Delete the settings of a pool: its limits, its pause, and what code has declared for it.

    Jobs keep their pool, and have no limits any more. A worker whose code declares the pool makes its settings again
    when it starts.
    """
    _write(lambda fleet: fleet.pools.delete(name, force=force), db, out)


def _write(work: "Callable[[AnyFleet], PoolView]", db: str | None, out: OutputOptions) -> None:
    from evertick.api.limits import PoolView

    chosen = out.columns(PoolView.names() if out.is_data else FIELDS, FIELDS)
    with open_fleet(db) as fleet:
        known = {each.pool for each in fleet.pools.list()}
        view = work(fleet)
        now = fleet.now
    if view.pool not in known:
        note_unknown_pool(view.pool, known, "" if view.limits.is_empty else "; what is set waits for it")
    out.show_view(view, now, chosen, _words)


def note_unknown_pool(pool: str, known: Collection[str], otherwise: str = "") -> None:
    """Print a note if nothing uses the pool, with similar pool names, or with `otherwise` if there are none.

    Pools are not created explicitly, so a mistyped name is no error.
    """
    from evertick.app.registry import nearest_names

    near = " or ".join(nearest_names(pool, sorted(known)))
    meant = f"; did you mean {near}?" if near else otherwise
    click.echo(f"note: nothing here has the pool {pool!r} yet{meant}", err=True)


def _words(view: "PoolView", moment: MomentWriter) -> Mapping[str, str]:
    """The fields of a pool as text; a limited number as `3 of 5`."""
    limits = view.limits
    words = words_of(view, moment) | {"state": "paused" if limits.paused else "active", "ready": f"{view.ready:,}"}
    words["note"] = limits.note
    words["running"] = f"{view.running:,}" + ("" if limits.running is None else f" of {limits.running:,}")
    for name in ("per_tenant", "per_key", "starts_per_minute"):
        words[name] = "" if getattr(limits, name) is None else f"{getattr(limits, name):,}"
    return words
