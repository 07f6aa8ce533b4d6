"""`evertick status` and `evertick worker list`: who works, what waits, and what failed in the last hour."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from evertick.base.durations import length
from evertick.cli.core.databases import named_tenant, source_options, tenants_option
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import MomentWriter, OutputOptions, output_option, time_row_options, words_of
from evertick.cli.core.watching import refreshed, watch_option
from evertick.cli.sessions.fleet import AnyFleet, open_fleet

if TYPE_CHECKING:
    from evertick.api.schema import Schema
    from evertick.api.status import StatusView

WORKER_LIST: Final = ("id", "app", "host", "pid", "started", "alive", "pools")


@click.command()
@watch_option
@source_options
@tenants_option
@output_option
def status(db: str | None, out: OutputOptions) -> int:
    """Show live workers, how long due jobs wait, unfinished jobs by function, schedules that are overdue or have missed
    times in the last 24 hours, and the failures of the last hour.

    The exit code is 8 if there are schedules that cannot be read, so that they do not run.
    """
    with open_fleet(db) as fleet:
        return refreshed(fleet.store, out, lambda: _write_status(fleet, out))


def _write_status(fleet: AnyFleet, out: OutputOptions) -> int:
    from evertick.api.status import FailureView, MissedView, OverdueView, QueueView, StuckView, UnreadableView
    from evertick.api.workflows import WorkflowTypeView

    now = fleet.now
    found = fleet.status(named_tenant())
    if out.is_data:
        out.write_json(found.to_json())
        return _exit(found)
    moment = out.moments(now)
    live = [worker for worker in found.workers if worker.alive]
    _section(out, "workers", live, WORKER_LIST, moment)
    _section(out, "queues", found.queues, QueueView.names(), moment)
    _section(out, "overdue", found.overdue, OverdueView.names(), moment)
    _section(out, "missed", found.missed, MissedView.names(), moment)
    _section(out, "unreadable", found.unreadable, UnreadableView.names(), moment)
    _section(out, "failures", found.failures, FailureView.names(), moment)
    _section(out, "stuck", found.stuck, StuckView.names(), moment)
    _section(out, "workflows", found.inactive, WorkflowTypeView.names(), moment)
    if found.unwritable is not None:
        since = moment(found.unwritable.since)
        click.echo(f"the database cannot be written since {since}: {found.unwritable.reason}", err=True)
    if not out.is_none:
        hides_workers = not fleet.is_local and fleet.tenant is not None
        click.echo(_summary(found, None if hides_workers else len(live), moment), err=True)
    return _exit(found)


def _exit(found: "StatusView") -> int:
    return Exit.NOT_FULFILLED if found.unreadable else Exit.OK


@click.command("list")
@source_options
@time_row_options
def list_workers(db: str | None, out: OutputOptions) -> None:
    """List the workers of a database: those that live, and those whose end has not been noticed yet."""
    from evertick.api.status import WorkerView

    chosen = out.columns(WorkerView.names(), WORKER_LIST)
    with open_fleet(db) as fleet:
        found = fleet.workers()
        now = fleet.now
    out.show_views(found, now, chosen, _words)
    if not found and out.tells_of_nothing:
        click.echo("no workers", err=True)


def _section(
    out: OutputOptions, title: str, rows: "Sequence[Schema]", fields: Sequence[str], moment: MomentWriter
) -> None:
    """Write one part of the status: a table below its title, or in a pipe lines that begin with the title."""
    shown = [_words(row, moment) for row in rows]
    if out.is_table:
        if rows:
            click.echo(title)
            out.write_rows([], shown, fields)
        return
    out.write_rows([], [{"part": title, **row} for row in shown], ("part", *fields))


def _words(view: "Schema", moment: MomentWriter) -> dict[str, str]:
    from evertick.api.status import WorkerView

    words = words_of(view, moment)
    if isinstance(view, WorkerView):
        words["alive"] = "yes" if view.alive else "no"
        words["pools"] = "all" if view.pools is None else ", ".join(view.pools)
        words["functions"] = ", ".join(view.functions)
    return words


def _summary(found: "StatusView", live: int | None, moment: MomentWriter) -> str:
    due, later, running, blocked = (
        sum(getattr(queue, name) for queue in found.queues) for name in ("due", "later", "running", "blocked")
    )
    failed = sum(each.count for each in found.failures)
    runs = sum(each.count for each in found.stuck)
    stuck = f"; {runs:,} run{'' if runs == 1 else 's'} of workflows cannot go on" if runs else ""
    lag = f", the oldest for {length(found.lag_ms)}" if found.lag_ms else ""
    held = f", {blocked:,} blocked" if blocked else ""
    limited = sum(queue.due - queue.blocked for queue in found.queues if queue.held is not None)
    held += f", {limited:,} held back by pools" if limited else ""
    cut = "" if found.complete else "; there are more jobs, schedules or tenants than were read"
    workers = "" if live is None else f"{live:,} live worker{'' if live == 1 else 's'}; "
    schedules = f"{_overdue(found, moment)}{_missed(found)}{_unreadable(found)}"
    jobs = f"{due:,} due{lag}{held}; {running:,} running; {later:,} later{schedules}{stuck}"
    of_tenants = f" of {len(found.tenants):,} tenants" if len(found.tenants) > 1 else ""
    again = f" and {found.retried:,} that {'was' if found.retried == 1 else 'were'} run again" if found.retried else ""
    scripts = "" if found.isolation is None else f"; scripts run with {_isolation(found.isolation)}"
    return f"{workers}{jobs}; {failed:,} failed in the last hour{again}{of_tenants}{scripts}{cut}"


def _isolation(level: str) -> str:
    return {"full": "full isolation", "partial": "partial isolation"}.get(level, "NO isolation")


def _missed(found: "StatusView") -> str:
    """The part of the summary about missed times."""
    number = sum(each.times for each in found.missed)
    return f"; {number:,} missed in the last 24 hours (evertick schedule audit)" if number else ""


def _unreadable(found: "StatusView") -> str:
    """The part of the summary about schedules that cannot be read."""
    number = len(found.unreadable)
    return f"; {number:,} schedule{'' if number == 1 else 's'} that cannot be read" if number else ""


def _overdue(found: "StatusView", moment: MomentWriter) -> str:
    """The part of the summary about overdue schedules: no worker has evaluated their next time."""
    if not found.overdue:
        return ""
    count = sum(each.schedules for each in found.overdue)
    since = moment(min(each.since for each in found.overdue))
    return (
        f"; {count:,} schedules overdue, the first since {since}"
        if count > 1
        else f"; 1 schedule overdue since {since}"
    )
