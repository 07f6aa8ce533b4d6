"""Configuration: the setting `EVERTICK`, the addresses of Django's databases, and Evertick's tables in them."""

import pkgutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from evertick.app.app import App
from evertick.base.errors import Misuse
from evertick.base.records.jobs import FunctionKind
from evertick.base.suggested_commands import DJANGO_SETTINGS
from evertick.store.location import PREFIX, USUAL_PLACES
from evertick.store.open import open_settled

SETTINGS: Final[Mapping[str, Any]] = {"APP": None, "DATABASE": "default", "MIGRATE": True}
"""The keys of the setting `EVERTICK` with their defaults.

- `APP`: the place of the app, such as `shop.jobs.app`.
- `DATABASE`: Django's name of the database with its tables.
- `MIGRATE`: whether `manage.py migrate` migrates them.
"""
_DJANGOS_OWN: Final = frozenset({"isolation_level", "server_side_binding", "assume_role", "pool", "options"})
"""Options of a PostgreSQL database that only Django uses, or that apply to Django's sessions."""
_NO_SETTINGS: Final = f"the database of this app is Django's, and Django has no settings: {DJANGO_SETTINGS}"
_IN_MEMORY: Final = (
    "Django's database {alias!r} is in memory, only for Django's own connection: app.bind(connection) works; "
    "else set a file as 'NAME' in DATABASES[{alias!r}]['TEST'], or use evertick.testing.World"
)


def setting(name: str) -> Any:
    """A value of the setting `EVERTICK`. Raises Misuse for an unknown key, or without Django's settings."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        given = getattr(settings, "EVERTICK", {})
    except ImproperlyConfigured as error:
        if settings.configured:
            raise
        raise Misuse(_NO_SETTINGS) from error
    for key in given:
        if key not in SETTINGS:
            raise Misuse(f"the setting EVERTICK has no {key!r}; it takes {', '.join(SETTINGS)}")
    return given.get(name, SETTINGS[name])


def configured_app() -> App:
    """The app in the setting. Raises Misuse if there is none."""
    name = setting("APP")
    if not name:
        raise Misuse("the setting EVERTICK has no app; write EVERTICK = {'APP': 'shop.jobs.app'}")
    try:
        app = pkgutil.resolve_name(name)
    except (AttributeError, ModuleNotFoundError, ValueError) as error:
        raise Misuse(f"the app {name!r} in the setting EVERTICK cannot be imported: {error}") from error
    if not isinstance(app, App):
        raise Misuse(f"the app {name!r} in the setting EVERTICK is not an App, but {app!r}")
    return app


def database_url(alias: str | None = None) -> str:
    """The address of a database of Django: `alias`, else the one in the setting `EVERTICK`, else "default".

    Pass the function itself to an app, `App("shop", database_url=database_url)`: then the address is read when it is
    needed, and in Django's tests it is that of the test database.

    Raises Misuse for a database that is neither PostgreSQL nor SQLite, and for a SQLite database in memory.
    """
    from django.db import connections

    alias = alias or str(setting("DATABASE"))
    connection = connections[alias]
    given = connection.settings_dict
    if connection.vendor == "sqlite":
        if connection.is_in_memory_db():
            raise Misuse(_IN_MEMORY.format(alias=alias))
        return f"sqlite:///{given['NAME']}"
    if connection.vendor != "postgresql":
        raise Misuse(f"Django's database {alias!r} is {connection.vendor}; Evertick takes PostgreSQL and SQLite")
    return _postgres_url(given)


def migrate(alias: str) -> list[str]:
    """Migrate the tables in Django's database `alias` to this version; return the names of the migrations.

    A database in memory, as in Django's tests, is migrated through Django's connection. Raises as `App.migrate`.
    """
    from django.db import connections

    connection = connections[alias]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        return _copy_into(connection)
    url = configured_app().database_url if setting("APP") and alias == setting("DATABASE") else database_url(alias)
    with closing(open_settled(url)) as store:
        return store.migrate()


def _postgres_url(given: Mapping[str, Any]) -> str:
    user, password, host, port = (str(given.get(each) or "") for each in ("USER", "PASSWORD", "HOST", "PORT"))
    options = {
        key: str(value)
        for key, value in given.get("OPTIONS", {}).items()
        if key not in _DJANGOS_OWN and isinstance(value, str | int)  # also skips Django's cursor_factory
    }
    if host.startswith("/"):  # the folder of a socket
        options["host"], host = host, ""
    if port and not host:
        options["port"], port = port, ""
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = f"{host}:{port}" if port else host
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"postgresql://{login}{'@' if login else ''}{place}/{quote(str(given.get('NAME') or ''), safe='')}{query}"


def _copy_into(connection: Any) -> list[str]:
    """Copy the tables of a new database into one in memory; return the migrations, none if it has the tables."""
    place = USUAL_PLACES["sqlite"]
    connection.ensure_connection()
    has = "select 1 from sqlite_master where name = ?"
    if connection.connection.execute(has, (f"{place}meta",)).fetchone() is not None:
        return []
    with tempfile.TemporaryDirectory(prefix="evertick-") as folder:
        path = Path(folder) / "new.db"
        with closing(open_settled(f"sqlite:///{path}{PREFIX}{place}")) as store:
            steps = store.migrate()
        with closing(sqlite3.connect(path)) as source:
            for statement in source.iterdump():
                if statement not in ("BEGIN TRANSACTION;", "COMMIT;"):
                    connection.connection.execute(statement)
    return steps


# -- Fresh connections: Django's own, in the threads of a worker.
#
# Django closes connections that are unusable, or older than CONN_MAX_AGE, before and after each request. A worker does
# this for each action, so that an action after a restart of the database connects again.


def use_fresh_connections(app: App) -> None:
    """Close old connections before and after each `def` action of the app, as Django does for a request."""
    for function in app.functions:
        if function.kind is FunctionKind.ACTION and not function.is_async:
            function.handler = _as_a_request(function.handler)


def _as_a_request(handler: Callable[..., Any]) -> Callable[..., Any]:
    from django.db import close_old_connections, reset_queries

    @wraps(handler)
    def handle(*args: Any, **kwargs: Any) -> Any:
        reset_queries()
        close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            close_old_connections()

    return handle
