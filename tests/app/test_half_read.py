"""Statements that a function leaves half read: in a variable, in the traceback of its error, while it calls others."""

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from evertick import MutationCtx
from evertick.app.execution import user_sql
from tests.app.conftest import OpenApp

THREE = "select 1 union all select 2 union all select 3"
kept: list[Any] = []


def read_and_raise(ctx: MutationCtx) -> None:
    rows = ctx.session.execute(text(THREE))
    rows.fetchone()
    raise ValueError("in the middle")


def read_and_keep(ctx: MutationCtx) -> None:
    rows = ctx.connection.execute(THREE)
    rows.fetchone()
    kept.append(rows)


@pytest.mark.parametrize("leave", [read_and_raise, read_and_keep], ids=lambda leave: leave.__name__)
def test_a_statement_left_half_read_troubles_no_other_function(
    leave: Callable[[MutationCtx], None], open_app: OpenApp
) -> None:
    app = open_app()
    app.mutation(name="leave")(leave)

    @app.mutation(name="count")
    def count(ctx: MutationCtx) -> int:
        return int(ctx.session.execute(text("select 7")).scalar_one())

    app.migrate()
    gc.disable()  # an exception holds its frames until it is collected
    try:
        for _ in range(3):
            with contextlib.suppress(ValueError):
                app.call("leave")
            assert app.call("count") == 7
    finally:
        gc.enable()
        kept.clear()


def test_a_function_called_in_the_middle_of_a_read_has_a_session(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation(name="inner")
    def inner(ctx: MutationCtx, number: int) -> int:
        return int(ctx.session.execute(text("select :n * 2"), {"n": number}).scalar_one())

    @app.mutation(name="outer")
    def outer(ctx: MutationCtx) -> list[int]:
        return [ctx.run_mutation(inner, row[0]) for row in ctx.connection.execute(THREE)]

    app.migrate()
    assert app.call("outer") == app.call("outer") == [2, 4, 6]


def test_the_engine_of_sessions_is_made_before_the_first_function_whose_time_it_would_take(open_app: OpenApp) -> None:
    app = open_app()
    app.migrate()

    assert app.environment.store in user_sql._engines
