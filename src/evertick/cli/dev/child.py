"""The child of `evertick dev`: one version of the user's code, from its import to its end.

The parent starts it, reads its reports from one pipe and writes its orders into another, a line of JSON each:

    child  {"loaded": {...}} or {"failed": {...}}        the code was imported, or was not
    parent {"run": {...}}                                take the database and run
    child  {"running": true} or {"failed": {...}}
    parent {"stop": true}                                drain; once more: end at once

When the parent dies its pipe ends, and the child ends at once, whatever it does: importing, or running a function that
blocks the loop. What was running is given back by the next start. A signal to the process group reaches both, and the
parent passes it on besides: that is one request.
"""

import contextlib
import io
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, TextIO

import click

from evertick._version import __version__
from evertick.api.schedules import ScheduleSummary
from evertick.app.app import App
from evertick.app.database_clock import Simulation
from evertick.app.embedded_worker import Stopper, close, serve, use_drain
from evertick.app.functions.function import Function
from evertick.base.durations import distance, length
from evertick.base.errors import DatabaseLocked, EvertickError
from evertick.base.escaping import one_line, printable, shell_word
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.cli.core.databases import DATA_FOLDER, SIMULATED, shown_url, sqlite_file
from evertick.cli.core.exits import Exit, end, exit_code_of
from evertick.cli.core.loading import load_app, local_files, parse_target
from evertick.cli.dev.clock import Asked, continued, database_for
from evertick.cli.dev.clock import stop as stop_clock
from evertick.cli.dev.demo import demo_database
from evertick.cli.dev.lines import DevHandler, DevLines, say, show_times_of
from evertick.cli.dev.pages import Pages
from evertick.engine.runtime.stop_requests import STOP_SIGNALS, StopRequests, leave
from evertick.recurrence.parse.moments import format_instant
from evertick.recurrence.zones.names import zone_named
from evertick.store.open import open_settled
from evertick.store.sqlite.address import make_folder_of
from evertick.store.store import Store

# -- What `evertick dev` says first: the app, its database, its functions, its crons with their next times.

CRONS_MAX: Final = 100
"""Crons that are listed."""


def introduce(
    app: App, store: Store, simulation: Simulation | None, *, created: bool, dashboard: str | None = None
) -> None:
    """Print what runs, how to call it, and the address of its `dashboard`."""
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
    """A line for each cron with its description and next time, and one with the number of other schedules."""
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


LOCK_WAIT_S = 2.0
"""A parent that was killed leaves a child behind, which needs a moment to notice and to let the file go."""


GONE_S = 1.0
"""How long a child may outlive its parent, so that its end can be written down."""


class Orders(threading.Thread):
    """Reads the parent's orders in a separate thread, because the user's code may block all others when the parent
    dies.
    """

    def __init__(self, pipe: TextIO, requests: StopRequests) -> None:
        super().__init__(name="evertick-dev-orders", daemon=True)
        self._pipe = pipe
        self._requests = requests
        self._reasons: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def reason(self) -> dict[str, Any]:
        """Wait for the order to run; return the parent's message with the reason."""
        return self._reasons.get()

    def run(self) -> None:
        """Read orders until the parent has ended, then end this process."""
        for line in self._pipe:
            order = json.loads(line)
            if "run" in order:
                self._reasons.put(order["run"])
            else:
                self._ask()
        with contextlib.suppress(Exception):  # this process ends, whatever state it is in
            self._ask()
            self._ask()
            time.sleep(GONE_S if self._requests.has_begun else 0)
            leave(Exit.INTERRUPTED)
        os._exit(Exit.INTERRUPTED)

    def _ask(self) -> None:
        self._requests.ask("parent")


@dataclass(slots=True)
class Pipes:
    """The two pipes to the parent."""

    orders: Orders
    reports: TextIO

    def report(self, what: str, value: Any) -> None:
        """Send a report to the parent."""
        self.reports.write(json.dumps({what: value}) + "\n")
        self.reports.flush()

    def fail(self, error: EvertickError) -> int:
        """Report an error to the parent; return the exit code."""
        code = exit_code_of(error)
        files = local_files(error.__cause__)
        self.report("failed", {"error": one_line(str(error)), "code": code, "files": files})
        return code


