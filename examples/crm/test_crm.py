"""The CRM under a clock that jumps: real scripts in the sandbox, on a database in memory."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from crm.automation import HOUR_MS, app, automate
from crm.tables import Base, Cart, Case, Company, Mail, Sale
from evertick.testing import World

DAY_MS = 24 * HOUR_MS
SUNDAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def world() -> Iterator[World]:
    """Two companies, the first with the three scripts, on a Sunday at noon."""
    with World(app, at=SUNDAY) as world:
        Base.metadata.create_all(world.engine)
        add(world, Company(name="acme", key="a"), Company(name="globex", key="g"))
        automate("acme")
        yield world


def add(world: World, *rows: Base) -> list[int]:
    """Add rows; returns their numbers."""
    with Session(world.engine) as session, session.begin():
        session.add_all(rows)
        session.flush()
        return [getattr(each, "id", 0) for each in rows]


def ms(world: World) -> int:
    """The time in the world."""
    return int(world.now.timestamp() * 1_000)


def mails(world: World, company: str) -> list[tuple[str, str]]:
    """To whom a company has sent mails, and about what."""
    with Session(world.engine) as session:
        found = session.scalars(select(Mail).where(Mail.company == company).order_by(Mail.id))
        return [(each.to, each.subject) for each in found]


def test_those_whose_cart_is_open_from_yesterday_are_reminded_once(world: World) -> None:
    old, new = ms(world) - 2 * DAY_MS, ms(world) + 12 * HOUR_MS
    add(
        world,
        Cart(company="acme", email="ada@x.example", value=30, touched_at=old),
        Cart(company="acme", email="ben@x.example", value=70, touched_at=new),
        Cart(company="acme", email="eve@x.example", value=10, touched_at=old, state="paid"),
    )

    world.advance(timedelta(days=1))
    assert mails(world, "acme") == [("ada@x.example", "Your cart is waiting")]

    world.advance(timedelta(days=1))
    assert [to for to, _ in mails(world, "acme")] == ["ada@x.example", "ben@x.example"]


def test_the_sales_of_a_week_are_mailed_if_they_are_above_a_value(world: World) -> None:
    add(
        world,
        Sale(company="acme", value=900, sold_at=ms(world) - DAY_MS),
        Sale(company="acme", value=300, sold_at=ms(world) - 2 * DAY_MS),
        Sale(company="globex", value=900, sold_at=ms(world) - DAY_MS),
    )

    world.advance(timedelta(days=1))

    assert mails(world, "acme") == [("manager@example.com", "Sales until 2026-03-02")]
    [run] = app.tenant("acme").scripts.runs("weekly-totals")
    assert world.tenant("acme").job(run.job_id).result == 1_200, "without those of the other company"


def test_the_owner_of_a_case_without_a_response_is_told_after_a_day(world: World) -> None:
    add(world, Case(company="acme", title="It is broken", owner="eve@x.example", opened_at=ms(world)))

    world.advance(timedelta(hours=23))
    assert mails(world, "acme") == []

    world.advance(timedelta(hours=2))
    assert mails(world, "acme") == [("eve@x.example", "No response yet: It is broken")]


def test_a_script_reaches_no_row_of_another_company(world: World) -> None:
    [case] = add(world, Case(company="acme", title="Secret", owner="eve@x.example", opened_at=0))
    scripts = app.tenant("globex").scripts
    scripts.create(
        "thief",
        "export default async function (ctx) {"
        "  await ctx.mail('me@g.example', 'found', JSON.stringify(await ctx.cases.waiting(0)));"
        "  await ctx.cases.escalate(ctx.input);"
        "}",
        language="javascript",
    )
    scripts.publish("thief")

    job = scripts.start("thief", case)
    world.advance(1)

    [run] = scripts.run(job)
    assert run.outcome == "error" and run.error is not None and f"no case {case}" in run.error.message
    assert mails(world, "globex") == [], "nothing of a run that fails is kept"
    assert app.tenant("acme").scripts.runs("thief") == []
