"""The clients: what they do is what the Python API does, and the errors are the same."""

import asyncio
import ssl
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import evertick
from evertick import App, MutationCtx, Overlap, Retry, Step, daily
from evertick.client import AsyncClient, Client, calls
from evertick.engine.jobs import completion
from evertick.errors import (
    AccessDenied,
    AlreadyExists,
    DatabaseUnavailable,
    FunctionFailed,
    FunctionNotFound,
    IdempotencyConflict,
    InvalidArguments,
    JobNotFound,
    Misuse,
    NotFound,
    QuotaExceeded,
    RunNotOpen,
    ScheduleNotFound,
    VersionConflict,
)
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until
from tests.client.conftest import Served
from tests.server.conftest import add_activity

SOON = datetime.now(UTC) + timedelta(hours=1)


def function(app: App, name: str) -> Any:
    """A function of the shop."""
    return app.functions.resolve(name)


def test_certificates_are_read_only_for_an_address_that_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes longer than a request, in every command that asks a server."""
    read: list[object] = []
    whole = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda *a, **how: read.append(a) or whole(*a, **how))
    Client("http://localhost:1").close()
    asyncio.run(AsyncClient("http://localhost:1").close())
    assert not read

    Client("https://localhost:1").close()
    assert read


def test_functions_are_called_by_themselves_and_by_name(served: Served) -> None:
    order, count = function(served.app, "shop.order"), function(served.app, "shop.count")
    with served.client() as client:
        assert client.call(order, "bread", n=2).startswith("orders_")
        assert client.call("shop.order", item="tea").startswith("orders_")
        assert client.call(count) == 2
        assert client.call_once("k", order, "milk") == client.call_once("k", order, "milk")
        with pytest.raises(IdempotencyConflict):
            client.call_once("k", order, "wine")
        with pytest.raises(InvalidArguments):
            client.call("shop.order", itme="tea")
        with pytest.raises(InvalidArguments, match="by their names"):
            client.call("shop.order", "tea")
        with pytest.raises(InvalidArguments):
            client.call(order, n="many")
        with pytest.raises(FunctionNotFound):
            client.call("shop.oder", item="tea")
        with pytest.raises(Misuse):
            client.call(5)  # type: ignore[call-overload]
        with pytest.raises(FunctionFailed) as failed:
            client.call("shop.fail", how="plain")
    assert (failed.value.type, failed.value.message) == ("ValueError", "plain")


def test_jobs_are_scheduled_read_and_changed(served: Served) -> None:
    order = function(served.app, "shop.order")
    with served.client() as client:
        scheduler = client.scheduler.using(priority=3, retry=Retry(5), limit_key="ada", pool="mail")
        job_id = scheduler.run_after(timedelta(hours=1), order, "bread")
        other = client.scheduler.using(key="k").run_at(SOON, "shop.order", item="tea")
        assert client.scheduler.using(key="k").run_after(5, order, "tea") == other
        with pytest.raises(AlreadyExists):
            client.scheduler.using(key="k", on_conflict="error").run_after(5, order, "tea")

        job = client.jobs.get(job_id)
        assert job == served.app.jobs.get(job_id)
        assert (job.priority, job.limit_key, job.pool) == (3, "ada", "mail")
        assert client.jobs.list(state="pending", limit=1).cursor is not None
        assert [each.id for each in client.jobs.list(state=["pending"], key="k").jobs] == [other]
        assert client.jobs.reschedule(job_id, SOON).due_at == SOON.replace(microsecond=SOON.microsecond // 1000 * 1000)
        assert job_id in [each.id for each in client.jobs.upcoming(function="shop.order").jobs]
        client.jobs.run_now(job_id)
        with Engine(served.app) as engine:
            engine.wait(job_id)
        assert client.jobs.attempts(job_id) == served.app.jobs.attempts(job_id)
        assert client.jobs.logs(job_id).lines == ()
        assert client.jobs.log_lines(request=job_id, since=datetime(2020, 1, 1, tzinfo=UTC)).lines == ()
        assert client.jobs.get("k").id == other
        assert client.jobs.cancel("k").state == client.jobs.get(other).state == "canceled"
        with pytest.raises(JobNotFound, match="no job has the key 'k/2'"):
            client.jobs.cancel("k/2")
        assert client.jobs.counts_by_function() == served.app.jobs.counts_by_function()
        failing = client.scheduler.run_after(0, "shop.fail", how="plain")
        with Engine(served.app) as engine:
            engine.wait(failing)
        assert client.jobs.retry(failing, args={"how": "other"}) != failing
        assert client.jobs.retry_all(function="shop.fail") == 0
        assert client.jobs.cancel_all(function="shop.fail") == 1
        with pytest.raises(JobNotFound):
            client.jobs.stop("job_" + "0" * 28)


def test_changes_of_many_are_made_piece_by_piece(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request works for a bounded time, and the client goes on; after each it tells how many are done."""
    monkeypatch.setattr(calls, "PIECE_S", 0)
    monkeypatch.setattr(completion, "CANCEL_PAGE", 3)
    order = function(served.app, "shop.order")
    for _ in range(7):
        served.app.scheduler.run_after(3_600, order, "bread")
    told: list[int] = []
    with served.client() as client:
        assert client.jobs.with_progress(told.append).cancel_all(function=order) == 7
        assert told == [3, 6, 7]

        for number in range(3):
            served.app.schedules.create(f"s{number}", when=daily(hour=9), do=order.with_args("tea"))
        assert client.schedules.with_progress(told.append).pause_all("rest", id_contains="s") == 3
        assert told[3:] == [3]
        assert client.schedules.resume_all(id_contains="s") == 3

        @served.app.mutation(name="shop.buy")
        def buy(ctx: MutationCtx, what: str) -> None: ...

        assert client.schedules.update_all(do=buy, rename={"item": "what"}, id_contains="s") == 3
        assert client.schedules.update_all(do="shop.buy", function="shop.order") == 0
        bought = [served.app.schedules.get(f"s{number}").target for number in range(3)]
        assert [(each.function, each.args) for each in bought] == [("shop.buy", {"what": "tea"})] * 3

    async def awaited() -> None:
        async with AsyncClient(served.url, token=served.token) as client:
            for _ in range(4):
                await client.scheduler.run_after(3_600, order, "bread")
            assert await client.jobs.with_progress(told.append).cancel_all(function=order) == 4

    asyncio.run(awaited())
    assert told[4:] == [3, 4]
    lines = [each.action for each in served.app.audit_log.list(action="job.cancel_all").changes]
    assert lines == ["job.cancel_all"] * 5, "each page is audited"


