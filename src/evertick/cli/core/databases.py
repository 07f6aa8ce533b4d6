"""Which database: for commands that read one without importing an app.

`--db` counts, then EVERTICK_DATABASE_URL, then the only database in the folder `.evertick` of the current folder:
that is the one `evertick dev` uses here. So commands need no option while `evertick dev` runs.
"""

import contextlib
import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from evertick.base.errors import DatabaseUnavailable, Misuse
from evertick.base.escaping import shell_word
from evertick.base.ids import DEFAULT_TENANT, TenantId, tenant_named
from evertick.base.instants import Instant
from evertick.cli.core.connections import no_server_options, refuse_server, server_options
from evertick.cli.core.flags import not_empty

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.store.store import Store

DATABASE_URL_VARIABLE: Final = "EVERTICK_DATABASE_URL"
DATA_FOLDER: Final = Path(".evertick")
SIMULATED: Final = ".simulated.db"
"""How the file of a simulation ends; it is meant only where it is named, or alone."""

TENANT_KEY: Final = "evertick.tenant"
"""Under which a command's context keeps the tenant."""

Command = TypeVar("Command", bound=Callable[..., Any])


def db_option(command: Command) -> Command:
    """Add `--db URL`, received as `db: str | None`, for commands that work only on a database."""
    return _db_option(no_server_options(command))


def source_options(command: Command) -> Command:
    """Add `--db URL`, received as `db: str | None`, and as an alternative the options that name a server."""
    return _db_option(server_options(command))


def _db_option(command: Command) -> Command:
    return click.option(
        "--db",
        metavar="URL",
        callback=_made_absolute,
        help="The database: sqlite:///FILE or postgresql://...; "
        "else EVERTICK_DATABASE_URL, else the one in .evertick/.",
    )(command)


def _made_absolute(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Make a SQLite path absolute, because importing the app may change the working directory."""
    from evertick.store.sqlite.address import absolute

    not_empty(context, parameter, value)
    return value and absolute(value)


def tenant_option(command: Command) -> Command:
    """Add `--tenant NAME`, which `chosen_tenant` returns."""
    return _tenant_option("Whose jobs and schedules; 'default' unless given.")(command)


def tenants_option(command: Command) -> Command:
    """Add `--tenant NAME`, which `named_tenant` returns. Without it the command reads all tenants."""
    return _tenant_option("Only this tenant; else all that have unfinished jobs or schedules.")(command)


def token_tenant_option(command: Command) -> Command:
    """Add `--tenant NAME`, which `named_tenant` returns, for commands about tokens."""
    return _tenant_option("The tenant that the token reaches alone; else a token may be of any, or of all.")(command)


def data_options(command: Command) -> Command:
    """Add `--db URL` or a server, and `--tenant NAME`, for commands that read one tenant's data."""
    return source_options(tenant_option(command))


def chosen_tenant() -> TenantId:
    """The tenant of the current command: the default tenant unless one was given."""
    return named_tenant() or DEFAULT_TENANT


def named_tenant() -> TenantId | None:
    """The tenant that was given to the current command; None if none was given."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(TENANT_KEY)


def _tenant_option(text: str) -> Callable[[Command], Command]:
    return click.option("--tenant", metavar="NAME", expose_value=False, callback=_keep_tenant, help=text)


def _keep_tenant(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[TENANT_KEY] = tenant_named(value)


def database_url(db: str | None) -> str:
    """The address of the database to use. Raises Misuse, with the fix, if there is none."""
    given = db or os.environ.get(DATABASE_URL_VARIABLE)
    if given:
        return given
    found = sorted(DATA_FOLDER.glob("*.db")) if DATA_FOLDER.is_dir() else []
    found = [path for path in found if not path.name.endswith(SIMULATED)] or found
    if len(found) == 1:
        return f"sqlite:///{found[0]}"
    if not found:
        raise Misuse(
            f"there is no database in {DATA_FOLDER}/ of this folder; go where `evertick dev` runs, "
            f"or name one with --db or {DATABASE_URL_VARIABLE}"
        )
    names = ", ".join(path.name for path in found)
    raise Misuse(f"there are several databases in {DATA_FOLDER}/ ({names}); choose one: --db sqlite:///{found[0]}")


@contextmanager
def open_database(db: str | None) -> Iterator["Store"]:
    """Open an existing database and check its schema.

    Raises Misuse (also if a server was chosen), InvalidDatabaseUrl, DatabaseUnavailable or SchemaMismatch.
    """
    refuse_server(db)
    # Imported here, since the drivers of databases load slowly and `--help` needs none.
    from evertick.store.open import open_settled

    url = database_url(db)
    require_file(url)
    store = open_settled(url)
    try:
        store.check_schema()
        yield store
    finally:
        store.close()


def require_file(url: str) -> None:
    """Raise DatabaseUnavailable if `url` is a SQLite file that does not exist. Opening it would create an empty
    database.

    Only `dev` and `migrate` create a file, so that a mistyped address does not.
    """
    file = sqlite_file(url)
    with contextlib.suppress(OSError):  # if this user may not read the folder, opening the file reports it
        if file is None or file.exists():
            return
        raise DatabaseUnavailable(
            f"there is no database at {shown_url(url)}; if that is the right place, create it with `evertick dev` or "
            f"`evertick migrate --db sqlite:///{shell_word(str(file))}`"
        )


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite address; None for other databases."""
    from evertick.store.sqlite.address import path_of

    return path_of(url) if url.startswith("sqlite:///") else None


def is_one_file(file: Path, other: Path) -> bool:
    """Whether two paths are the same existing file."""
    try:
        return file.samefile(other)
    except FileNotFoundError:
        return False


def shown_url(url: str) -> str:
    """The address for output: a relative path for a file, no password for a server."""
    file = sqlite_file(url)
    if file is not None:
        with contextlib.suppress(OSError, ValueError):
            return str(file.relative_to(Path.cwd().resolve()))
        return str(file)
    if url.startswith("sqlite:"):
        return "in memory"
    from evertick.store.addresses import shown

    return shown(url)


def open_on(store: "Store", app: "App") -> None:
    """Run an app on an open database. Raises Misuse for a simulation, and as `Store.check_schema` does."""
    from evertick.app.database_clock import simulation_of

    if store.single_engine:
        store.migrate()  # as every program that opens an embedded database does
    store.check_schema()
    if simulation_of(store.url) is not None:
        raise Misuse(f"{shown_url(store.url)} is a simulation with a clock of its own; `evertick dev` continues it")
    app.open_on(store)


def now_of(store: "Store") -> Instant:
    """The current time by the database's clock, which may be that of a simulation."""
    from evertick.app.database_clock import clock_of

    return clock_of(store).now()


def actor() -> str:
    """The name under which commands change a database: `cli:ada`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"  # a container may run as a user without a name
