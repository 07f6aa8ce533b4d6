"""The shop's API. `uvicorn shop.web:api` serves it; it schedules jobs and runs none."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from shop.database import engine, session
from shop.jobs import app, ask_for_review, remind
from shop.models import Order

REMIND_AFTER = timedelta(seconds=float(os.environ.get("SHOP_REMIND_AFTER_SECONDS", "259200")))
REVIEW_AFTER = 2 * REMIND_AFTER


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """Open Evertick's database when the application starts, so that a wrong address is an error then."""
    async with app:
        yield
    await engine.dispose()


api = FastAPI(lifespan=lifespan)
RequestSession = Annotated[AsyncSession, Depends(session, scope="function")]  # commits before the response is sent


class NewOrder(BaseModel):
    """What a customer sends."""

    email: str
    item: str


@api.post("/orders", status_code=201)
async def place_order(new: NewOrder, session: RequestSession) -> int:
    """Place an order; returns its number. The order and its jobs are one commit."""
    order = Order(email=new.email, item=new.item)
    session.add(order)
    await session.flush()  # gives the order its number
    scheduler = app.bind(session)
    order.reminder_id = await scheduler.run_after(REMIND_AFTER, remind, order.id, email=order.email)
    await scheduler.run_after(REVIEW_AFTER, ask_for_review, order.id)
    return order.id


@api.post("/orders/{order_id}/payment", status_code=204)
async def pay(order_id: int, session: RequestSession) -> None:
    """Pay an order. Its reminder is canceled in the same commit."""
    order = await session.get(Order, order_id, with_for_update=True)
    if order is None:
        raise HTTPException(404, f"there is no order {order_id}")
    order.is_paid = True
    if order.reminder_id is not None:
        await app.bind(session).cancel(order.reminder_id)
