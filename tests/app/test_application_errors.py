"""An application's own errors carry data, and it comes through wherever one asks how a job ended."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from evertick import ActionCtx, App, ApplicationError, JobResult, MutationCtx, NonRetryable, QueryCtx, Retry
from evertick.base.errors import InvalidArguments, ValueTooLarge
from evertick.functions import JobState
from tests.app.engine import Engine

OpenApp = Callable[..., App]

SOLD_OUT = {"code": "sold_out", "left": [0, None, 1.5], "née": "é"}


class CardDeclined(ApplicationError, NonRetryable):
    """No retry helps."""


class Careless(ApplicationError):
    """It does not call what it overrides."""

    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        return "careless"


def test_the_data_of_an_error_stays_with_its_job_and_is_told_to_its_completion(open_app: OpenApp) -> None:
    app = open_app()
    told: list[JobResult] = []

    @app.mutation
    def reserve(ctx: MutationCtx) -> None:
        ctx.db.insert("orders", {})
        raise ApplicationError(SOLD_OUT)

    @app.action
    async def buy(ctx: ActionCtx) -> None:
        await ctx.run_mutation(reserve)

    @app.mutation
    def done(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None:
        told.append(result)

    @app.query
    def job_of(ctx: QueryCtx, job_id: str) -> Any:
        return ctx.db.system.get(job_id)

    for function in (reserve, buy):
        told.clear()
        job_id = app.scheduler.using(on_complete=done).run_after(0, function)
        with Engine(app) as engine:
            job = engine.wait(job_id)
            engine.until(lambda: told or None)

        text = 'ApplicationError: {"code": "sold_out", "left": [0, null, 1.5], "n\\u00e9e": "\\u00e9"}'
        assert (job.state, job.error, job.error_data, job.attempt) == (JobState.FAILED, text, SOLD_OUT, 1)
        assert app.call(job_of, job_id)["state"] == {"kind": "failed", "error": text, "error_data": SOLD_OUT}
        assert told[-1] == JobResult("failed", error=text, error_data=SOLD_OUT)  # a conflict runs `done` again
        with pytest.raises(ApplicationError) as caught:
            app.call(function)
        assert caught.value.data == SOLD_OUT


def test_other_errors_carry_none_and_a_careless_subclass_harms_nobody(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation
    def plain(ctx: MutationCtx) -> None:
        raise ValueError("boom")

    @app.mutation
    def careless(ctx: MutationCtx) -> None:
        raise Careless

    @app.mutation
    def spoilt(ctx: MutationCtx) -> None:
        error = ApplicationError({})
        error.data["app"] = app
        raise error

    @app.query
    def job_of(ctx: QueryCtx, job_id: str) -> Any:
        return ctx.db.system.get(job_id)

    ids = [app.scheduler.run_after(0, function) for function in (plain, careless, spoilt)]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]

    assert [job.error_data for job in jobs] == [None] * 3
    assert [str(job.error).partition(":")[0] for job in jobs] == ["ValueError", "Careless", "ApplicationError"]
    assert all("error_data" not in app.call(job_of, job_id)["state"] for job_id in ids)


def test_one_is_tried_again_only_as_its_policy_and_its_class_say(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation
    def decline(ctx: MutationCtx, *, for_good: bool) -> None:
        raise CardDeclined({"attempt": ctx.attempt}) if for_good else ApplicationError({"attempt": ctx.attempt})

    patient = app.scheduler.using(retry=Retry(3, first=0.001))
    ids = [patient.run_after(0, decline, for_good=for_good) for for_good in (True, False)]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]

    assert [(job.attempt, job.error_data) for job in jobs] == [(1, {"attempt": 1}), (3, {"attempt": 3})]


@pytest.mark.parametrize("data", [object(), {1, 2}, float("nan"), {"deep": b"bytes"}, {(1, 2): 3}])
def test_data_that_is_no_json_is_refused_where_it_is_raised(data: Any) -> None:
    with pytest.raises(InvalidArguments, match="the data of an error cannot be stored as JSON"):
        ApplicationError(data)


def test_data_has_a_limit_and_a_text() -> None:
    assert str(ApplicationError("sold out")) == "sold out"
    assert str(ApplicationError(None)) == "null"
    assert pickle.loads(pickle.dumps(ApplicationError({"n": 1}))).data == {"n": 1}
    ApplicationError("x" * 65_534)
    with pytest.raises(ValueTooLarge, match="65537 characters; the limit is 65536"):
        ApplicationError("x" * 65_535)
