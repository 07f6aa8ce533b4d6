"""The SQL of docs/guide/sharing-a-database.md does on PostgreSQL what the page says."""

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from evertick import App, MutationCtx
from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "guide" / "sharing-a-database.md"


@dataclass(frozen=True)
class Shared:
    """A database in which the page's statements were run, as three roles see it."""

    owner: str
    shop: str
    web: str


@pytest.fixture
def shared(postgres_url: str) -> Iterator[Shared]:
    """The page, followed from top to bottom; roles belong to the whole server, so they get names of their own."""
    parts = urlsplit(postgres_url)
    suffix = secrets.token_hex(4)
    shop, web = f"shop_{suffix}", f"web_{suffix}"
    first, second = [block.text for block in blocks_of(PAGE) if block.language == "sql"]

    def run(connection: psycopg.Connection, text: str) -> None:
        text = text.replace("in database shop", f"in database {parts.path[1:]}").replace("'...'", "'secret'")
        connection.execute(re.sub(r"\bweb\b", web, re.sub(r"\bshop\b", shop, text)).encode())

    def address(role: str) -> str:
        return urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}"))

    with psycopg.connect(postgres_url, autocommit=True) as owner:
        run(owner, first)
        migrating = App("shop", database_url=address(shop))
        migrating.migrate()
        migrating.close()
        run(owner, second)
        owner.execute("create table public.orders (id int)")
        owner.execute("create table public.jobs (title text)")
        owner.execute(f"grant insert on public.orders to {shop}, {web}".encode())
        yield Shared(postgres_url, address(shop), address(web))
        for role in (web, shop):
            owner.execute(f"drop owned by {role}; drop role {role}".encode())


@pytest.mark.postgres
def test_the_tables_lie_in_the_schema_and_yours_are_found_in_public(shared: Shared) -> None:
    for role in (shared.shop, shared.web):
        app = App("shop", database_url=role)

        @app.mutation
        def order(ctx: MutationCtx, order_id: int) -> None:
            ctx.connection.execute("insert into orders values (%s)", (order_id,))

        app.call(order, 1)
        with psycopg.connect(role) as connection:
            app.bind(connection).run_after(0, order, 2)
        with psycopg.connect(shared.owner) as connection:
            app.bind(connection).run_after(0, order, 3)
        app.close()

    with psycopg.connect(shared.owner) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'evertick'").fetchall()
        jobs = connection.execute("select count(*) from evertick.jobs").fetchall()
    assert jobs == [(4,)]
    described = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name for cell in described for name in re.findall(r"`(\w+)`", cell)}
    assert {name for (name,) in tables} == named
