"""An app whose customers have scripts, in worlds and on both databases."""

from collections.abc import Iterator
from typing import Any

import pytest

from evertick import App, MutationCtx, QueryCtx, SyncActionCtx
from evertick.functions import Action
from evertick.testing import World
from tests.app.conftest import OpenApp, open_app

__all__ = ["open_app"]


class Shop:
    """An app with orders, an outbox that scripts may write, and functions of its own for scripts."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.notices: list[tuple[str, str, str]] = []
        self.sent: list[str] = []
        app.table("orders", indexes={"by_status": ["status"]})
        scripts = app.scripts
        scripts.tables("orders", "outbox", write=["outbox"])

        @app.mutation(name="order")
        def order(ctx: MutationCtx, status: str, total: int = 0) -> str:
            return ctx.db.insert("orders", {"status": status, "total": total})

        @app.mutation(name="mark")
        def mark(ctx: MutationCtx, document_id: str, status: str) -> None:
            ctx.db.patch(document_id, {"status": status})

        @scripts.host("crm.count")
        def count(ctx: QueryCtx, status: str, at_least: int = 0) -> int:
            return sum(
                each["total"] >= at_least for each in ctx.db.query("orders").filter(lambda o: o["status"] == status)
            )

        @scripts.host("crm.close")
        def close(ctx: MutationCtx, document_id: str) -> None:
            ctx.db.patch(document_id, {"status": "closed"})

        @scripts.host("crm.send")
        def send(ctx: SyncActionCtx, text: str) -> str:
            self.sent.append(f"{ctx.tenant}: {text}")
            return "sent"

        @scripts.on_notify
        @app.action(name="notify")
        def notify(ctx: SyncActionCtx, channel: str, text: str) -> None:
            self.notices.append((ctx.tenant, channel, text))

        self.order, self.mark, self.close = order, mark, close
        self.notify: Action[Any, None] = notify

    def publish(
        self, source: str, name: str = "script", *, language: str = "javascript", tenant: str = "default"
    ) -> None:
        """Write a script, and let it run from now on."""
        scripts = self.app.tenant(tenant).scripts
        scripts.create(name, source if language == "python" else js(source), language=language)
        scripts.publish(name)


def js(body: str) -> str:
    """A script in JavaScript with this body."""
    return f"export default async function (ctx) {{\n{body}\n}}\n"


@pytest.fixture
def shop() -> Shop:
    return Shop(App("shop"))


@pytest.fixture
def world(shop: Shop) -> Iterator[World]:
    with World(shop.app) as world:
        yield world


@pytest.fixture
def open_shop(open_app: OpenApp) -> Shop:
    """The shop on a database, for real workers."""
    return Shop(open_app())
