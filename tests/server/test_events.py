"""The stream of hints: what it tells, to whom, and when it ends."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from evertick import every
from evertick.base.errors import DatabaseUnavailable
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import AttemptLines, ChangeMarks, LogLine
from evertick.server import hints
from evertick.server.application import pulses_of
from evertick.server.hints import Hints
from evertick.server.routes import events
from tests.conftest import ON_BOTH_DATABASES
from tests.server.conftest import HOME, Http

OTHER = TenantId("other")


class Tables:
    """What a look finds, and how often there was one."""

    def __init__(self) -> None:
        self.pulses = {DEFAULT_TENANT: ChangeMarks("1", "1", "1"), OTHER: ChangeMarks("1", "1", "1")}
        self.looks = 0
        self.is_away = False

    async def look(self, tenants: Sequence[TenantId]) -> list[ChangeMarks]:
        self.looks += 1
        if self.is_away:
            raise DatabaseUnavailable("away")
        return [self.pulses[tenant] for tenant in tenants]


def test_the_more_pages_are_open_and_the_longer_they_take_the_more_seldom_they_are_read() -> None:
    async def story() -> None:
        told = Hints(Tables().look)
        async with contextlib.AsyncExitStack() as tabs:
            assert told.pause_after(0.04) == 0
            for _ in range(50):
                await tabs.enter_async_context(told.stream(DEFAULT_TENANT))
            for _ in range(100):
                pause_s = told.pause_after(0.01)
            assert pause_s == pytest.approx(50 * 0.01 / hints.READS_SHARE)
            for _ in range(100):
                pause_s = told.pause_after(0.5)
            assert pause_s == hints.READS_PAUSE_S_MAX

    asyncio.run(story())


def test_a_stream_that_is_opened_during_a_look_tells_the_first_change_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "POLL_EVERY_S", 0.001)
    tables = Tables()

    async def story() -> None:
        look, goes_on = asyncio.Event(), asyncio.Event()

        async def slow(tenants: Sequence[TenantId]) -> list[ChangeMarks]:
            found = await tables.look(tenants)
            if tenants == [DEFAULT_TENANT] and told._task is not None:
                look.set()
                await goes_on.wait()
            return found

        told = Hints(slow)
        async with told.stream(DEFAULT_TENANT):
            await look.wait()
            async with told.stream(OTHER) as opened_meanwhile:
                tables.pulses[OTHER] = ChangeMarks("2", "1", "1")
                goes_on.set()
                assert await opened_meanwhile.changes(60) == ["jobs"]

    asyncio.run(story())


def test_a_stream_tells_what_has_changed_of_its_tenant_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "POLL_EVERY_S", 0.001)
    tables = Tables()

    async def story() -> None:
        told = Hints(tables.look)
        async with told.stream(DEFAULT_TENANT) as first, told.stream(OTHER) as second, told.stream(OTHER) as third:
            tables.pulses[OTHER] = ChangeMarks("2", "1", "2")
            assert await second.changes(60) == ["jobs", "logs"]
            assert await third.changes(60) == ["jobs", "logs"]
            assert await first.changes(0.01) == []
            tables.is_away = True
            tables.pulses[DEFAULT_TENANT] = ChangeMarks("1", "9", "1")
            assert await first.changes(0.01) == []
            tables.is_away = False
            assert await first.changes(60) == ["schedules"]
            told.end()
            assert first.is_over
            assert await first.changes(60) == []
        async with told.stream(DEFAULT_TENANT) as late:
            assert late.is_over
        while told._task is not None:
            await asyncio.sleep(0)
        looks = tables.looks
        await asyncio.sleep(0.02)
        assert tables.looks == looks, "it looks although no stream is open"

    asyncio.run(story())


@ON_BOTH_DATABASES
def test_a_change_of_a_tenant_is_another_pulse(http: Http) -> None:
    app = http.app

    def pulse(tenant: TenantId = DEFAULT_TENANT) -> ChangeMarks:
        [found] = asyncio.run(pulses_of(app, [tenant]))
        return found

    empty, other = pulse(), pulse(OTHER)
    assert pulse() == empty
    job_id = app.scheduler.run_after(3_600, "shop.order", item="tea")
    scheduled = pulse()
    assert (scheduled.jobs != empty.jobs, scheduled[1:]) == (True, empty[1:])
    app.jobs.cancel(job_id)
    assert pulse().jobs not in (scheduled.jobs, empty.jobs)
    app.schedules.create("s", when=every(hours=1), do=app.functions.resolve("shop.order").with_args(item="x"))
    made = pulse()
    assert made.schedules != empty.schedules
    app.schedules.pause("s", note="rest")
    assert pulse().schedules != made.schedules
    line = AttemptLines(job_id, 1, [LogLine(0, Instant(5), "info", "x")], DEFAULT_TENANT, "shop.order")
    app.environment.store.write(lambda transaction: transaction.add_logs([line], now=Instant(7)))
    assert pulse().logs != made.logs
    assert pulse(OTHER) == other


def test_a_stream_begins_with_ready_and_ends_in_time(http: Http) -> None:
    reply = http("GET", f"{HOME}/events", params={"seconds": 0})

    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.text == "event: ready\ndata: {}\nretry: 2000\n\n"
    http.problem(422, "GET", f"{HOME}/events", params={"seconds": 3_601})


def test_a_stream_ends_with_its_token(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for its next comment, which would be twice as late."""
    monkeypatch.setattr(events, "CHECK_EVERY_S", 0.05)
    made = http.app.tokens.create("t", tenant="default", expires_after=None)
    reader = Http(http.app, http.server, made.secret)

    async def stream() -> str:
        asking = asyncio.create_task(
            reader._send("GET", f"{HOME}/events", {"Authorization": f"Bearer {made.secret}"}, {})
        )
        await asyncio.sleep(0.05)
        assert not asking.done()
        await http.app.aio.tokens.revoke(made.id)
        async with asyncio.timeout(events.COMMENT_EVERY_S - 1):
            return (await asking).text

    assert asyncio.run(stream()).startswith("event: ready")


