"""A server over an app, called without a network."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Settings, Step
from evertick.app.functions.function import FunctionCall
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.insight import SLOT_MS, ActivityRow, PoolActivityRow
from evertick.errors import EvertickError
from evertick.server.application import Server
from evertick.server.limits import Limits
from tests.app.conftest import OpenApp, open_app
from tests.conftest import empty_database

__all__ = ["open_app"]

HOME = "/api/v1/tenants/default"


class HostileError(Exception):
    """An error that nobody can print."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def shop_on(open_app: OpenApp) -> App:
    """An app with a function of every kind."""
    app = open_app("shop", settings=Settings(poll=timedelta(milliseconds=100)))

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx, item: str, n: int = 1) -> str:
        """Order something."""
        return ctx.db.insert("orders", {"item": item, "n": n})

    @app.query(name="shop.count")
    def count(ctx: QueryCtx) -> int:
        return len(ctx.db.query("orders").collect())

    @app.action(name="shop.fail")
    async def fail(ctx: ActionCtx, how: str) -> None:
        raise {"hostile": HostileError, "exit": SystemExit, "stop": KeyboardInterrupt, "own": EvertickError}.get(
            how, ValueError
        )(how.replace("half", "\ud800"))

    @app.mutation(name="shop.secret", internal=True)
    def secret(ctx: MutationCtx) -> None: ...

    @app.workflow(name="shop.fulfil")
    async def fulfil(step: Step, order_id: str) -> str:
        return str(await step.wait_for("paid"))

    app.migrate()
    app.open()
    return app


def order_of(app: App) -> FunctionCall:
    """An order of the shop, as what a schedule does."""
    order = app.functions.resolve("shop.order")
    return FunctionCall(order, order.encode_args((), {"item": "x"}))


def add_activity(app: App, function: str, *, ended: int, failed: int, pool: str = "default") -> None:
    """What a worker writes when attempts of a function in a pool have ended just now."""
    now = app.environment.clock.now()
    rows = [
        ActivityRow(DEFAULT_TENANT, name, Instant(now // span * span), "w1", ended, failed, 0, 0, late, None)
        for name, span, late in (("", MINUTE_MS, '{"0":1}'), (function, SLOT_MS, None))
    ]
    slot = Instant(now // SLOT_MS * SLOT_MS)
    in_pool = PoolActivityRow(DEFAULT_TENANT, pool, slot, "w1", ended, failed, 0, 0, '{"0":1}')
    app.environment.store.write(lambda transaction: transaction.add_activity(rows, [in_pool]))


@dataclass
class Http:
    """Sends requests to a server in this process."""

    app: App
    server: Server
    secret: str | None

    def __call__(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One request, with the token unless it brings another one."""
        own = {} if self.secret is None else {"Authorization": f"Bearer {self.secret}"}
        given = options.pop("headers", {})
        headers = (own | given).items() if isinstance(given, dict) else [*own.items(), *given]
        return asyncio.run(self._send(method, path, list(headers), options))

    async def _send(self, method: str, path: str, headers: list[tuple[str, str]], options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self.server, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            reply = await client.request(method, path, headers=headers, **options)
        while tasks := self.server.api.state.tasks:
            await asyncio.wait(tasks)
        return reply

    def ok(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of a reply that must be good."""
        reply = self(method, path, **options)
        assert reply.status_code < 300, reply.text
        return reply.json() if reply.content else None

    def problem(self, status: int, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The problem of a reply that must have this status."""
        reply = self(method, path, **options)
        assert reply.status_code == status, reply.text
        assert reply.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = reply.json()
        assert found["request"] == reply.headers["x-request-id"]
        assert found["status"] == status
        return found

    def by(self, scope: str, tenant: str | None = None) -> "Http":
        """The same by a new token."""
        return Http(self.app, self.server, self.app.tokens.create(f"{scope} token", scope=scope, tenant=tenant).secret)


def http_of(app: App, limits: Limits | None = None, **options: Any) -> Http:
    """A server over an app, called with a token that may do everything."""
    secret = app.tokens.create("root", scope="admin").secret
    return Http(app, Server(app, limits=limits, **options), secret)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty SQLite database; of each kind under ON_BOTH_DATABASES."""
    return empty_database(request, getattr(request, "param", "sqlite"))


@pytest.fixture
def http(open_app: OpenApp) -> Iterator[Http]:
    """A server over the shop."""
    yield http_of(shop_on(open_app))
