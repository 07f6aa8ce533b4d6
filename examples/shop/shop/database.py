"""Where the database is. One variable is read by Evertick, by SQLAlchemy and by Alembic."""

import os
from collections.abc import AsyncIterator

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

ADDRESS = os.environ.get("EVERTICK_DATABASE_URL", "sqlite:///shop.db")

# `?prefix=` and `?schema=` can name another place for Evertick's own tables. SQLAlchemy does not know them.
_address = make_url(ADDRESS).difference_update_query(["prefix", "schema"])
IS_SQLITE = _address.get_backend_name() == "sqlite"
URL = _address if IS_SQLITE else _address.set(drivername="postgresql+psycopg")
ASYNC_URL = URL.set(drivername="sqlite+aiosqlite") if IS_SQLITE else URL

engine = create_async_engine(
    ASYNC_URL,
    pool_pre_ping=True,  # a connection that died while it was idle is replaced
    connect_args={"timeout": 30} if IS_SQLITE else {},  # seconds to wait for another writer of the file
)
_sessions = async_sessionmaker(engine, expire_on_commit=False)


async def session() -> AsyncIterator[AsyncSession]:
    """A session for one request: committed when the handler has returned, rolled back if it raised."""
    async with _sessions.begin() as session:
        yield session
