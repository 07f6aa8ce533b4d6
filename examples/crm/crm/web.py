"""The CRM over HTTP: `uvicorn crm.web:api`. Each such process serves requests and runs scripts; there may be many.

Below /automation is the HTTP API of Evertick, and its pages, on which people write their scripts. Whoever comes with
the key of a company sees that company alone.
"""

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from crm import tables
from crm.automation import app
from crm.tables import Cart, Company, Mail, session
from evertick.dashboard.application import Dashboard
from evertick.integrations.asgi import Identity, lifespan, router

RequestSession = Annotated[Session, Depends(session, scope="function")]  # commits before the response is sent


def company_of(request: Request) -> Company | None:
    """Whose key a request has: in a header, or in the cookie of a browser."""
    key = request.headers.get("x-api-key") or request.cookies.get("crm_key")
    with Session(tables.engine) as session:
        return session.scalar(select(Company).where(Company.key == key)) if key else None


def who(request: Request) -> Identity | None:
    """Who sends a request to Evertick: the people of a company may do everything with its scripts and schedules."""
    company = company_of(request)
    return None if company is None else Identity(name=company.name, tenant=company.name, scope="edit")


def known(request: Request) -> Company:
    """The company, for requests that need one."""
    company = company_of(request)
    if company is None:
        raise HTTPException(401, "send the key of your company as X-Api-Key")
    return company


Known = Annotated[Company, Depends(known)]

automation = router(app, authorize=who)
automation.show(Dashboard())
api = FastAPI(lifespan=lifespan(app, worker=True))
api.mount("/automation", automation)


class NewCart(BaseModel):
    """A cart as a shop reports it."""

    email: str
    value: float
    touched_at: int


@api.get("/enter/{key}")
def enter(key: str) -> RedirectResponse:
    """Keep the key in the browser, and go on to the scripts of the company."""
    with Session(tables.engine) as session:
        company = session.scalar(select(Company).where(Company.key == key))
    if company is None:
        raise HTTPException(404, "there is no such key")
    reply = RedirectResponse(f"/automation/t/{company.name}/scripts", status_code=303)
    reply.set_cookie("crm_key", key, httponly=True, samesite="strict")
    return reply


@api.post("/carts", status_code=201)
def report_cart(new: NewCart, company: Known, session: RequestSession) -> int:
    """Report a cart; returns its number."""
    cart = Cart(company=company.name, email=new.email, value=new.value, touched_at=new.touched_at)
    session.add(cart)
    session.flush()  # gives the cart its number
    return cart.id


@api.get("/mails")
def list_mails(company: Known, session: RequestSession) -> list[dict[str, str]]:
    """The mails of a company, the oldest first."""
    found = session.scalars(select(Mail).where(Mail.company == company.name).order_by(Mail.id))
    return [{"to": each.to, "subject": each.subject, "body": each.body} for each in found]