def test_a_change_of_many_that_is_ended_leaves_what_is_done(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PIECE_S", 0)
    monkeypatch.setattr(completion, "CANCEL_PAGE", 3)
    for _ in range(7):
        served.app.scheduler.run_after(3_600, function(served.app, "shop.order"), "bread")

    def end(count: int) -> None:
        raise KeyboardInterrupt

    with served.client() as client, pytest.raises(KeyboardInterrupt):
        client.jobs.with_progress(end).cancel_all()
    assert served.app.jobs.counts()["canceled"] == 3


def test_schedules_are_those_of_the_app(served: Served) -> None:
    order = function(served.app, "shop.order")
    with served.client() as client:
        made = client.schedules.create(
            "a/b", when=daily(hour=9, tz="Europe/Berlin"), do=order.with_args("tea"), overlap=Overlap.BUFFER_ONE,
            catch_up_window=timedelta(hours=1), jitter=timedelta(seconds=5), exclude=[date(2026, 12, 24)],
            retry=Retry(3), note="n", memo={"a": 1},
        )  # fmt: skip
        assert made == served.app.schedules.get("a/b") == client.schedules.get("a/b")
        again = served.app.schedules.create(
            "c", when=daily(hour=9, tz="Europe/Berlin"), do=order.with_args("tea"), overlap=Overlap.BUFFER_ONE,
            catch_up_window=timedelta(hours=1), jitter=timedelta(seconds=5), exclude=[date(2026, 12, 24)],
            retry=Retry(3), note="n", memo={"a": 1},
        )  # fmt: skip
        assert (again.spec, again.policies) == (made.spec, made.policies)
        assert again.target.to_json() == made.target.to_json()

        changed = client.schedules.update("a/b", jitter=None, overlap="skip", if_version=1)
        assert (changed.policies.overlap, changed.spec.jitter_ms) == ("skip", 0)
        with pytest.raises(VersionConflict):
            client.schedules.update("a/b", note="x", if_version=1)
        assert client.schedules.replace("a/b", when="0 7 * * *", do=order.with_args("milk")).version == 3
        assert client.schedules.pause("a/b", "rest", until=SOON).status == "paused"
        assert client.schedules.resume("a/b").status == "active"
        run = client.schedules.trigger("a/b", overlap="allow_all", args={"item": "x"}, request_id="r")
        assert client.schedules.trigger("a/b", overlap="allow_all", args={"item": "x"}, request_id="r") == run
        assert client.schedules.occurrences("a/b", fate=["started", "skipped"], newest_first=True).occurrences
        begin, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 4, tzinfo=UTC)
        assert len(client.schedules.matching_times("a/b", begin, end)) == 3
        assert len(client.schedules.matching_times(daily(hour=9), begin, end)) == 3
        assert client.schedules.explain("a/b", at=begin).sentence
        assert client.schedules.audit(begin, end).clean is not None
        past = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))
        plan = client.schedules.backfill_plan("a/b", *past, overlap="buffer_all")
        both = client.schedules.backfill_plans(*past, overlap="buffer_all", id_contains="/")
        assert [(each.schedule, each.token) for each in both.plans] == [("a/b", plan.token)]
        assert client.schedules.backfill_plans(*past, ids=["a/b", "none"], only_missed=True).plans[0].count == 0
        backfill = client.schedules.backfill("a/b", *past, overlap="buffer_all", token=plan.token)
        assert client.schedules.backfill_status("a/b", backfill.id).id == backfill.id
        assert client.schedules.backfill_cancel("a/b", backfill.id).id == backfill.id
        assert [each.action for each in client.schedules.history("a/b")][-1] == "created"
        assert [each.id for each in client.schedules.list(id_contains="/", sort="next").schedules] == ["a/b"]
        assert client.schedules.pause_all("stop") == 2
        assert client.schedules.resume_all() == 2
        client.schedules.delete("a/b")
        assert client.schedules.delete_all() == 1
        with pytest.raises(ScheduleNotFound):
            client.schedules.get("a/b")