def test_a_stream_ends_while_nothing_says_whether_its_token_holds(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "CHECK_EVERY_S", 0.05)
    monkeypatch.setattr(events, "CHECK_S", 0.05)

    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(events, "caller_of", hangs)

    async def stream() -> str:
        async with asyncio.timeout(events.COMMENT_EVERY_S - 1):
            headers = {"Authorization": f"Bearer {http.secret}"}
            return (await http._send("GET", f"{HOME}/events", headers, {})).text

    assert asyncio.run(stream()).startswith("event: ready")


def test_there_are_only_so_many_streams(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "STREAMS_MAX", 0)
    assert http.problem(503, "GET", f"{HOME}/events", params={"seconds": 0})["code"] == "too_many_streams"


def test_one_token_does_not_take_the_streams_of_others(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "STREAMS_OF_ONE_MAX", 2)
    token = http.ok("GET", "/api/v1/me")["id"]

    async def story() -> None:
        told = http.server.hints
        async with told.stream(DEFAULT_TENANT, token), told.stream(DEFAULT_TENANT, token) as second:
            assert not second.is_over
            refused = await http._send("GET", f"{HOME}/events", {"Authorization": f"Bearer {http.secret}"}, {})
            assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
            async with told.stream(DEFAULT_TENANT, token) as third, told.stream(OTHER, "token_other") as other:
                assert third.is_over, "it was accepted when fewer were open"
                assert not other.is_over
            async with told.stream(DEFAULT_TENANT) as local:
                assert not local.is_over
        assert not told.is_full(token)
        told.end()
        while told._task is not None:
            await asyncio.sleep(0)

    monkeypatch.setattr(hints, "POLL_EVERY_S", 0.001)
    asyncio.run(story())


def test_a_server_without_its_worker_is_not_ready(http: Http) -> None:
    assert http.ok("GET", "/ready") == {"ok": True}
    http.server.api.state.worker = lambda: None
    assert "holds no lease" in http.problem(503, "GET", "/ready")["detail"]
