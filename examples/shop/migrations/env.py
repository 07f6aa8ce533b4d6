"""Alembic: `alembic upgrade head` migrates the shop's own tables, as `evertick migrate` migrates Evertick's."""

from alembic import context
from sqlalchemy import create_engine

from shop.database import URL
from shop.models import Base


def include_name(name: str | None, type_: str, parent_names: object) -> bool:
    """Leave Evertick's tables alone: on SQLite they are beside the shop's, on PostgreSQL in a schema of their own."""
    return type_ != "table" or not (name or "").startswith("evertick_")


engine = create_engine(URL)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, include_name=include_name)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