def test_schedules_are_listed_for_people_as_the_app_lists_them(served: Served) -> None:
    order = function(served.app, "shop.order")
    with served.client() as client:
        client.schedules.create("s", when=daily(hour=9, tz="Asia/Tokyo"), do=order.with_args("bread"))
        client.schedules.create("t", when=daily(hour=9), do=order.with_args("bread"), paused=True)

        assert client.schedules.list_detailed(sort="-id") == served.app.schedules.list_detailed(sort="-id")
        assert [each.id for each in client.schedules.list(time_zone="Asia/Tokyo").schedules] == ["s"]
        assert client.schedules.counts(status="paused").matching.number == 1
        month = (date(2026, 11, 1), date(2026, 12, 1))
        assert client.schedules.days("s", *month) == served.app.schedules.days("s", *month)
        assert {each.sentence for each in client.schedules.trigger_plan("s").effects} == {"Starts at once."}


def test_how_a_tenant_does_is_told_as_the_app_tells_it(served: Served) -> None:
    order = function(served.app, "shop.order")
    with served.client() as client:
        job_id = client.scheduler.enqueue(order, "bread")
        client.schedules.create("s", when=daily(hour=9), do=order.with_args("bread"))

        assert client.insight.functions() == served.app.insight.functions()
        assert client.insight.coming() == served.app.insight.coming()
        assert client.insight.search(job_id) == served.app.insight.search(job_id)
        assert client.insight.changes() == served.app.insight.changes()
        assert client.insight.activity(span=60).minutes == ()
        add_activity(served.app, order.name, ended=4, failed=1)
        [tens] = client.insight.activity(function=order.name).minutes
        assert tens == served.app.insight.activity(function=order.name).minutes[0]
        assert (tens.ended, tens.failed) == (4, 1)
        [of_pool] = client.insight.activity(pool="default").minutes
        assert of_pool == served.app.insight.activity(pool="default").minutes[0]
        assert of_pool.ended == 4
        assert client.insight.overview().attention == served.app.insight.overview().attention


