"""The user's own SQL inside a mutation's commit: `ctx.connection` and `ctx.session`.

Both see and change the user's own tables in the same transaction as everything else. Neither may end it: Evertick
commits when the function returned, and rolls back when it raised.
"""

from typing import Any, Final
from weakref import WeakKeyDictionary

from evertick.base.errors import Misuse
from evertick.store.contract import Store

_FORBIDDEN: Final = frozenset({"commit", "rollback", "close", "executescript", "autocommit", "isolation_level"})


class GuardedConnection:
    """The driver's connection without the methods that would end the transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Any) -> None:
        object.__setattr__(self, "_connection", connection)

    def __getattr__(self, name: str) -> Any:
        if name in _FORBIDDEN:
            raise Misuse(f"ctx.connection.{name}: the transaction belongs to the mutation; return, or raise to undo it")
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise Misuse(f"ctx.connection.{name} cannot be set: the connection is shared")


_engines: "WeakKeyDictionary[Store, Any]" = WeakKeyDictionary()


def open_session(store: Store, connection: Any) -> Any:
    """A SQLAlchemy session whose statements run on `connection`. Its own commit only ends a savepoint.

    Raises Misuse if SQLAlchemy is not installed.
    """
    try:
        from sqlalchemy.orm import Session
    except ImportError as error:
        raise Misuse(f"ctx.session needs SQLAlchemy ({error}): pip install 'evertick[sqlalchemy]'") from error
    engine = _engines.get(store)
    if engine is None:
        engine = _engines[store] = _engine_for(store)
    engine.evertick_connection = connection
    return Session(bind=engine.connect(), join_transaction_mode="create_savepoint")


def close_session(session: Any, *, keep: bool) -> None:
    """Write down what the session still holds (or forget it), and let the connection go."""
    try:
        if keep:
            session.commit()
    finally:
        bind = session.get_bind()
        session.close()
        bind.close()


def _engine_for(store: Store) -> Any:
    """An engine that never opens, commits, rolls back or closes a connection of its own."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    if store.dialect == "sqlite":
        url, options = "sqlite://", {}
    else:
        url, options = "postgresql+psycopg://", {"use_native_hstore": False}

    def current() -> Any:
        return engine.evertick_connection

    engine: Any = create_engine(url, creator=current, poolclass=NullPool, pool_reset_on_return=None, **options)
    for name in ("do_commit", "do_rollback", "do_close", "do_terminate"):
        setattr(engine.dialect, name, _nothing)
    return engine


def _nothing(*_: Any) -> None:
    """The transaction is not SQLAlchemy's to end."""
