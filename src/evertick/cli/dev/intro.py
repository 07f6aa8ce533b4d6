"""What `evertick dev` says first: the app, its database, its functions, its crons with their next times."""

from typing import Final

import click

from evertick._version import __version__
from evertick.api.schedules import ScheduleSummary
from evertick.app.app import App
from evertick.app.simulation import Simulation
from evertick.base.durations import distance
from evertick.base.escaping import printable
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.cli.core.databases import shown_url
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.zones.names import zone_named
from evertick.store.store import Store

CRONS_MAX: Final = 100
"""Crons that are listed."""


def introduce(
    app: App, store: Store, simulation: Simulation | None, *, created: bool, dashboard: str | None = None
) -> None:
    """Say what runs, how to call it, and where its `dashboard` is."""
    new = " (new)" if created else ""
    lines = [f"  evertick {__version__}   app {printable(app.name)}   database {printable(shown_url(store.url))}{new}"]
    if simulation is not None:
        lines.append(_clock_line(app, simulation))
    lines += _function_lines(app)
    lines += _cron_lines(app)
    example = next((f for f in app.functions if not f.internal and f.kind == "mutation"), None)
    if example is not None:
        words = "".join(f" {name}=..." for name in example.parameter_names)
        where = "" if simulation is None else f" --db {printable(store.url)}"
        lines.append(f"  try        evertick run {printable(example.name)}{words}{where}")
    if dashboard is not None:
        lines.append(f"  dashboard  {dashboard}")
    click.echo("\n".join(lines))


def _clock_line(app: App, simulation: Simulation) -> str:
    now = to_iso(Instant(app.environment.clock.now() // 1000 * 1000))
    pace = "at the pace of the real one" if simulation.speed == 1 else f"{simulation.speed:g} times as fast"
    return f"  clock      simulated: {now}, {pace}; commands on this database follow it"


def _function_lines(app: App) -> list[str]:
    functions = list(app.functions)
    width = max((len(function.name) for function in functions), default=0)
    lines = []
    for position, function in enumerate(functions):
        title = "functions" if position == 0 else ""
        internal = "internal" if function.internal else ""
        lines.append(f"  {title:<9}  {printable(function.name):<{width}}  {function.kind:<8}  {internal}".rstrip())
    return lines or ["  functions  none yet: decorate one with @app.mutation"]


def _cron_lines(app: App) -> list[str]:
    """Every cron with its sentence and its next time; and how many other schedules there are."""
    schedules, now = app.schedules, app.environment.clock.now()
    page = schedules.list(kind="cron", limit=CRONS_MAX)
    names = max((len(cron.id) for cron in page.schedules), default=0)
    sentences = max((len(cron.sentence) for cron in page.schedules), default=0)
    lines = [
        f"  {'crons' if position == 0 else '':<9}  {printable(cron.id):<{names}}  {cron.sentence:<{sentences}}  "
        f"{_next(cron, now)}".rstrip()
        for position, cron in enumerate(page.schedules)
    ]
    if page.cursor is not None:
        lines.append(f"  {'':<9}  and more: evertick cron list")
    others = schedules.list(kind="schedule", limit=1)
    if others.schedules:
        lines.append("  schedules  see evertick schedule list --sort next")
    return lines


def _next(cron: ScheduleSummary, now: Instant) -> str:
    if cron.next is None:
        return f"{cron.status}{f': {printable(cron.note)}' if cron.note else ''}"
    at = from_datetime(cron.next)
    zone = zone_named(cron.time_zone, abbreviations=True)
    clock = format_instant(at // 1000, None if zone.name == "UTC" else zone.offset_at(at // 1000))
    return f"next {clock} ({distance(at, now)})"
