"""A newsletter: signing up sends a welcome a minute later. `uvicorn app:api` serves it and runs the jobs."""

import hmac
import os
import secrets
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Response
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from starlette.requests import Request

from evertick import App, MutationCtx
from evertick.integrations.asgi import Identity, lifespan, router

URL = os.environ.get("NEWSLETTER_DATABASE_URL", "sqlite:///newsletter.db")
PASSWORD = os.environ.get("NEWSLETTER_PASSWORD", "")

app = App("newsletter", database_url=URL)
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))


class Base(DeclarativeBase):
    """The newsletter's own tables, beside those of Evertick."""


class Reader(Base):
    """Somebody who has signed up."""

    __tablename__ = "readers"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(unique=True)
    is_welcome: Mapped[bool] = mapped_column(default=False)


class Login(Base):
    """A browser in which one of the editors has logged in."""

    __tablename__ = "logins"

    cookie: Mapped[str] = mapped_column(primary_key=True)
    editor: Mapped[str]


@app.mutation
def welcome(ctx: MutationCtx, reader_id: int) -> None:
    """Welcome a reader. The row is changed in the transaction that ends the job."""
    reader = ctx.session.get_one(Reader, reader_id)
    reader.is_welcome = True
    ctx.log.info("welcome, %s", reader.email)


def session() -> Iterator[Session]:
    """A transaction for one request: committed when the handler has returned, rolled back if it raised."""
    with Session(engine) as session, session.begin():
        yield session


RequestSession = Annotated[Session, Depends(session, scope="function")]  # commits before the response is sent


def editor_of(request: Request) -> Identity | None:
    """Who of the editors sends a request; asked for every one to the API of Evertick below /jobs."""
    cookie = request.cookies.get("login")
    if cookie is None:
        return None
    with Session(engine) as session:
        login = session.get(Login, cookie)
        return None if login is None else Identity(name=login.editor, tenant="default", scope="operate")


api = FastAPI(lifespan=lifespan(app, worker=True))
api.mount("/jobs", router(app, authorize=editor_of))


class SignUp(BaseModel):
    """What a reader sends."""

    email: str


class Password(BaseModel):
    """What an editor sends."""

    editor: str
    password: str


@api.post("/readers", status_code=201)
def sign_up(new: SignUp, session: RequestSession) -> str:
    """Add a reader, and schedule the welcome; returns the id of its job. Both are one commit."""
    reader = Reader(email=new.email)
    session.add(reader)
    session.flush()  # gives the reader an id
    return app.bind(session).run_after(60, welcome, reader.id)


@api.post("/login", status_code=204)
def log_in(given: Password, session: RequestSession, response: Response) -> None:
    """Let an editor in."""
    if not PASSWORD or not hmac.compare_digest(given.password.encode(), PASSWORD.encode()):
        raise HTTPException(403, "that is not the password")
    login = Login(cookie=secrets.token_urlsafe(), editor=given.editor)
    session.add(login)
    response.set_cookie("login", login.cookie, httponly=True, secure=True, samesite="lax")