def test_runs_are_started_signaled_and_waited_for(served: Served) -> None:
    fulfil = function(served.app, "shop.fulfil")
    with served.client() as client, served.app.running():
        run_id = client.workflows.using(key="order-7", attributes={"customer": "ada"}).start(fulfil, "7")
        with pytest.raises(TimeoutError):
            client.workflows.result("order-7", timeout=0.01)
        until(lambda: bool(client.workflows.timeline("order-7").waits_for))
        assert client.workflows.list_detailed(state="running").runs[0].waits_for[0].name == "paid"
        assert client.workflows.timeline("order-7") == served.app.workflows.timeline("order-7")
        assert client.workflows.pause(run_id) is True
        assert client.workflows.resume(run_id) is True
        with pytest.raises(InvalidArguments, match="the value of the event 'paid' cannot be stored as JSON"):
            client.workflows.signal("order-7", "paid", object())

        @served.app.workflow(name="shop.decides", events={"decision": dict[str, bool]})
        async def decides(step: Step) -> bool:
            return bool(await step.wait_for("decision"))

        decided = client.workflows.start("shop.decides")
        with pytest.raises(InvalidArguments, match="does not fit: approved: input should be a valid boolean"):
            client.workflows.signal(decided, "decision", {"approved": "perhaps"})
        with pytest.raises(Misuse, match="takes no event 'decison'"):
            client.workflows.signal(decided, "decison", {"approved": True})
        client.workflows.signal(decided, "decision", {"approved": True})
        client.workflows.signal("order-7", "payed", 12)
        [payed] = client.workflows.get(run_id).waiting_events
        assert (payed.name, payed.sent_by, payed.sent_by_job) == ("payed", "token root", None)
        with pytest.raises(NotFound, match="no event 'payd' waits"):
            client.workflows.withdraw(run_id, "payd")
        assert client.workflows.withdraw("order-7", "payed", id=payed.id).value == 12
        client.workflows.signal("order-7", "paid", Decimal("12.50"), key="once")
        assert client.workflows.result(run_id, timeout=30) == "12.50"
        assert client.workflows.get(run_id) == served.app.workflows.get(run_id)
        assert client.workflows.history(run_id) == served.app.workflows.history(run_id)
        assert client.workflows.children(run_id) == ()
        found = client.workflows.list(fulfil, state="success", attributes={"customer": "ada"}, roots=True)
        assert [each.id for each in found.runs] == [run_id]
        with pytest.raises(RunNotOpen):
            client.workflows.signal(run_id, "paid")
        again = client.workflows.restart(run_id)
        assert client.workflows.cancel(again) is True
        other = client.workflows.start("shop.fulfil", order_id="8")
        assert client.workflows.terminate(other) is True
        assert client.workflows.restart_all(fulfil, state="canceled", attributes={"customer": "ada"}) == 1
        seen: list[int] = []
        many = client.workflows.with_progress(seen.append)
        assert many.restart_all(state=["canceled", "failed"], from_failed=True, started_until=SOON) == 1
        assert (seen, client.workflows.get(other).retried_as is not None) == ([1], True)
        assert client.workflows.list(not_retried=True).runs == ()


def test_what_belongs_to_all_tenants(served: Served) -> None:
    with served.client("acme") as client:
        assert client.pools.set("mail", running=3, per_tenant=None).limits.running == 3
        assert client.pools.pause("mail", "the server is down").limits.note == "the server is down"
        assert client.pools.pause("mail").limits.paused
        assert not client.pools.resume("mail").limits.paused
        assert client.pools.get("mail").pool == "mail"
        assert client.pools.delete("mail", force=True).limits_from == ""
        with pytest.raises(NotFound):
            client.pools.delete("mail")
        assert "default" in [each.pool for each in client.pools.list()]
        assert client.tenants.set("acme", jobs=1).limits.jobs == 1
        assert [each.tenant for each in client.tenants.list(limited=True)] == ["acme"]
        assert [each.tenant for each in client.tenants.list()] == ["acme"]
        assert client.tenants.list(first="b") == []
        assert client.tenants.get("acme").usage.jobs == 0
        client.scheduler.run_after(60, "shop.order", item="x")
        with pytest.raises(QuotaExceeded):
            client.scheduler.run_after(60, "shop.order", item="x")

        made = client.tokens.create("reader", scope="read")
        with Client(served.url, token=made.secret) as reader:  # its tenant is that of its token
            assert (reader.whoami().tenant, reader.whoami().name) == ("acme", "reader")
            assert len(reader.jobs.list().jobs) == 1
            with pytest.raises(AccessDenied, match="scope"):
                reader.jobs.cancel_all()
            with pytest.raises(AccessDenied):
                reader.pools.list()
            with pytest.raises(AccessDenied):
                reader.tenants.list()
            assert reader.tenants.get("acme").usage.jobs == 1
        fresh = client.tokens.rotate(made.id)
        assert client.tokens.revoke(fresh.id).revoked_at is not None
        assert len(client.tokens.list().tokens) == 2
        assert [each.action for each in client.audit_log.list().changes][:3] == [
            "token.revoke", "token.rotate", "token.create",
        ]  # fmt: skip
    with Client(served.url, token="evt_wrong") as stranger, pytest.raises(AccessDenied):
        stranger.jobs.list()


