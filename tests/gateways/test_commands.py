"""Schedules and jobs that run commands of gateways."""

from typing import Any

import pytest

from evertick import App, Retry
from evertick.app.doctor import examine
from evertick.app.gateways import commands
from evertick.base.errors import FunctionNotFound, GatewayNotFound, Misuse, UnknownCommand
from evertick.base.records.jobs import GATEWAY_FUNCTION, Claim
from evertick.functions import JobState
from evertick.rules.jobs.lifecycle import lost
from tests.app.engine import Engine
from tests.gateways.conftest import Platform


def keys_of(platform: Platform) -> list[str]:
    """The idempotency keys with which commands were asked for."""
    asked = platform.played["edge-1"].asked
    return [each.headers["Idempotency-Key"] for each in asked if each.path == "/v1/commands/hello/run"]


def run(platform: Platform, **options: Any) -> Any:
    """The end of a job that runs the command `hello` of `edge-1`."""
    app = platform.app
    job_id = app.scheduler.run_after_many(0, [app.gateways.command("edge-1", "hello", **options)])[0]
    with Engine(app) as engine:
        return engine.wait(job_id)


def test_a_command_is_run_once_and_its_output_is_the_result(live_platform: Platform) -> None:
    live_platform.join()

    job = run(live_platform, arguments={"zone": "eu"})

    assert job.state is JobState.SUCCESS
    assert job.result == {"run_id": "run-0", "status": "succeeded", "output": "<b>done</b>"}
    [key] = keys_of(live_platform)
    assert key == f"{job.id}.1"
    [request] = [each for each in live_platform.played["edge-1"].asked if each.method == "POST"]
    assert request.body == {"arguments": {"zone": "eu"}}


def test_a_command_that_failed_is_a_failed_run_with_its_output(live_platform: Platform) -> None:
    live_platform.join()
    live_platform.played["edge-1"].outcome = "failed"

    job = run(live_platform)

    assert job.state is JobState.FAILED
    for words in ("hello", "exit code 3", "<b>done</b>"):
        assert words in job.error


def test_what_becomes_of_a_run_whose_gateway_is_offline(live_platform: Platform) -> None:
    live_platform.join()
    live_platform.played["edge-1"].is_down = True

    failed, skipped = run(live_platform), run(live_platform, offline="skip")

    assert failed.state is JobState.FAILED
    assert failed.error.startswith("GatewayUnreachable: edge-1 does not reply")
    assert skipped.state is JobState.CANCELED
    [line] = live_platform.app.jobs.logs(skipped.id).lines
    assert line.message == "skipped: edge-1 does not reply"
    assert not keys_of(live_platform)


def test_a_gateway_that_was_not_heard_is_asked(live_platform: Platform) -> None:
    """It was the platform that could not hear, perhaps."""
    live_platform.join()
    live_platform.silence(65)
    assert live_platform.gateways().get("edge-1").health == "offline"

    assert run(live_platform).state is JobState.SUCCESS


def test_a_skipped_run_is_canceled_in_the_ledger(live_platform: Platform) -> None:
    live_platform.join()
    app = live_platform.app
    live_platform.played["edge-1"].is_down = True
    app.schedules.create(
        "hello", when="every hour", do=app.gateways.command("edge-1", "hello", offline="skip"), retry=Retry(3)
    )
    app.schedules.trigger("hello")

    with Engine(app) as engine:
        job = engine.until(lambda: next(iter(app.jobs.list(function=GATEWAY_FUNCTION, state="canceled").jobs), None))

    [row] = app.schedules.occurrences("hello").occurrences
    assert (job.attempt, row.outcome) == (1, "canceled")


def test_an_offline_gateway_is_tried_again_by_the_retry_policy_under_other_keys(live_platform: Platform) -> None:
    live_platform.join()
    app, played = live_platform.app, live_platform.played["edge-1"]
    played.is_down = True
    call = app.gateways.command("edge-1", "hello")
    app.schedules.create("hello", when="every hour", do=call, retry=Retry(3, first=0.001))
    app.schedules.trigger("hello")

    with Engine(app) as engine:
        job = engine.until(lambda: next(iter(app.jobs.list(function=GATEWAY_FUNCTION, state="failed").jobs), None))

    assert job.attempt == 3
    [row] = app.schedules.occurrences("hello").occurrences
    assert row.outcome == "failed"