def main(arguments: str) -> int:
    """Run as the child process that `arguments` (JSON) describes; return the exit code."""
    asked = json.loads(arguments)
    data_folder = DATA_FOLDER.absolute()  # before the user's code may change the working directory
    stopper = Stopper()
    stopper.requests.handle_signals()  # none is ignored: programs that the user's code starts would inherit that
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    orders = Orders(os.fdopen(asked["orders"], encoding="utf-8"), stopper.requests)
    pipes = Pipes(orders, os.fdopen(asked["reports"], "w", encoding="utf-8"))
    orders.start()
    if isinstance(sys.stdout, io.TextIOWrapper):  # functions' output must not wait for our next line
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING, handlers=[DevHandler()], force=True)
    logging.getLogger("evertick.functions").setLevel(logging.DEBUG)
    logging.getLogger("evertick.engine").setLevel(logging.INFO)
    try:
        app = load_app(parse_target(asked["file"])).app
        usual = asked["db"] or app.database_url
    except EvertickError as error:
        return pipes.fail(error)
    names = [function.name for function in app.functions]
    pipes.report("loaded", {"files": local_files(), "functions": names, "database": usual})
    reason = orders.reason()
    drain_ms = use_drain(app, asked["drain"])
    simulated = Asked.from_json(asked.get("simulated"))
    try:
        if asked["demo"]:
            speed = None if simulated is None else simulated.speed
            url = demo_database(app, data_folder, speed=speed, first=reason["first"])
        else:
            own = f"sqlite:///{data_folder / app.name}{SIMULATED}"
            url = database_for(simulated, own, asked["db"], app.database_url, first=reason["first"])
        make_folder_of(url)
        store = open_settled(url)
    except EvertickError as error:
        return pipes.fail(error)
    try:
        return _run(app, asked["file"], store, stopper, drain_ms, pipes, reason)
    except EvertickError as error:
        return pipes.fail(error)
    finally:
        close(app, store)


def _run(
    app: App, file: str, store: Store, stopper: Stopper, drain_ms: int, pipes: Pipes, reason: dict[str, Any]
) -> int:
    _lock(store)
    _ignore_in_git(store)
    steps = store.migrate()
    simulation = continued(store.url)
    if simulation is not None:
        show_times_of(simulation.clock)
    app.open_on(store)
    functions = list(app.functions)
    names = [*(function.name for function in functions), *(cron.name for cron in app.crons.declared)]
    pages = Pages(app)
    where = pages.start(reason["port"]) if reason["port"] is not None else None
    lines = DevLines(store, app.environment.clock, name_width=max(map(len, names), default=0))
    app.counters.observers.append(lines)
    app.counters.schedule_observers.append(lines)

    def started() -> None:
        if reason["first"]:
            introduce(app, store, simulation, created=len(steps) > 0, dashboard=where)
            lines.announce_waiting()
        else:
            _say_what_changed(functions, reason)
            _say_what_does_not_fit(app, store, file)
            if (
                simulation is None and store.url != reason["database"]
            ):  # the app has another name now, or another address
                old, new = shown_url(reason["database"]), shown_url(store.url)
                say("!", printable(f"the database is {new} now; what is scheduled in {old} waits there"))
        lines.start()
        pipes.report("running", {"port": pages.port, "database": store.url})

    if not reason["first"]:
        logging.getLogger("evertick.schedules").setLevel(logging.INFO)  # which crons the new code adds or changes
    try:
        serve(app, stopper, drain_ms=drain_ms, started=started)
    finally:
        lines.stop()
        pages.stop()
        stop_clock(store.url)
    return Exit.OK


def _lock(store: Store) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return store.lock_engine()
        except DatabaseLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _ignore_in_git(store: Store) -> None:
    """Exclude the database in `.evertick` from the user's commits."""
    file = sqlite_file(store.url)
    if file is not None and file.parent.name == DATA_FOLDER.name and not file.with_name(".gitignore").exists():
        file.with_name(".gitignore").write_text("*\n")


def _say_what_changed(functions: list[Function[..., Any]], reason: dict[str, Any]) -> None:
    before, after = set(reason["functions"]), {function.name for function in functions}
    changes = [f"+{name}" for name in sorted(after - before)] + [f"-{name}" for name in sorted(before - after)]
    took = length(round((time.time() - reason["began"]) * 1000))
    words = f"{reason['what']} in {took}: {len(after)} function{'' if len(after) == 1 else 's'}"
    say("↻", printable(f"{words} ({', '.join(changes)})" if changes else words))


def _say_what_does_not_fit(app: App, store: Store, file: str) -> None:
    from evertick.app.doctor import examine

    kinds: Counter[str] = Counter()
    for each in examine(app, store, None).findings:
        kinds[f"pending {each.what}" if each.what == "job" else each.what] += each.count
    if kinds:
        found = " and ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in sorted(kinds.items()))
        say("!", printable(f"this code does not fit {found}; what to do: evertick doctor {shell_word(file)}"))


if __name__ == "__main__":
    sys.exit(end(main(sys.argv[1])))
