"""Tables and documents over HTTP, and with a client."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from evertick.client import AsyncClient
from evertick.errors import DocumentNotFound, InvalidArguments, Misuse
from tests.client.conftest import Served, served
from tests.conftest import ON_BOTH_DATABASES
from tests.server.conftest import HOME, Http, http, open_app

__all__ = ["http", "open_app", "served"]


@ON_BOTH_DATABASES
def test_tables_and_documents_are_read_with_a_token_that_reads(http: Http) -> None:
    made = http.app.db.insert("orders", {"item": "bread", "price": Decimal("1.20")})
    reader = http.by("read", tenant="default")

    [table] = reader.ok("GET", f"{HOME}/tables")
    page = reader.ok("GET", f"{HOME}/tables/orders/documents", params={"limit": 1})
    document = reader.ok("GET", f"{HOME}/documents/{made}")

    assert (table["table"], table["documents"], table["more"]) == ("orders", 1, False)
    assert table == reader.ok("GET", f"{HOME}/tables/orders")
    assert page == {"documents": [document], "cursor": None}
    assert document["fields"] == {"item": "bread", "price": {"$decimal": "1.20"}}
    assert reader.problem(404, "GET", f"{HOME}/documents/orders_{'0' * 28}")["code"] == "document_not_found"


@pytest.mark.parametrize(
    ("path", "params", "says"),
    [
        ("tables/a b/documents", {}, "not a valid name for a table"),
        ("tables/orders/documents", {"where": "item"}, "a condition must be field=value"),
        ("tables/orders/documents", {"where": "item=1"}, "no index of table 'orders' begins with item"),
        ("tables/orders/documents", {"cursor": "x"}, "is not a cursor of this list"),
        ("tables/orders/documents", {"limit": 1_001}, "limit"),
        ("tables/orders/documents", {"order": "asc"}, "order"),
        ("documents/7", {}, "is not an id of a document"),
        (f"documents/job_{'0' * 28}", {}, "is the id of a job"),
    ],
)
def test_what_cannot_be_read_is_told(http: Http, path: str, params: dict[str, Any], says: str) -> None:
    problem = http.problem(422, "GET", f"{HOME}/{path}", params=params)
    assert says in str(problem)


def test_a_client_reads_what_the_app_shows(served: Served) -> None:
    app, made_at = served.app, datetime(2026, 3, 1, tzinfo=UTC)
    app.table("orders", indexes={"by_item": ["item"], "by_made": ["made"]})
    for item in ("bread", "tea", "7", 'say "x"'):
        app.db.insert("orders", {"item": item, "made": made_at})
    made = app.db.insert("orders", {"item": 7})

    with served.client() as client:
        assert client.data.tables() == app.data.tables()
        assert client.data.get_table("orders") == app.data.get_table("orders")
        assert client.data.list("orders", limit=2) == app.data.list("orders", limit=2)
        cursor = client.data.list("orders", limit=2).cursor
        assert (
            client.data.list("orders", cursor=cursor, newest_first=True).documents
            == (app.data.list("orders").documents[2:])
        )
        for item in ("bread", "7", 'say "x"', 7):
            found = client.data.list("orders", where={"item": item}, newest_first=False)
            assert [each.fields["item"] for each in found.documents] == [item]
        assert len(client.data.list("orders", where={"made": made_at}).documents) == 4
        assert client.data.get(made) == app.data.get(made)
        with pytest.raises(DocumentNotFound):
            client.data.get(f"orders_{'0' * 28}")
        with pytest.raises(InvalidArguments):
            client.data.get("orders")
        with pytest.raises(Misuse, match="no index"):
            client.data.list("orders", where={"price": 1})


def test_a_client_awaits_the_same(served: Served) -> None:
    made = served.app.db.insert("orders", {"item": "bread"})

    async def read() -> list[str]:
        async with AsyncClient(served.url, token=served.token) as client:
            return [each.id for each in (await client.data.list("orders")).documents]

    assert asyncio.run(read()) == [made]
