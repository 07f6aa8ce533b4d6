"""The adapter to OpenClaw, against a fake that speaks the same frames."""

import asyncio
import contextlib
import json
import random
import sqlite3
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from evertick.api.gateways import GatewayCron, GatewayCronChange, GatewayEvent, GatewayRun, digest_of
from evertick.base.errors import (
    AccessDenied,
    Conflict,
    CronNotFound,
    EvertickError,
    GatewayUnreachable,
    IdempotencyConflict,
    IntervalTooShort,
    InvalidCron,
    Misuse,
    NotManaged,
    OutcomeUnknown,
    RevisionConflict,
    RunNotFound,
    UnknownCommand,
)
from evertick.gateway.config import read_config
from evertick.gateway.conformance import check_gateway
from evertick.gateway.openclaw import OpenClawBackend
from evertick.gateway.openclaw_connection import WAITING_MAX, Credentials
from evertick.gateway_client import HttpSend
from tests.gateway.conftest import new_cron
from tests.gateway.fake_openclaw import TOKEN, FakeOpenClaw, in_thread
from tests.gateway.served import serving, token_of

CONFIG = """
name = "claw"

[openclaw]
url = "{url}"
token_file = "token"
{more}

[commands.echo]
argv = ["echo", "hello"]
cwd = "/srv"
env = {{ LANG = "C" }}

[commands.plain]
argv = ["echo", "plain"]

[commands.fail]
argv = ["fail", "3"]

[commands.wait]
argv = ["wait"]

[commands.purge]
argv = ["echo", "{{zone}}"]
arguments = {{ zone = ["eu", "us"] }}
"""
HOURLY = {"type": "interval", "every_ms": 3_600_000}
ECHO = {"type": "command", "name": "echo"}
Story = Callable[[FakeOpenClaw, OpenClawBackend], Coroutine[Any, Any, None]]


def backend_of(folder: Path, url: str, more: str = "", token: str = TOKEN) -> OpenClawBackend:
    """The backend of a gateway.toml in the folder."""
    file, secret = folder / "gateway.toml", folder / "token"
    file.write_text(CONFIG.format(url=url, more=more))
    if not secret.exists():
        secret.touch(0o600)
    secret.write_text(token)
    config = read_config(file)
    assert config.openclaw is not None
    return OpenClawBackend.of(config, config.openclaw, "instance-1")


def play(folder: Path, story: Story, more: str = "", prepare: Callable[[FakeOpenClaw], None] = lambda _: None) -> None:
    """Play a story with a fake and a backend that is connected to it when it is first asked."""

    async def stage() -> None:
        async with FakeOpenClaw() as fake:
            prepare(fake)
            backend = backend_of(folder, fake.url, more)
            await backend.start()
            try:
                async with asyncio.timeout(60):
                    await story(fake, backend)
            finally:
                await backend.stop()

    asyncio.run(stage())


async def added(backend: OpenClawBackend, key: str = "a", **more: Any) -> GatewayCron:
    """A cron that was added."""
    new = new_cron(key, more.pop("schedule", HOURLY), more.pop("action", ECHO), **more)
    return (await backend.add(new))[0]


async def ended(backend: OpenClawBackend, run_id: str) -> GatewayRun:
    """A run after its end."""
    while (run := await backend.run_of(run_id)).status == "running":
        await asyncio.sleep(0)
    return run


def test_a_gateway_in_front_of_openclaw_keeps_the_contract(tmp_path: Path) -> None:
    """`evertick gateway run` with a section [openclaw], asked over the network."""
    (tmp_path / "openclaw-token").touch(0o600)
    (tmp_path / "openclaw-token").write_text(TOKEN)
    with in_thread() as fake:
        more = f"""
        [openclaw]
        url = "{fake.url}"
        token_file = "openclaw-token"
        [commands.greet]
        argv = ["echo", "hello"]
        """
        before = {*fake.jobs}
        with (
            serving(tmp_path, more) as gateway,
            HttpSend(gateway.url, token_of(tmp_path)) as send,
            HttpSend(gateway.url) as without_token,
            HttpSend(gateway.url, "wrong") as wrong,
        ):
            found = check_gateway(send, send_without_token=without_token, send_with_wrong_token=wrong)
        assert [check for check in found if check.result != "passed"] == []
        assert len(found) > 10 and {*fake.jobs} == before


# -- crons


