"""`evertick status` and `evertick worker list`: who works, what waits, and what failed in the last hour."""

import os
import re
import time
from collections.abc import Iterator

import pytest

from evertick import App, MutationCtx, every
from evertick.base.instants import MINUTE_MS, Instant
from tests.cli.desk import Command, work_off
from tests.store.rows import claim
from tests.store.schedule_rows import schedule

PATIENCE_S = 60


def app_with(*names: str) -> App:
    """An app whose functions fail if they are told to."""
    app = App("shop")
    for name in names:

        @app.mutation(name=name)
        def work(ctx: MutationCtx, text: str = "") -> None:
            if text:
                raise ValueError(text)

    return app


@pytest.fixture
def shop(command: Command) -> Iterator[App]:
    app = app_with("shop.bill", "shop.gone")
    assert app.environment
    yield app
    app.close()


def test_an_empty_database_without_a_worker(shop: App, command: Command) -> None:
    done = command("status")

    assert (done.code, done.out) == (0, "")
    assert done.err == "0 live workers; 0 due; 0 running; 0 later; 0 failed in the last hour\n"
    listed = command("worker", "list")
    assert (listed.code, listed.out, listed.err) == (0, "", "no workers\n")
    assert command("worker", "list", "-o", "json").json == []


def test_what_waits_and_what_failed_is_counted_by_function(shop: App, command: Command) -> None:
    for text in ("first", "second"):
        shop.scheduler.run_after(0, "shop.bill", text=text)
        work_off(shop, 1)
    for delay in (0, 0, 3600):
        shop.scheduler.run_after(delay, "shop.bill")

    data = command("status", "-o", "json").json
    lines = [line.split("\t") for line in command("status").out.splitlines()]
    shown = command("status", "-o", "table")

    [queue], [failure] = data["queues"], data["failures"]
    assert (queue["function"], queue["pool"]) == ("shop.bill", "default")
    assert [queue[name] for name in ("due", "later", "running", "blocked")] == [2, 1, 0, 0]
    assert queue["oldest"].endswith("Z")
    assert (failure["function"], failure["count"], failure["error"]) == ("shop.bill", 2, "ValueError: second")
    assert (data["workers"], data["complete"], data["tenants"]) == ([], True, ["default"])
    assert data["lag_ms"] >= 0
    assert [line[:4] for line in lines] == [
        ["queues", "default", "shop", "shop.bill"],
        ["failures", "default", "shop.bill", "2"],
    ]
    assert [line for line in shown.out.splitlines() if line in ("workers", "queues", "failures")] == [
        "queues",
        "failures",
    ]
    assert re.search(
        r"^0 live workers; 2 due(, the oldest for .*)?; 0 running; 1 later; 2 failed in the last hour$", shown.err
    )


def test_all_tenants_with_work_are_looked_at(shop: App, command: Command) -> None:
    shop.scheduler.run_after(0, "shop.bill")
    shop.tenant("acme").scheduler.run_after(0, "shop.bill", text="broken")
    shop.tenant("dull").scheduler.run_after(0, "shop.bill", text="broken")
    work_off(shop, 3)
    for tenant in ("acme", "bolt", "bolt"):
        shop.tenant(tenant).scheduler.run_after(3600, "shop.bill")
    shop.tenant("calm").schedules.create("daily", when=every(days=1), do=shop.functions.resolve("shop.bill"))

    found, one = command("status", "-o", "json").json, command("status", "--tenant", "bolt", "-o", "json").json

    assert found["tenants"] == ["acme", "bolt", "calm", "default", "dull"]
    assert [(each["tenant"], each["later"]) for each in found["queues"]] == [("acme", 1), ("bolt", 2)]
    assert sorted((each["tenant"], each["count"]) for each in found["failures"]) == [("acme", 1), ("dull", 1)]
    assert command("status").err.endswith("3 later; 2 failed in the last hour of 5 tenants\n")
    assert (one["tenants"], [each["later"] for each in one["queues"]], one["failures"]) == (["bolt"], [2], [])


def test_a_live_worker_is_shown_and_jobs_that_it_cannot_run_are_blocked(shop: App, command: Command) -> None:
    shop.scheduler.run_after(0, "shop.gone")
    shop.close()
    after = app_with("shop.bill")

    with after.running():
        deadline = time.monotonic() + PATIENCE_S
        while not (status := command("status", "-o", "json").json)["workers"]:
            assert time.monotonic() < deadline
        [worker] = command("worker", "list", "-o", "json").json
        [row] = command("worker", "list", "--fields", "id,alive,pools").out.splitlines()
        said = command("status").err
    after.close()

    assert (worker["pid"], worker["alive"], worker["functions"]) == (os.getpid(), True, ["shop.bill"])
    assert worker == status["workers"][0]
    assert row == f"{worker['id']}\tyes\tall"
    [queue] = status["queues"]
    assert (queue["function"], queue["due"], queue["blocked"], status["lag_ms"]) == ("shop.gone", 1, 1, 0)
    assert said == "1 live worker; 1 due, 1 blocked; 0 running; 0 later; 0 failed in the last hour\n"


def test_schedules_that_nobody_looks_at_are_told_of(shop: App, command: Command) -> None:
    def come_due(ago_ms: int, *names: str) -> None:
        at = Instant(shop.environment.clock.now() - ago_ms)
        rows = [schedule(name, next_at=at, wake_at=at) for name in names]
        shop.environment.store.write(lambda tx: [tx.insert_schedule(row) for row in rows])

    come_due(2 * MINUTE_MS, "bills")
    one = command("status")
    come_due(3 * MINUTE_MS, "letters", "reports")
    some = command("status", "-o", "table")

    [row] = command("status", "-o", "json").json["overdue"]
    assert (one.code, row["tenant"], row["schedules"]) == (0, "default", 3)
    assert re.search(r"; 0 later; 1 schedule overdue since \S+Z; 0 failed", one.err)
    assert re.search(r"; 0 later; 3 schedules overdue, the first since \S.*; 0 failed", some.err)
    assert "overdue" in some.out.splitlines()


def test_claimed_mutations_wait_until_they_are_done(shop: App, command: Command) -> None:
    """A worker claims many at once: they used to count as running."""
    for _ in range(3):
        shop.scheduler.run_after(0, "shop.bill")
    now = shop.environment.clock.now()
    assert len(claim(shop.environment.store, now=now, limit=3)) == 3

    [queue] = command("status", "-o", "json").json["queues"]
    assert [queue[name] for name in ("due", "later", "running", "blocked")] == [3, 0, 0, 0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status", "--db", "sqlite:///nope.db"], 7, "there is no database at nope.db"),
        (["status", "-o", "yaml"], 2, "'yaml' is not one of"),
        (["status", "--tenant", ""], 2, "tenant"),
        (["worker", "list", "--fields", "nope"], 2, "no field 'nope'; the fields are id,"),
        (["worker", "list", "--db", "sqlite:///nope.db"], 7, "there is no database at nope.db"),
        (["worker", "nowhere.py"], 2, "there is no file nowhere.py"),
    ],
)
def test_wrong_input_is_one_line_and_an_exit_code(
    shop: App, command: Command, words: list[str], code: int, message: str
) -> None:
    done = command(*words)

    assert (done.code, done.out) == (code, "")
    assert message in done.err.splitlines()[-1]
