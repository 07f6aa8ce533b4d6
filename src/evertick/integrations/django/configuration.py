"""Configuration: what the setting `EVERTICK` says, where Django's databases are, and Evertick's tables in them."""

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

- `APP`: where the app is, such as `shop.jobs.app`.
- `DATABASE`: in which of Django's databases its tables are.
- `MIGRATE`: whether `manage.py migrate` brings them up to date.
"""
_DJANGOS_OWN: Final = frozenset({"isolation_level", "server_side_binding", "assume_role", "pool", "options"})
"""Options of a PostgreSQL database that mean something to Django alone, or to each of its own sessions."""
_NO_SETTINGS: Final = f"the database of this app is Django's, and Django has no settings: {DJANGO_SETTINGS}"
_IN_MEMORY: Final = (
    "Django's database {alias!r} is in memory, where only Django's own connection sees it: app.bind(connection) works; "
    "for everything else give DATABASES[{alias!r}]['TEST'] a file as 'NAME', or use evertick.testing.World"
)


def setting(name: str) -> Any:
    """A value of the setting `EVERTICK`. Raises Misuse for a key that does not exist, or without Django's settings."""
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
    """The app that the setting names. Raises Misuse if it names none."""
    name = setting("APP")
    if not name:
        raise Misuse("the setting EVERTICK names no app: EVERTICK = {'APP': 'shop.jobs.app'}")
    try:
        app = pkgutil.resolve_name(name)
    except (AttributeError, ModuleNotFoundError, ValueError) as error:
        raise Misuse(f"the setting EVERTICK names {name!r} as the app, which is not there: {error}") from error
    if not isinstance(app, App):
        raise Misuse(f"the setting EVERTICK names {name!r} as the app, but that is {app!r}")
    return app


def database_url(alias: str | None = None) -> str:
    """The address of Django's database `alias`, else of the one that the setting `EVERTICK` names, else of "default".

    Give the function itself to an app, `App("shop", database_url=database_url)`: so the address is asked for when it is
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
    """Bring the tables in Django's database `alias` up to this version; returns the names of the migrations.

    A database in memory, as Django's tests have it, gets them through Django's own connection. Raises what
    `App.migrate` raises.
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
        if key not in _DJANGOS_OWN and isinstance(value, str | int)  # a cursor_factory is Django's as well
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
    """Copy the tables of a new database into one in memory, unless it has them."""
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
# Django closes connections that have become unusable, or older than CONN_MAX_AGE, around each request. Actions are no
# requests, so a worker does it around each action: after a restart of the database the next one connects again.


def use_fresh_connections(app: App) -> None:
    """Let each `def` action of the app begin and end as a request does."""
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