def test_a_cron_is_declared_by_its_key_and_declared_again(tmp_path: Path) -> None:
    """The key becomes a declaration key, the command's name the line of the configuration."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        schedule = {"type": "cron", "expression": "30 9 * * 1-5"}
        cron, is_new = await backend.add(new_cron("report", schedule, ECHO, enabled=False))
        assert is_new and cron.managed and not cron.system and not cron.enabled and cron.key == cron.name == "report"
        assert cron.schedule.timezone == "UTC" and cron.action.to_json()["name"] == "echo"
        job = fake.jobs[cron.id]
        assert job["declarationKey"] == "platform:report" and job["delivery"] == {"mode": "none"}
        assert job["schedule"] == {"kind": "cron", "expr": "30 9 * * 1-5", "tz": "UTC", "staggerMs": 0}
        assert job["payload"] == {
            "kind": "command", "argv": ["echo", "hello"], "cwd": "/srv", "env": {"LANG": "C"}, "timeoutSeconds": 60.0,
            "outputMaxBytes": 65_536,
        }  # fmt: skip

        schedule = {"type": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}
        again, is_new = await backend.add(new_cron("report", schedule, ECHO, name="Nightly"))
        assert not is_new and again.id == cron.id and again.name == "Nightly" and not again.enabled
        assert again.revision != cron.revision and fake.jobs[cron.id]["schedule"]["tz"] == "Europe/Berlin"

    play(tmp_path, story)


def test_all_jobs_are_shown_and_only_managed_ones_are_changed(tmp_path: Path) -> None:
    """Jobs of others are read-only, and of their actions the type alone is shown."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        mine = await added(backend)
        crons = {each.name: each for each in await backend.crons()}
        assert set(crons) == {"heartbeat:main", "memory-core:dreaming", "foreign", "a"} and crons["a"] == mine
        beat, dreaming, foreign = crons["heartbeat:main"], crons["memory-core:dreaming"], crons["foreign"]
        assert (beat.system, dreaming.system, foreign.system, foreign.managed) == (True, True, False, False)
        assert beat.key is None and dreaming.schedule.timezone == "OpenClaw's host"
        assert foreign.schedule.to_json() | {"detail": "on-exit"} == foreign.schedule.to_json()
        assert "private" not in str(foreign.to_json()) and "dream" not in str(dreaming.action)
        for attempt in (
            backend.change(foreign.id, GatewayCronChange(enabled=False), None),
            backend.remove(beat.id, None),
            backend.run(dreaming.id, "key"),
        ):
            with pytest.raises(NotManaged):
                await attempt
        assert not {"cron.update", "cron.remove", "cron.run"} & {*fake.asked}

    play(tmp_path, story)


