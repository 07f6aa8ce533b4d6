"""Texts that no database can hold are refused with a clear error, wherever a caller can put one."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, MutationCtx, QueryCtx, every
from evertick.errors import EvertickError, InvalidText
from tests.app.conftest import OpenApp

HALF = "a\udc80b"
CALLS: dict[str, Callable[[App], Any]] = {
    "argument": lambda app: app.call("keep", HALF),
    "job's argument": lambda app: app.scheduler.run_after(0, "keep", HALF),
    "name of a function": lambda app: app.scheduler.run_after(0, HALF),
    "key": lambda app: app.scheduler.using(key=HALF).run_after(0, "keep", "x"),
    "job's id": lambda app: app.scheduler.cancel(HALF),
    "function to cancel": lambda app: app.scheduler.cancel_all(HALF),
    "document's id": lambda app: app.call("get", HALF),
    "schedule's id": lambda app: app.schedules.create(HALF, when=every(hours=1), do="keep"),
    "schedule to get": lambda app: app.schedules.get(HALF),
    "schedule to delete": lambda app: app.schedules.delete(HALF),
    "schedule's occurrences": lambda app: app.schedules.occurrences(HALF),
    "tenant": lambda app: app.tenant(HALF),
    "cron": lambda app: app.crons.add(HALF, every(hours=1), app.functions.resolve("get")),
    "name of a mutation": lambda app: app.mutation(name=HALF)(lambda ctx: None),
    "app's name": lambda app: App(HALF),
}


@pytest.mark.parametrize("where", CALLS)
def test_half_of_a_character_is_refused_wherever_it_comes(open_app: OpenApp, where: str) -> None:
    app = open_app()

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx, text: str) -> None:
        """Nothing."""

    @app.query(name="get")
    def get(ctx: QueryCtx, document_id: str) -> Any:
        return ctx.db.get(document_id)

    app.migrate()
    app.schedules.create("s", when=every(hours=1), do=keep.with_args("x"))

    with pytest.raises(EvertickError, match=r"udc80|surrogates") as caught:
        CALLS[where](app)

    if isinstance(caught.value, InvalidText):
        assert isinstance(caught.value, ValueError)
        assert "at position" in str(caught.value)
    assert app.call("get", "things_" + "0" * 28) is None


def test_half_of_a_character_in_a_note_is_kept_as_its_escape(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx, text: str) -> None:
        """Nothing."""

    app.migrate()
    app.schedules.create("s", when=every(hours=1), do=keep.with_args("x"), note=HALF)
    assert app.schedules.get("s").note == "a\\udc80b"
    app.schedules.pause("s", f"{HALF}\0")
    assert app.schedules.get("s").note == "a\\udc80b\\x00"


def test_texts_come_back_from_jobs_that_are_scheduled_in_bulk(open_app: OpenApp) -> None:
    """PostgreSQL gets them by COPY, whose own signs are among them."""
    app = open_app()

    @app.mutation(name="keep")
    def keep(ctx: MutationCtx, text: str) -> None:
        """Nothing."""

    texts = ["\\N", "\\.", "\\", "a\\tb", "tab\tline\nreturn\r", "\x7f\x01", "\u2028", "ä😀", "", '"', "null", "," * 3]
    for key in (None, "\\N", "a\\b"):
        scheduler = app.scheduler.using(limit_key=key)
        ids = scheduler.run_after_many(3600, [keep.with_args(text) for text in texts * 2])
        jobs = [app.jobs.get(job_id) for job_id in ids]
        assert [job.args["text"] for job in jobs] == texts * 2
        assert {job.limit_key for job in jobs} == {key}
