"""The CRM's own tables, and where the database is. Every row belongs to a company."""

import os
from collections.abc import Iterator
from typing import Annotated

from sqlalchemy import BigInteger, ForeignKey, create_engine, make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

ADDRESS = os.environ.get("CRM_DATABASE_URL", "sqlite:///crm.db")
_url = make_url(ADDRESS)
engine = create_engine(_url if _url.get_backend_name() == "sqlite" else _url.set(drivername="postgresql+psycopg"))


Moment = Annotated[int, mapped_column(BigInteger)]
"""Milliseconds since 1970, as scripts have them."""


class Base(DeclarativeBase):
    """All tables of the CRM."""


class Company(Base):
    """A customer of ours, and the key by which its people and programs come in."""

    __tablename__ = "companies"

    name: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)


class OfCompany:
    """What every row has."""

    id: Mapped[int] = mapped_column(primary_key=True)
    company: Mapped[str] = mapped_column(ForeignKey("companies.name"), index=True)


class Cart(OfCompany, Base):
    """A shopping cart. `touched_at` is when something was put into it or taken out."""

    __tablename__ = "carts"

    email: Mapped[str]
    value: Mapped[float]
    state: Mapped[str] = mapped_column(default="open")
    touched_at: Mapped[Moment]


class Sale(OfCompany, Base):
    """Something that was sold."""

    __tablename__ = "sales"

    value: Mapped[float]
    sold_at: Mapped[Moment]


class Case(OfCompany, Base):
    """What somebody has asked for; `answered_at` is when somebody of the company responded."""

    __tablename__ = "cases"

    title: Mapped[str]
    owner: Mapped[str]
    opened_at: Mapped[Moment]
    answered_at: Mapped[Moment | None]
    is_escalated: Mapped[bool] = mapped_column(default=False)


class Mail(OfCompany, Base):
    """A mail to be sent. A program that hands them to a mail server is not part of this example."""

    __tablename__ = "mails"

    to: Mapped[str]
    subject: Mapped[str]
    body: Mapped[str]


def session() -> Iterator[Session]:
    """A transaction for one request: committed when the handler has returned, rolled back if it raised."""
    with Session(engine) as session, session.begin():
        yield session