def test_a_change_is_fenced_by_the_revision(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        changed = await backend.change(cron.id, GatewayCronChange(name="b"), cron.revision)
        assert changed.name == "b" and changed.revision != cron.revision
        for attempt in (
            backend.change(cron.id, GatewayCronChange(enabled=False), cron.revision),
            backend.remove(cron.id, cron.revision),
        ):
            with pytest.raises(RevisionConflict, match="read it again"):
                await attempt
        assert fake.jobs[cron.id]["enabled"]

        # Someone else is faster than the update that was sent.
        get, raced = fake._get, []

        def faster(params: Any) -> Any:
            job = get(params)
            if not raced:
                raced.append(fake._call("cron.update", {"id": cron.id, "patch": {"enabled": False}}))
            return job

        fake._get = faster  # type: ignore[method-assign]
        with pytest.raises(RevisionConflict):
            await backend.change(cron.id, GatewayCronChange(name="c"), changed.revision)
        assert fake.jobs[cron.id]["name"] == "b"

        await backend.remove(cron.id, None)
        for attempt in (backend.remove(cron.id, None), backend.change(cron.id, GatewayCronChange(), None)):
            with pytest.raises(CronNotFound):
                await attempt

    play(tmp_path, story)


def test_another_command_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    """OpenClaw merges a payload into the one that is there, so each is written whole."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        plain = GatewayCronChange.model_validate({"action": {"type": "command", "name": "plain"}})
        changed = await backend.change(cron.id, plain, None)
        assert changed.action.name == "plain"
        assert fake.jobs[cron.id]["payload"]["cwd"] == "." and fake.jobs[cron.id]["payload"]["env"] == {}

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("schedule", "error", "says"),
    [
        ({"type": "interval", "every_ms": 1}, IntervalTooShort, "shortest interval of this gateway is 60000 ms"),
        ({"type": "interval", "every_ms": 59_999}, IntervalTooShort, "shortest interval of this gateway is 60000 ms"),
        ({"type": "interval", "every_ms": 10**18}, InvalidCron, "more than 8640000000000000"),
        ({"type": "cron", "expression": "99 9 * * *"}, InvalidCron, "OpenClaw refuses the cron"),
        ({"type": "cron", "expression": "0 0 30 2 *"}, InvalidCron, "would never fire"),
        ({"type": "cron", "expression": "* * * * * *"}, InvalidCron, "has 5 fields"),
        ({"type": "cron", "expression": "@hourly"}, InvalidCron, "has 5 fields"),
        ({"type": "cron", "expression": "0 9 * * *", "timezone": "Mars/Base"}, InvalidCron, "Mars/Base"),
        ({"type": "cron", "expression": "0 9 * * *", "timezone": "+02:00"}, InvalidCron, "an offset is not"),
        ({"type": "once", "at": "2020-01-01T00:00:00Z"}, InvalidCron, "in the past"),
        ({"type": "once", "at": "2099-01-01T00:00:00Z"}, InvalidCron, "too far in the future"),
        ({"type": "rrule", "rrule": "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY"}, InvalidCron, "no schedules of the"),
    ],
)
def test_a_bad_schedule_is_refused_with_its_reason(
    tmp_path: Path, schedule: Any, error: type[EvertickError], says: str
) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        before = {*fake.jobs}
        with pytest.raises(error, match=says):
            await backend.add(new_cron("bad", schedule, ECHO))
        assert {*fake.jobs} == before
        cron = await added(backend)
        with pytest.raises(error, match=says):
            await backend.change(cron.id, GatewayCronChange.model_validate({"schedule": schedule}), None)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("action", "error", "says"),
    [
        ({"type": "command", "name": "rm"}, UnknownCommand, "no command 'rm'"),
        ({"type": "command", "name": "echo", "arguments": {"x": "y"}}, UnknownCommand, "takes no arguments"),
        ({"type": "command", "name": "purge", "arguments": {"zone": "; rm"}}, UnknownCommand, "is one of eu, us"),
        ({"type": "command", "name": "purge"}, UnknownCommand, "takes zone"),
        ({"type": "http", "url": "https://api.test/"}, InvalidCron, "no actions of the type http"),
        ({"type": "builtin", "name": "purge_cache"}, InvalidCron, "no actions of the type builtin"),
        ({"type": "event", "text": "hello"}, AccessDenied, "messages = true"),
        ({"type": "agent", "message": "hello"}, AccessDenied, "messages = true"),
    ],
)
def test_an_action_that_is_not_listed_is_refused(
    tmp_path: Path, action: Any, error: type[EvertickError], says: str
) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        with pytest.raises(error, match=says):
            await backend.add(new_cron("bad", HOURLY, action))
        assert "cron.add" not in fake.asked

    play(tmp_path, story)


def test_messages_are_taken_where_the_configuration_allows_them(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        event = await added(backend, "e", action={"type": "event", "text": "ping"})
        agent = await added(backend, "m", action={"type": "agent", "message": "say hi"})
        assert fake.jobs[event.id]["payload"] == {"kind": "systemEvent", "text": "ping"}
        assert fake.jobs[event.id]["sessionTarget"] == "main" and "delivery" not in fake.jobs[event.id]
        assert fake.jobs[agent.id]["payload"] == {"kind": "agentTurn", "message": "say hi"}
        assert (event.action.text, agent.action.message) == ("ping", "say hi")
        health = await backend.health()
        assert {"action:command", "action:event", "action:agent"} <= {*health.capabilities}

    play(tmp_path, story, "messages = true")


def test_a_key_has_the_length_that_openclaw_takes(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        assert (await added(backend, "k" * 191)).key == "k" * 191
        for key in ("k" * 192, "\N{ALARM CLOCK}" * 191, "\N{HOURGLASS}" * 192, "\U0001f600" * 96):
            if key == "\N{ALARM CLOCK}" * 191:
                assert (await added(backend, key)).key == key
                continue
            with pytest.raises(InvalidCron, match="limit is 191"):
                await added(backend, key)

    play(tmp_path, story)


def test_a_list_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    def prepare(fake: FakeOpenClaw) -> None:
        fake.page_limit = 2
        fake.between_pages = [
            {"name": name, "schedule": {"kind": "every", "everyMs": 60_000}, "payload": {"kind": "heartbeat"}}
            for name in ("aaa", "bbb")
        ]

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        names = [each.name for each in await backend.crons()]
        assert sorted(names) == ["aaa", "bbb", "foreign", "heartbeat:main", "memory-core:dreaming"]

    play(tmp_path, story, prepare=prepare)


def test_a_list_that_never_stops_changing_is_an_error(tmp_path: Path) -> None:
    def prepare(fake: FakeOpenClaw) -> None:
        fake.page_limit = 2
        fake.between_pages = [
            {"name": f"a{number}", "schedule": {"kind": "every", "everyMs": 60_000}, "payload": {"kind": "heartbeat"}}
            for number in range(100)
        ]

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        with pytest.raises(GatewayUnreachable, match="changed each time"):
            await backend.crons()

    play(tmp_path, story, prepare=prepare)


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "half \ud800 \x1b[31m", "declarationKey": "\ud800"},
        {"schedule": {"kind": "cron", "expr": "0 3 * * *\n"}},
        {"schedule": {"kind": "every", "everyMs": -1}},
        {"schedule": {"kind": "at", "at": "tomorrow"}},
        {"schedule": {"kind": "x" * 1_000}},
        {"payload": {"kind": "invented"}},
        {"state": {"nextRunAtMs": 1e300, "lastRunAtMs": -5, "lastRunStatus": "new", "lastError": "x" * 10_000}},
        {"state": {"lastError": None, "autoDisabled": {"reason": "consecutive-failures"}}},
        {"declarationKey": "platform:mine", "payload": {"kind": "command", "argv": []}, "description": "evertick {"},
        {"declarationKey": "platform:mine", "payload": {"kind": "systemEvent", "text": "x" * 100_000}},
    ],
)
def test_an_odd_job_of_openclaw_does_not_hide_the_others(tmp_path: Path, odd: dict[str, Any]) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        foreign = next(job for job in fake.jobs.values() if job["name"] == "foreign")
        foreign.update({**odd, "state": odd.get("state", {})})
        crons = await backend.crons()
        assert len(crons) == 3
        assert json.dumps([each.to_json() for each in crons]) and digest_of(crons)

    play(tmp_path, story)


# -- runs


def test_a_run_is_found_with_its_output(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        run_id = await backend.run(cron.id, "key-1")
        run = await ended(backend, run_id)
        assert (run.status, run.trigger, run.output, run.cron_id) == ("succeeded", "manual", "hello", cron.id)
        assert await backend.run(cron.id, "key-1") == run_id and fake.asked.count("cron.run") == 1

        fake.due(cron.id)
        by_schedule, by_hand = await backend.runs(cron.id, None, 10)
        assert by_hand == run and by_schedule.trigger == "schedule"
        assert await backend.run_of(by_schedule.run_id) == by_schedule
        assert await backend.runs(cron.id, by_schedule.run_id, 10) == [by_schedule]
        assert await backend.runs(cron.id, "manual:another:1:1", 10) == []

        failing = await added(backend, "f", action={"type": "command", "name": "fail"})
        failed = await ended(backend, await backend.run(failing.id, "key-2"))
        assert (failed.status, failed.error) == ("failed", "command exited with code 3")
        [shown] = [each for each in await backend.crons() if each.id == failing.id]
        assert (shown.last_status, shown.consecutive_errors) == ("failed", 1)
        for unknown in ("manual:x:1:1", "nonsense", f"manual:{cron.id}:1:1", f"scheduled:{cron.id}:1", ""):
            with pytest.raises(RunNotFound):
                await backend.run_of(unknown)
        with pytest.raises(CronNotFound):
            await backend.runs("no-such-cron", None, 10)

    play(tmp_path, story)


def test_a_result_whose_delivery_is_not_known_is_a_warning(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend, action={"type": "command", "name": "wait"})
        for completion, status, error in (
            ("unknown", "succeeded", "warning: OpenClaw does not know whether the result was delivered"),
            ("failed", "failed", "its result could not be delivered"),
        ):
            run_id = await backend.run(cron.id, completion)
            assert (await backend.run_of(run_id)).status == "running"
            fake.finish(cron.id, completion=completion)
            run = await backend.run_of(run_id)
            assert (run.status, run.error) == (status, error)

    play(tmp_path, story)


def test_a_run_after_a_lost_reply_is_not_asked_for_again(tmp_path: Path) -> None:
    """The same key finds the run in the log once it has ended, also in another process of the gateway."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend, action={"type": "command", "name": "wait"})
        for _ in range(250):  # more than a page of the log
            fake.due(cron.id)
            fake.finish(cron.id)
        fake.lose_reply_of = ["cron.run"]
        with pytest.raises(OutcomeUnknown, match="the run may have begun"):
            await backend.run(cron.id, "key-1")
        with pytest.raises(OutcomeUnknown, match="no run for this key yet"):
            await backend.run(cron.id, "key-1")

        second = backend_of(tmp_path, fake.url)
        await second.start()
        try:
            with pytest.raises(OutcomeUnknown):
                await second.run(cron.id, "key-1")
            fake.finish(cron.id)
            run_id = await second.run(cron.id, "key-1")
            assert (await second.run_of(run_id)).status == "succeeded"
            assert await backend.run(cron.id, "key-1") == run_id
        finally:
            await second.stop()
        assert fake.asked.count("cron.run") == 1 and len(fake.log[cron.id]) == 251
        assert (await backend.run_of(f"scheduled:{cron.id}:{fake.log[cron.id][0]['runAtMs']}")).status == "succeeded"

        # The run belongs to its key: another one is another run.
        other = await backend.run(cron.id, "key-2")
        assert other != run_id and fake.asked.count("cron.run") == 2

    play(tmp_path, story)


def test_a_run_whose_request_was_lost_is_not_asked_for_again(tmp_path: Path) -> None:
    """Nobody can tell it from one that was carried out."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        await backend.run(cron.id, "earlier")
        fake.lose_request = ["cron.run"]
        for _ in range(3):
            with pytest.raises(OutcomeUnknown):
                await backend.run(cron.id, "key-1")
        assert fake.asked.count("cron.run") == 2 and len(fake.log[cron.id]) == 1

    play(tmp_path, story)


def test_no_key_runs_twice_whatever_is_lost(tmp_path: Path) -> None:
    """Requests, replies and connections are lost at random, and the gateway is another process now and then."""
    chance = random.Random(31)
    lost: list[Callable[[FakeOpenClaw], None]] = [
        lambda fake: fake.lose_request.append("cron.run"),
        lambda fake: fake.lose_reply_of.append("cron.run"),
        lambda fake: fake.lose_reply_of.append("cron.add"),
        lambda fake: fake.lose_request.append("cron.get"),
        lambda fake: setattr(fake, "busy", 1),
        lambda fake: None,
    ]

    async def attempt(backend: OpenClawBackend, cron: GatewayCron, key: str) -> str | None:
        with contextlib.suppress(OutcomeUnknown, GatewayUnreachable):
            if key.startswith("cron"):
                return await backend.run(cron.id, key)
            return await backend.run_command("echo", {}, key)
        return None

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron, found, keys = (
            await added(backend),
            dict[str, str](),
            [f"{kind}-{n}" for n in range(30) for kind in ("cron", "command")],
        )
        for key in keys:
            for _ in range(chance.randrange(1, 4)):
                chance.choice(lost)(fake)
                if chance.random() < 0.1:
                    await fake.cut()
                process = backend_of(tmp_path, fake.url) if chance.random() < 0.2 else backend
                if process is not backend:
                    await process.start()
                run_id = await attempt(process, cron, key)
                if process is not backend:
                    await process.stop()
                assert run_id is None or found.setdefault(key, run_id) == run_id
            fake.lose_request, fake.lose_reply_of, fake.busy = [], [], 0
        assert len({*found.values()}) == len(found) > len(keys) // 2
        runs = [entry["runId"] for log in fake.log.values() for entry in log]
        assert len(runs) <= len(keys) and {*found.values()} <= {*runs}

    play(tmp_path, story)


def test_a_run_that_was_refused_may_be_asked_for_again(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend, action={"type": "command", "name": "wait"})
        first = await backend.run(cron.id, "key-1")
        with pytest.raises(Conflict, match="already-running"):
            await backend.run(cron.id, "key-2")
        fake.finish(cron.id)
        assert await backend.run(cron.id, "key-2") != first
        with pytest.raises(IdempotencyConflict):
            await backend.run_command("echo", {}, "key-2")

        fake.busy = 1  # OpenClaw puts a request off before it does anything
        fake.finish(cron.id)
        await backend.run(cron.id, "key-3")
        with pytest.raises(CronNotFound):
            await backend.run("no-such-cron", "key-4")
        await backend.run_command("echo", {}, "key-4")

    play(tmp_path, story)


def test_requests_with_one_key_at_the_same_time_are_one_run(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        runs = await asyncio.gather(*(backend.run(cron.id, "key-1") for _ in range(10)))
        assert len({*runs}) == 1 and fake.asked.count("cron.run") == 1

        # The caller that began it goes away.
        fake.replies_held["cron.run"] = asyncio.Event()
        leaving = asyncio.create_task(backend.run(cron.id, "key-2"))
        while fake.asked.count("cron.run") < 2:
            await asyncio.sleep(0)
        staying = asyncio.create_task(backend.run(cron.id, "key-2"))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(IdempotencyConflict):
            await backend.run_command("echo", {}, "key-2")
        fake.replies_held["cron.run"].set()
        assert (await staying).startswith(f"manual:{cron.id}:") and fake.asked.count("cron.run") == 2

    play(tmp_path, story)


def test_a_command_without_a_cron_leaves_no_job(tmp_path: Path) -> None:
    """It runs in a job of its own that no list shows, and that is removed after its end."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        before = {*fake.jobs}
        run_id = await backend.run_command("purge", {"zone": "eu"}, "key-1")
        run = await ended(backend, run_id)
        assert (run.status, run.output, run.cron_id) == ("succeeded", "eu", None)
        while {*fake.jobs} != before:
            await asyncio.sleep(0)
        assert await backend.run_of(run_id) == run
        assert await backend.run_command("purge", {"zone": "eu"}, "key-1") == run_id
        with pytest.raises(IdempotencyConflict):
            await backend.run_command("purge", {"zone": "us"}, "key-1")
        with pytest.raises(UnknownCommand):
            await backend.run_command("rm", {}, "key-2")
        assert fake.asked.count("cron.run") == 1

        waiting = [await backend.run_command("wait", {}, f"wait-{number}") for number in range(2)]
        assert len(await backend.crons()) == len(before)
        hidden = [job_id for job_id in fake.jobs if job_id not in before]
        for attempt in (
            backend.remove(hidden[0], None),
            backend.run(hidden[0], "key-3"),
            backend.runs(hidden[0], None, 1),
        ):
            with pytest.raises(CronNotFound):
                await attempt
        assert [(await backend.run_of(each)).status for each in waiting] == ["running"] * 2

        # What ended while the connection was lost is removed after the next one.
        await fake.cut()
        for job_id in hidden:
            fake.finish(job_id)
        await backend.crons()
        while {*fake.jobs} != before:
            await asyncio.sleep(0.01)

    play(tmp_path, story)


def test_a_run_that_a_restart_has_cut_is_unknown(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend, action={"type": "command", "name": "wait"})
        run_id = await backend.run(cron.id, "key-1")
        await fake.restart()
        run = await backend.run_of(run_id)
        assert run.status == "unknown" and "restarted during the run" in str(run.error)
        assert await backend.run(cron.id, "key-1") == run_id

    play(tmp_path, story)


# -- the connection


def test_reads_and_declarations_are_repeated_after_a_lost_connection(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        fake.lose_reply_of = ["cron.add", "cron.list", "cron.get", "cron.runs", "cron.status"]
        cron = await added(backend)
        assert len([job for job in fake.jobs.values() if job.get("declarationKey") == "platform:a"]) == 1
        await backend.health()
        await backend.runs(cron.id, None, 10)
        assert not fake.lose_reply_of

        for method, attempt in (
            ("cron.update", lambda: backend.change(cron.id, GatewayCronChange(enabled=False), None)),
            ("cron.remove", lambda: backend.remove(cron.id, None)),
        ):
            fake.lose_reply_of = [method]
            with pytest.raises(OutcomeUnknown, match="read the crons again"):
                await attempt()
            assert fake.asked.count(method) == 1
        assert cron.id not in fake.jobs

        fake.lose_request = ["cron.add", "cron.add"]
        with pytest.raises(OutcomeUnknown):
            await added(backend, "b")

    play(tmp_path, story)


def test_replies_may_come_in_another_order(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        fake.replies_held["cron.list"] = asyncio.Event()
        slow = asyncio.create_task(backend.crons())
        while "cron.list" not in fake.asked:
            await asyncio.sleep(0)
        assert await backend.runs(cron.id, None, 10) == []
        assert not slow.done()
        fake.replies_held["cron.list"].set()
        assert cron in await slow

    play(tmp_path, story)


def test_requests_that_wait_end_with_the_connection(tmp_path: Path) -> None:
    """They do not wait for their timeouts, and too many of them are refused."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        fake.replies_held["cron.update"] = asyncio.Event()
        changes = [
            asyncio.create_task(backend.change(cron.id, GatewayCronChange(name=f"n{number}"), None))
            for number in range(WAITING_MAX)
        ]
        while fake.asked.count("cron.update") < WAITING_MAX:
            await asyncio.sleep(0)
        with pytest.raises(GatewayUnreachable, match=f"{WAITING_MAX} requests already wait"):
            await backend.remove(cron.id, None)
        await fake.cut()
        found = await asyncio.gather(*changes, return_exceptions=True)
        assert {type(each) for each in found} == {OutcomeUnknown}
        fake.replies_held.clear()
        assert (await backend.health()).status == "healthy"

    play(tmp_path, story)


def test_a_starting_openclaw_is_asked_again_when_it_says(tmp_path: Path) -> None:
    def prepare(fake: FakeOpenClaw) -> None:
        fake.starting, fake.busy = 3, 2

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        health = await backend.health()
        assert (health.status, health.runtime, health.version) == ("healthy", "openclaw", "2026.9.6")
        assert health.crons == 3 and health.commands == ("echo", "fail", "plain", "purge", "wait")
        assert fake.starting == fake.busy == 0

    play(tmp_path, story, prepare=prepare)


def test_an_openclaw_that_is_away_is_named(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        await fake.stop()
        for attempt in (backend.health(), backend.crons(), backend.run(cron.id, "key-1"), added(backend, "b")):
            with pytest.raises(GatewayUnreachable, match=f"{fake.url} cannot be reached") as raised:
                await attempt
            assert TOKEN not in str(raised.value)
        await fake.start(fake.port)
        assert len(await backend.crons()) == 4
        await backend.run(cron.id, "key-1")  # nothing was sent at the first attempt
        assert fake.asked.count("cron.run") == 1

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("frame", "is_fatal"),
    [
        ("no JSON", True),
        ("[1]", True),
        ('{"type":"res"}', True),
        ("[" * 100_000, True),
        ('{"type":"res","id":"nobody","ok":true,"payload":1}', False),
        ('{"type":"event","event":"cron","payload":{"action":"finished","jobId":7,"runAtMs":"x"}}', False),
        ('{"type":"event","event":"tick","payload":null,"seq":9}', False),
        ('{"type":"ping"}', False),
    ],
)
def test_odd_frames_do_not_hang_anything(tmp_path: Path, frame: str, is_fatal: bool) -> None:
    """After a frame that is none the connection is given up; others are ignored."""

    def prepare(fake: FakeOpenClaw) -> None:
        fake.sent_after_hello = [frame]

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        if is_fatal:
            with pytest.raises(GatewayUnreachable):
                await backend.crons()
            fake.sent_after_hello = []
        assert len(await backend.crons()) == 3

    play(tmp_path, story, prepare=prepare)


def test_a_reply_to_a_run_that_cannot_be_read_leaves_it_open(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        call, odd = fake._call, {"cron.run": [1], "cron.runs": {"entries": [1]}, "cron.add": {"job": {}}}
        fake._call = lambda method, params: odd.get(method) or call(method, params)  # type: ignore[method-assign]
        with pytest.raises(OutcomeUnknown):
            await backend.run(cron.id, "key-1")
        for attempt in (
            backend.run(cron.id, "key-1"),
            backend.runs(cron.id, None, 10),
            backend.run_command("echo", {}, "key-2"),
            added(backend, "b"),
        ):
            with pytest.raises(GatewayUnreachable, match="cannot be read"):
                await attempt
        assert fake.asked.count("cron.run") == 1

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        ("cron.list", {"jobs": [{"id": "x"}], "total": 1, "hasMore": False}),
        ("cron.list", {"jobs": 7}),
        ("cron.list", {"jobs": [], "total": 1, "hasMore": True}),
        ("cron.list", [1]),
        ("cron.status", None),
    ],
)
def test_a_reply_that_cannot_be_read_is_an_error_with_a_name(tmp_path: Path, method: str, payload: Any) -> None:
    def prepare(fake: FakeOpenClaw) -> None:
        call = fake._call
        fake._call = lambda asked, params: payload if asked == method else call(asked, params)  # type: ignore[method-assign]

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        with pytest.raises(GatewayUnreachable, match="OpenClaw"):
            await backend.health()

    play(tmp_path, story, prepare=prepare)


def test_what_openclaw_lacks_makes_the_gateway_degraded(tmp_path: Path) -> None:
    def prepare(fake: FakeOpenClaw) -> None:
        fake.methods = [name for name in fake.methods if name != "cron.update"]
        fake.granted = ["operator.read"]
        fake.enabled = False

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        health = await backend.health()
        assert health.status == "degraded" and health.warnings == (
            "OpenClaw has no method cron.update",
            "OpenClaw did not grant the scope operator.admin",
            "the scheduler of OpenClaw is switched off: cron.enabled",
        )
        with pytest.raises(GatewayUnreachable, match=r"do not suffice for cron\.add"):
            await added(backend)

    play(tmp_path, story, prepare=prepare)


def test_a_command_line_that_was_changed_in_openclaw_is_a_warning(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        assert (await backend.health()).status == "healthy"
        fake.jobs[cron.id]["payload"]["argv"] = ["rm", "-rf", "/"]
        [shown] = [each for each in await backend.crons() if each.managed]
        assert shown.action.name is None and "rm" not in str(shown.to_json())
        assert "the command line of a differs from this gateway" in (await backend.health()).warnings[0]
        await added(backend)
        assert (await backend.health()).status == "healthy"

    play(tmp_path, story)


# -- events


def test_events_say_what_happens_to_crons_and_runs(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        await backend.crons()
        found: list[GatewayEvent] = []
        reading = asyncio.create_task(_collect(backend, found))
        await asyncio.sleep(0)
        cron = await added(backend)
        run_id = await backend.run(cron.id, "key-1")
        command = await backend.run_command("fail", {}, "key-2")
        await backend.change(cron.id, GatewayCronChange(enabled=False), None)
        await backend.remove(cron.id, None)
        while not found or found[-1].type != "cron.removed":
            await asyncio.sleep(0)
        assert [(each.type, each.cron_id, each.run_id, each.status) for each in found] == [
            ("cron.added", cron.id, None, None),
            ("run.started", cron.id, None, "running"),
            ("run.finished", cron.id, run_id, "succeeded"),
            ("run.started", None, None, "running"),
            ("run.finished", None, command, "failed"),
            ("cron.updated", cron.id, None, None),
            ("cron.removed", cron.id, None, None),
        ]
        await fake.cut()
        await asyncio.wait_for(reading, 10)  # what happens meanwhile would be missed, so the reader is ended

    play(tmp_path, story)


def test_a_missed_event_ends_the_readers(tmp_path: Path) -> None:
    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        await backend.crons()
        found: list[GatewayEvent] = []
        reading = asyncio.create_task(_collect(backend, found))
        await asyncio.sleep(0)
        await added(backend)
        fake._seq += 1
        await added(backend, "b")
        await asyncio.wait_for(reading, 10)
        assert len(found) == 1

    play(tmp_path, story)


async def _collect(backend: OpenClawBackend, found: list[GatewayEvent]) -> None:
    async for event in backend.events():
        found.append(event)


# -- credentials


def test_a_wrong_token_is_named_without_showing_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeOpenClaw() as fake:
            backend = backend_of(tmp_path, fake.url, token="a-wrong-token")
            await backend.start()
            with pytest.raises(GatewayUnreachable, match="refuses the token of token_file") as raised:
                await backend.health()
            assert "AUTH_TOKEN_MISMATCH" in str(raised.value) and "a-wrong-token" not in str(raised.value)
            await backend.stop()

    asyncio.run(story())


def test_a_device_is_paired_and_then_uses_its_own_token(tmp_path: Path) -> None:
    """Its key and its token are files that their owner alone can read; the shared token is not sent any more."""

    def prepare(fake: FakeOpenClaw) -> None:
        fake.needs_device = True

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        with pytest.raises(GatewayUnreachable, match="openclaw devices approve request-1"):
            await backend.health()
        fake.approve()
        assert (await backend.health()).status == "healthy"

        key, token = tmp_path / "device.pem", tmp_path / "device.pem.token"
        assert {stat.S_IMODE(each.stat().st_mode) for each in (key, token)} == {0o600}
        assert token.read_text() == next(iter(fake.paired.values()))
        (tmp_path / "token").write_text("a token that is not valid any more")
        again = backend_of(tmp_path, fake.url, 'device_key_file = "device.pem"', token="rotated")
        await again.start()
        assert (await again.health()).status == "healthy"
        await again.stop()

    play(tmp_path, story, 'device_key_file = "device.pem"', prepare)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:1", "ws://127.0.0.1:PORT"),
        ("ws://openclaw.example:18789", "unencrypted"),
        ("ws://10.0.0.1:18789", "unencrypted"),
        ("wss://user:secret@openclaw.example", "wss://HOST"),
        ("ws://127.0.0.1:99999999", "ws://127.0.0.1:PORT"),
        ("ws://[::1", "ws://127.0.0.1:PORT"),
        ("", "ws://127.0.0.1:PORT"),
    ],
)
def test_an_address_that_would_show_the_token_is_refused(tmp_path: Path, url: str, says: str) -> None:
    with pytest.raises(Misuse, match=says) as raised:
        backend_of(tmp_path, url)
    assert "secret" not in str(raised.value)


def test_secrets_are_files_that_their_owner_alone_can_read(tmp_path: Path) -> None:
    token, key = tmp_path / "token", tmp_path / "key"
    token.write_text("secret")
    with pytest.raises(Misuse, match="chmod 600"):
        Credentials.read("ws://127.0.0.1:1", token, None)
    token.chmod(0o600)
    assert Credentials.read("ws://127.0.0.1:1", token, None).token == "secret"
    token.write_text("\n")
    with pytest.raises(Misuse, match="is empty; write"):
        Credentials.read("ws://127.0.0.1:1", token, None)
    with pytest.raises(Misuse, match="needs token_file or device_key_file"):
        Credentials.read("ws://127.0.0.1:1", None, None)
    with pytest.raises(Misuse, match="does not exist"):
        Credentials.read("ws://127.0.0.1:1", tmp_path / "missing", None)
    key.touch(0o600)
    key.write_text("no key")
    with pytest.raises(Misuse, match="not an Ed25519 key"):
        Credentials.read("ws://127.0.0.1:1", None, key)


def test_keys_of_runs_outlive_a_kill(tmp_path: Path) -> None:
    """The file says, before OpenClaw is asked, that it is; a gateway that was killed then asks for nothing."""

    async def story(fake: FakeOpenClaw, backend: OpenClawBackend) -> None:
        cron = await added(backend)
        file = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
        file.execute(
            "insert into openclaw_runs (key, subject, job_id, asked_at) values ('key-1', ?, ?, 9999999999999)",
            (f"cron {cron.id}", cron.id),
        )
        file.close()
        with pytest.raises(OutcomeUnknown):
            await backend.run(cron.id, "key-1")
        assert "cron.run" not in fake.asked

    play(tmp_path, story)