def test_a_worker_that_dies_runs_the_command_again_under_the_same_key(live_platform: Platform) -> None:
    app = live_platform.app
    live_platform.join()
    job_id = app.scheduler.run_after_many(0, [app.gateways.command("edge-1", "hello")])[0]
    row = app.jobs.get(job_id)
    now = live_platform.clock.now()
    claim = Claim(
        id=job_id, tenant=app.tenant_id, kind=row.kind, name=GATEWAY_FUNCTION, args="{}", due_at=now,
        attempt=1, failures=0, crashes=0, key=None, retry=None, on_complete=None,
    )  # fmt: skip

    end = lost(claim, now=now, entropy=app.environment.entropy)

    assert (end.state, end.failures) == (JobState.PENDING, 0)  # and the key is made of the failures before


def test_an_unknown_outcome_is_asked_for_again_under_the_same_key(
    live_platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_platform.join()
    played = live_platform.played["edge-1"]
    real, lost_replies = commands.GatewayClient.run_command, [0]

    def unsure(self: Any, *args: Any, **kwargs: Any) -> str:
        run_id: str = real(self, *args, **kwargs)
        lost_replies[0] += 1
        if lost_replies[0] == 1:
            raise commands.OutcomeUnknown("the reply was lost")
        return run_id

    monkeypatch.setattr(commands.GatewayClient, "run_command", unsure)
    job = run(live_platform)

    assert job.state is JobState.SUCCESS
    assert len(keys_of(live_platform)) == 2
    assert len(set(keys_of(live_platform))) == 1
    assert len(played.runs) == 1


def test_a_lost_reply_does_not_run_the_command_twice_in_the_next_attempt(
    live_platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_platform.join()
    app, played = live_platform.app, live_platform.played["edge-1"]
    real, asked = commands.GatewayClient.run_command, [0]

    def unsure(self: Any, *args: Any, **kwargs: Any) -> str:
        run_id: str = real(self, *args, **kwargs)
        asked[0] += 1
        if asked[0] <= commands.TRIES:
            raise commands.OutcomeUnknown("the reply was lost")
        return run_id

    monkeypatch.setattr(commands.GatewayClient, "run_command", unsure)
    call = app.gateways.command("edge-1", "hello")
    app.schedules.create("hello", when="every hour", do=call, retry=Retry(3, first=0.001))
    app.schedules.trigger("hello")
    with Engine(app) as engine:
        job = engine.until(lambda: next(iter(app.jobs.list(function=GATEWAY_FUNCTION, state="success").jobs), None))

    assert job.attempt == 2
    assert len(played.runs) == 1


def test_a_run_that_failed_is_followed_by_another_one(live_platform: Platform) -> None:
    live_platform.join()
    app, played = live_platform.app, live_platform.played["edge-1"]
    played.outcome = "failed"
    call = app.gateways.command("edge-1", "hello")
    app.schedules.create("hello", when="every hour", do=call, retry=Retry(2, first=0.001))
    app.schedules.trigger("hello")
    with Engine(app) as engine:
        engine.until(lambda: next(iter(app.jobs.list(function=GATEWAY_FUNCTION, state="failed").jobs), None))

    assert len(played.runs) == 2


def test_bad_targets_are_refused_when_a_schedule_is_written(live_platform: Platform) -> None:
    live_platform.join()
    app = live_platform.app
    gateways = app.gateways
    gateways.check("edge-1")

    for call, error, words in (
        (gateways.command("edge-2", "hello"), GatewayNotFound, "edge-2"),
        (gateways.command("edge-1", "helo"), UnknownCommand, "it lists hello"),
    ):
        with pytest.raises(error, match=words):
            app.schedules.create("s", when="every hour", do=call)
    with pytest.raises(Misuse, match="after= takes text"):
        gateways.list(after=7)  # type: ignore[arg-type]
    for wrong in ({"offline": "wait"}, {"arguments": {"days": 7}}, {"arguments": 7}, {"arguments": "days=7"}):
        with pytest.raises(Misuse):
            gateways.command("edge-1", "hello", **wrong)  # type: ignore[arg-type]
    with pytest.raises(GatewayNotFound):
        acme = app.tenant("acme")
        acme.schedules.create("s", when="every hour", do=acme.gateways.command("edge-1", "hello"))


def test_an_app_that_names_no_gateways_has_no_such_function(live_platform: Platform) -> None:
    with pytest.raises(FunctionNotFound):
        App("other", database_url="sqlite://").functions.resolve(GATEWAY_FUNCTION)


def test_doctor_names_what_lets_an_app_run_commands_of_gateways(live_platform: Platform) -> None:
    live_platform.join()
    app = live_platform.app
    app.scheduler.run_after_many(60, [app.gateways.command("edge-1", "hello")])
    other = App("test", database_url=app.environment.store.url)

    report = examine(other, app.environment.store, None)

    [found] = [each for each in report.findings if each.function == GATEWAY_FUNCTION]
    assert "use app.gateways" in found.fix
    other.close()
