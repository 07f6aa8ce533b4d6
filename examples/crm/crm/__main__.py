"""`python -m crm`: the CRM with two companies and some data of theirs, at http://localhost:8000."""

import secrets
import time

import uvicorn
from sqlalchemy.orm import Session

from crm.automation import HOUR_MS, app, automate
from crm.tables import Base, Cart, Case, Company, Sale, engine

DAY_MS = 24 * HOUR_MS


def fill() -> None:
    """Make two companies with carts, sales and cases, unless there are some."""
    Base.metadata.create_all(engine)
    now = int(time.time() * 1_000)
    with Session(engine) as session, session.begin():
        if session.query(Company).first() is not None:
            return
        for name in ("acme", "globex"):
            session.add(Company(name=name, key=secrets.token_urlsafe()))
            session.flush()
            session.add_all(
                [
                    Cart(company=name, email=f"ada@{name}.example", value=30, touched_at=now - 2 * DAY_MS),
                    Cart(company=name, email=f"ben@{name}.example", value=70, touched_at=now - HOUR_MS),
                    Sale(company=name, value=1_200, sold_at=now - 3 * DAY_MS),
                    Case(
                        company=name, title="It does not start", owner=f"eve@{name}.example", opened_at=now - 2 * DAY_MS
                    ),
                ]
            )
    with app:
        for name in ("acme", "globex"):
            automate(name)


if __name__ == "__main__":
    fill()
    with Session(engine) as session:
        for company in session.query(Company).order_by(Company.name):
            print(f"{company.name}: http://localhost:8000/enter/{company.key}")
    uvicorn.run("crm.web:api", log_level="warning")
