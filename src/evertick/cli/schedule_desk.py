"""The desk: schedules of a database as the commands of the terminal work on them, beside whatever runs.

No app is imported, unless `--app FILE` names one: then functions, their arguments and the app's settings are checked
against its code. Otherwise functions are known by their names alone. What is done is done in the name of `cli:<user>`,
at the time of the database's clock, which a simulation may have set.
"""

import getpass
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from evertick.app.clock_file import clock_of
from evertick.app.named_functions import NamedFunctions
from evertick.app.schedule_operations import ScheduleOperations
from evertick.app.schedules import Schedules
from evertick.app.scheduling import Functions
from evertick.base.clock import Clock
from evertick.base.errors import ScheduleNotFound, WriteConflict
from evertick.base.ids import DEFAULT_TENANT, Entropy, IdMaker, ScheduleId, system_entropy
from evertick.base.instants import Instant
from evertick.base.schedule_records import ScheduleRow
from evertick.cli.databases import open_database
from evertick.engine.schedule_standing import Standing
from evertick.engine.settings import Settings
from evertick.rules.recurrence.zones import Zone, zone_named
from evertick.rules.retry import RetryPolicy, retry_delay_ms
from evertick.rules.state_text import from_text
from evertick.store.contract import Store, Transaction

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

CONFLICTS: Final = RetryPolicy(attempts_max=10, first_ms=10, factor=2.0, cap_ms=1_000, jitter=0.5)
"""How often a change that meets conflicts is tried."""


class _KeptTargets:
    """Whether a target may run is known to its app; here it stays what the evaluator wrote down last."""

    def standing(self, transaction: Transaction, row: ScheduleRow, /) -> Standing:
        """See `evertick.engine.schedule_standing.Targets`."""
        return Standing(obstacle=from_text(row.state).obstacle)


class _NothingWritten(Exception):
    """Ends a transaction that was only to be tried."""


@dataclass(frozen=True, slots=True)
class Desk:
    """An open database, and everything that can be done to its schedules."""

    store: Store
    clock: Clock
    entropy: Entropy
    schedules: Schedules

    @property
    def operations(self) -> ScheduleOperations:
        """The operations as functions over a transaction."""
        return self.schedules.operations

    @property
    def now(self) -> Instant:
        """The present by the database's clock."""
        return self.clock.now()

    def ask(self, question: Callable[[Transaction], T]) -> T:
        """Answer a question."""
        return self.store.read(question)

    def do(self, work: Callable[[Transaction], T]) -> T:
        """Do something, again if it meets a conflict."""
        return again_at_conflicts(self.store, self.entropy, work)

    def rehearse(self, work: Callable[[Transaction], T]) -> T:
        """What `do` would answer; nothing of it is kept."""
        answers: list[T] = []

        def rehearsal(transaction: Transaction) -> None:
            answers[:] = [work(transaction)]
            raise _NothingWritten

        try:
            self.do(rehearsal)
        except _NothingWritten:
            return answers[0]
        raise AssertionError("the rehearsal ended by itself")

    def row(self, schedule_id: str, *, kind: str | None = None) -> ScheduleRow:
        """A schedule's row. Raises ScheduleNotFound, also for one of another kind."""
        if kind is None:
            return self.ask(lambda transaction: self.operations.row(transaction, schedule_id))
        sid = ScheduleId(schedule_id)
        found = self.ask(lambda transaction: transaction.get_schedule(sid, tenant=DEFAULT_TENANT))
        if found is None or found.kind != kind:
            what = f"no {kind} {schedule_id!r}" if found is None else f"{schedule_id!r} is no {kind}"
            raise ScheduleNotFound(f"{what}; list them with `evertick {kind} list`")
        return found

    def zone_of(self, schedule_id: str) -> Zone:
        """The zone in which a schedule's times are read; UTC for one that is gone."""
        found = self.ask(lambda transaction: transaction.get_schedule(ScheduleId(schedule_id), tenant=DEFAULT_TENANT))
        if found is None:
            return zone_named("UTC")
        from evertick.engine.schedule_times import recurrence_of

        return recurrence_of(found.spec).zone


def again_at_conflicts(store: Store, entropy: Entropy, work: Callable[[Transaction], T]) -> T:
    """Run work in a transaction of its own, again if it meets a conflict."""
    failures = 0
    while True:
        try:
            return store.write(work)
        except WriteConflict:
            failures += 1
            if failures >= CONFLICTS.attempts_max:
                raise
            time.sleep(retry_delay_ms(failures, CONFLICTS, entropy) / 1000)


@contextmanager
def open_desk(db: str | None, app_file: str | None = None) -> Iterator[Desk]:
    """The schedules of the database that `db` names, else of the one here; `app_file` is an app to check against.

    Raises as `open_database` does, and what importing the app raises.
    """
    functions: Functions | None = None
    settings = Settings()
    if app_file is not None:
        from evertick.cli.loading import load_app, parse_target

        app = load_app(parse_target(app_file)).app
        functions, settings = app.functions, app.settings
        db = db or app.database_url
    with open_database(db) as store:
        clock, entropy = clock_of(store), system_entropy()
        operations = ScheduleOperations(
            tenant=DEFAULT_TENANT,
            now=clock.now,
            functions=functions or NamedFunctions(store, DEFAULT_TENANT),
            settings=settings,
            make_id=IdMaker(entropy).make,
            actor=actor(),
            targets=_KeptTargets(),
        )

        def write(work: Callable[[Transaction], T]) -> T:
            return again_at_conflicts(store, entropy, work)

        yield Desk(store, clock, entropy, Schedules(operations, store.read, write))


def actor() -> str:
    """In whose name: `cli:ada`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"  # a container may run as a user without a name


def sid_option(command: Command) -> Command:
    """The schedule's id: `--sid ID`, or just the id; received as `sid: str`."""
    return _sid(command, required=True)


def sid_or_query(command: Command) -> Command:
    """As `sid_option`, but it may be missing: received as `sid: str | None`."""
    return _sid(command, required=False)


def _sid(command: Command, *, required: bool) -> Command:
    def chosen(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        bare = ctx.params.get("bare_id")
        ctx.params.pop("bare_id", None)
        if value is not None and bare is not None and value != bare:
            raise click.UsageError("the schedule is named twice; give --sid or the id alone")
        found = value if value is not None else bare
        if found is None and required:
            raise click.UsageError("which schedule? give --sid ID")
        return found

    option = click.option(
        "--sid", "-s", "--schedule-id", "sid", metavar="ID", callback=chosen, help="The schedule; or just its id."
    )
    argument = click.argument("bare_id", metavar="[ID]", required=False, is_eager=True)
    return argument(option(command))


app_option: Final = click.option(
    "--app", "app_file", metavar="FILE", help="Check the function, its arguments and limits against this app's code."
)
