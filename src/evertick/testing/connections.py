"""Connections of a test to the database of its world: for the program's tables, and for `app.bind`."""

import sqlite3
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from evertick.base.lazy import missing_extra
from evertick.store.sqlite.address import path_of

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine


class OwnConnections(ABC):
    """Creates connections and engines. The world's worker notices their commits when time passes."""

    _engine: "Engine | None" = None
    _async_engine: "AsyncEngine | None" = None

    @property
    @abstractmethod
    def database_url(self) -> str:
        """The address of the world's database."""

    def connect(self) -> sqlite3.Connection:
        """A new connection of sqlite3 to this world's database. The caller closes it."""
        connection = sqlite3.connect(path_of(self.database_url) or "", check_same_thread=False)
        connection.execute("pragma synchronous = off")
        return connection

    @property
    def engine(self) -> "Engine":
        """A SQLAlchemy engine on this world's database: `Session(world.engine)`."""
        if self._engine is None:
            self._engine = self._new_engine()
        return self._engine

    @property
    def async_engine(self) -> "AsyncEngine":
        """An async engine on this world's database: `AsyncSession(world.async_engine)`. It needs no async driver.

        Its statements take no simulated time and use no thread, so it works in every event loop, including the world's.
        """
        if self._async_engine is None:
            engine = self._new_engine()
            from sqlalchemy import event
            from sqlalchemy.ext.asyncio import AsyncEngine
            from sqlalchemy.util import await_only

            engine.dialect.is_async = True

            @event.listens_for(engine, "before_cursor_execute")
            def awaits(*_: Any) -> None:
                await_only(_nothing())  # SQLAlchemy refuses a driver that never awaits

            self._async_engine = AsyncEngine(engine)
        return self._async_engine

    def dispose(self) -> None:
        """Dispose of the engines."""
        for engine in (self._engine, self._async_engine and self._async_engine.sync_engine):
            if engine is not None:
                engine.dispose()

    def _new_engine(self) -> "Engine":
        try:
            from sqlalchemy import create_engine
            from sqlalchemy.pool import NullPool
        except ModuleNotFoundError as error:
            raise missing_extra(error, "sqlalchemy", "engines need SQLAlchemy", "sqlalchemy") from None

        return create_engine("sqlite://", creator=self.connect, poolclass=NullPool)


async def _nothing() -> None:
    """Return immediately."""
