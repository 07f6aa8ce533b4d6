"""Every form of the table of routes, sent twice: what it does, it does once.

People press a button again when nothing seems to happen, and browsers send a form again when a page is loaded anew.
"""

from typing import Any, Final

import pytest

from evertick import App
from tests.app.conftest import OpenApp
from tests.dashboard.conftest import text_of
from tests.dashboard.test_every_form import BEGIN, FIELDS, FORMS, form_of, sent_of, things_of
from tests.sampling import one_in

LATER: Final = {
    "functions/shop.order/run": {"when": "after", "after": "1h"},
    "functions/shop.fail/run": {"when": "after", "after": "1h"},
}
"""The same as a job."""
TOLD: Final = {
    "functions/shop.fail/run": 409,
    "settings/tokens/new": 409,
    "settings/tokens/{token}/rotate": 409,
}
"""Whose first reply cannot be given again: what an action returned, and the secret of a token, are kept nowhere."""
PLACES: Final = [*((where, {}) for places in FORMS.values() for where in places), *LATER.items()]


@pytest.mark.parametrize(("where", "more"), one_in(4, PLACES))
def test_a_form_sent_twice_does_what_it_does_once(open_app: OpenApp, where: str, more: dict[str, str]) -> None:
    things = things_of(open_app)
    site = things.site
    BEGIN.get(where, lambda app: None)(site.app)
    form = form_of(site, where.format(**things.ids))
    sent = sent_of(form) | {name: [value] for name, value in (FIELDS.get(where, {}) | more).items()}
    before = rows(site.app)
    first = site.request("POST", str(form["action"]), data=sent)
    assert first.status_code in (200, 303), text_of(first.text)
    once = rows(site.app)
    assert once != before, where
    second = site.request("POST", str(form["action"]), data=sent)
    assert rows(site.app) == once, where
    if where in TOLD and not more:
        assert second.status_code == TOLD[where], where
        assert "was already sent" in text_of(second.text)
    else:
        assert (second.status_code, second.headers.get("location")) == (
            first.status_code, first.headers.get("location")
        )  # fmt: skip


def rows(app: App) -> dict[str, int]:
    """How many rows each table of the database has."""

    def work(transaction: Any) -> dict[str, int]:
        query = (
            "select name from sqlite_master where type = 'table'"
            if app.environment.store.single_engine
            else "select schemaname || '.' || tablename from pg_tables where schemaname in ('public', 'evertick')"
        )
        execute = transaction.connection.execute
        names = [name for (name,) in execute(query).fetchall()]
        return {name: execute(f"select count(*) from {name}").fetchone()[0] for name in names}

    return app.environment.store.read(work)