def test_the_awaited_client_has_the_same_names(served: Served) -> None:
    async def main() -> None:
        order, fulfil = function(served.app, "shop.order"), function(served.app, "shop.fulfil")
        async with AsyncClient(served.url, token=served.token) as client:
            assert (await client.call(order, "bread")).startswith("orders_")
            assert await client.call_once("k", order, "x") == await client.call_once("k", order, "x")
            job_id = await client.scheduler.using(priority=1).run_after(60, order, "tea")
            assert (await client.jobs.get(job_id)).priority == 1
            assert await client.scheduler.run_at(SOON, "shop.order", item="x")
            assert (await client.schedules.create("s", when="0 9 * * *", do=order.with_args("x"))).id == "s"
            run_id = await client.workflows.using(key="r").start(fulfil, "7")
            await client.workflows.signal(run_id, "paid", 1)
            with pytest.raises(TimeoutError):
                await client.workflows.result(run_id, timeout=0.01)
            await client.workflows.terminate(run_id)
            with pytest.raises(evertick.errors.WorkflowFailed):
                await client.workflows.result(run_id)
            assert await client.workflows.restart_all("shop.fulfil", state="canceled") == 1
            assert await client.pools.list()
            assert await client.tenants.list(limited=True) == []
            assert [each.tenant for each in await client.tenants.list()] == ["default"]
            assert (await client.tokens.list()).tokens == ()
            assert (await client.audit_log.list()).changes

    asyncio.run(main())

    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(AsyncClient) == names(Client)
    client, other = Client(served.url), AsyncClient(served.url)
    for name in ("jobs", "schedules", "workflows", "scheduler", "pools", "tenants", "tokens", "audit_log"):
        assert names(type(getattr(client, name))) == names(type(getattr(other, name)))
    client.close()


def test_names_are_those_of_the_app(served: Served) -> None:
    with served.client() as client:
        for name in ("jobs", "schedules", "workflows", "scheduler"):
            inner = {"read", "write", "write_pages", "operations", "with_operations", "with_progress"}
            there = {each for each in dir(getattr(client, name)) if not each.startswith("_")} - inner
            assert there <= {each for each in dir(getattr(served.app, name)) if not each.startswith("_")}


def test_a_server_that_is_not_there(served: Served) -> None:
    with Client("http://127.0.0.1:9", retries=1) as client, pytest.raises(DatabaseUnavailable, match="does not reply"):
        client.jobs.list()
    with pytest.raises(Misuse, match="http://"):
        Client("localhost:4400")
    assert "127.0.0.1" in repr(served.client())
    assert served.token not in repr(served.client())


def test_what_a_server_has_is_listed(served: Served) -> None:
    with served.client() as client:
        names = [each.name for each in client.functions()]
        assert {"shop.order", "shop.fulfil"} <= set(names)
        assert client.status().tenants == ("default",)
        assert client.status(all_tenants=True).workers == ()
        assert list(client.workers()) == []
        assert client.whoami().tenant is None
        assert client.request("GET", "/health") == {"ok": True}
        assert client.request("GET", "jobs", query={"limit": 1}) == {"jobs": [], "cursor": None}
        assert "evertick" in client.request("GET", "/metrics")

    async def awaited() -> None:
        async with AsyncClient(served.url, token=served.token) as client:
            assert [each.name for each in await client.functions()] == names
            assert (await client.status()).tenants == ("default",)
            assert list(await client.workers()) == []
            assert (await client.whoami()).tenant is None
            assert (await client.request("GET", "/api/v1/tenants/default/me"))["tenant"] is None
            assert await client.request("GET", "/health") == {"ok": True}

    asyncio.run(awaited())
