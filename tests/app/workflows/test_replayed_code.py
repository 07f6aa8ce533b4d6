"""Code that is run again over a history is given what the run was given, on both databases."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from uuid import UUID

import pytest
from pydantic import BaseModel

from evertick import App, MutationCtx, Step
from evertick.app.doctor import examine
from evertick.app.functions.function import Workflow
from evertick.testing import replay
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until


@dataclass
class Item:
    """A line of an order."""

    sku: str
    price: Decimal


class Address(BaseModel):
    """Where it goes."""

    street: str


class Size(Enum):
    """How large it is."""

    SMALL = "s"


GIVEN = (
    Item("a", Decimal("1.20")),
    Address(street="Elm"),
    Size.SMALL,
    Decimal("1.2"),
    datetime(2026, 11, 25, 20, 0, tzinfo=UTC),
    UUID(int=7),
    b"x\x00",
    timedelta(days=1),
    "text",
)


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app whose workflow says what its arguments are, first as it begins and then after a continue_as_new."""
    app = open_app()

    @app.mutation(name="write")
    def write(ctx: MutationCtx, text: str) -> str:
        ctx.db.insert("lines", {"text": text})
        return text

    @app.workflow(name="order")
    async def order(
        step: Step, item: Item, to: Address, size: Size, paid: Decimal, at: datetime, key: UUID, seal: bytes,
        lasts: timedelta, /, *notes: str, again: bool = False,
    ) -> str:  # fmt: skip
        text = await step.run(write, repr((item, to, size, paid, at.astimezone(UTC), key, seal, lasts, *notes)))
        await step.run(write, f"{item.sku} {to.street} {size.value} {lasts.total_seconds():g}")
        await step.wait_for("on")
        if not again:
            step.continue_as_new(item, to, size, paid, at, key, seal, lasts, *notes, again=True)
        return text

    return app


def test_replay_and_the_doctor_give_code_its_arguments_as_a_worker_does(app: App) -> None:
    order = app.functions.resolve("order")
    assert isinstance(order, Workflow)
    run_id = app.workflows.start(order, *GIVEN)

    def waits(generation: int) -> bool:
        history = app.workflows.history(run_id)
        return (history.generation, len(history.events)) == (generation, 4)

    for generation in (0, 1):
        with Engine(app):
            until(partial(waits, generation))
        history = app.workflows.history(run_id)
        assert replay(order, history) is replay(order, json.dumps(history.to_json())) is None
        report = examine(app, app.environment.store, None)
        assert (report.jobs, report.findings) == (1, ())
        app.workflows.signal(run_id, "on")

    with Engine(app):
        until(lambda: app.workflows.get(run_id).has_ended)
    result, ended = app.workflows.result(run_id), app.workflows.history(run_id)
    assert result.startswith("(Item(sku='a', price=Decimal('1.20')), Address(street='Elm'), <Size.SMALL: 's'>, ")
    assert replay(order, ended) == replay(order, json.dumps(ended.to_json())) == result
