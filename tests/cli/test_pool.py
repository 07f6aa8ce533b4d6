"""`evertick pool`: limits set, shown and listed; pools paused and resumed."""

import time
from collections.abc import Iterator

import pytest

from evertick import App, MutationCtx
from tests.cli.desk import Command, work_off


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with a function in the pool `mail`, which has run once and is due twice."""
    app = App("shop")

    @app.mutation(name="shop.send", pool="mail")
    def send(ctx: MutationCtx) -> None: ...

    app.scheduler.run_after(0, send)
    work_off(app, 1)
    for _ in range(2):
        app.scheduler.run_after(0, send)
    yield app
    app.close()


def test_limits_are_changed_and_removed_and_the_others_stay(shop: App, command: Command) -> None:
    command("pool", "set", "mail", "--running", "5", "--starts-per-minute", "60")
    done = command("pool", "set", "mail", "--running", "none", "--per-tenant", "2", "-o", "json")

    limits = {"running": None, "per_tenant": 2, "per_key": None, "starts_per_minute": 60, "paused": False, "note": ""}
    assert done.json["limits"] == limits
    assert (done.json["pool"], done.json["running"], done.json["ready"]) == ("mail", 0, 2)
    assert command("pool", "get", "mail", "-o", "json").json == done.json
    assert shop.pools.get("mail").limits.per_tenant == 2


def test_pools_are_listed_with_what_runs_and_what_waits(shop: App, command: Command) -> None:
    command("pool", "set", "mail", "--running", "1000")
    command("pool", "pause", "mail")
    command("pool", "set", "bulk", "--per-tenant", "3")

    listed = command("pool", "list", "--fields", "pool,state,running,per_tenant,ready")

    assert listed.out == ("bulk\tactive\t0\t3\t0\ndefault\tactive\t0\t\t0\nmail\tpaused\t0 of 1,000\t\t2\n")


def test_a_limit_by_key_is_set_shown_and_removed(shop: App, command: Command) -> None:
    done = command("pool", "set", "mail", "--per-key", "2", "--fields", "pool,per_key,limits_from")
    assert done.out == "pool\tmail\nper_key\t2\nlimits_from\tset\n"
    assert shop.pools.get("mail").limits.per_key == 2
    assert "'many' is neither a whole number nor 'none'" in command("pool", "set", "mail", "--per-key", "many").err
    removed = command("pool", "set", "mail", "--per-key", "none", "-o", "json").json
    assert (removed["limits"]["per_key"], removed["limits_from"]) == (None, "")


def test_a_paused_pool_keeps_its_limits_and_goes_on(shop: App, command: Command) -> None:
    command("pool", "set", "mail", "--running", "3")
    paused = command("pool", "pause", "mail", "--reason", "the server is down", "-o", "json").json["limits"]
    assert (paused["paused"], paused["note"]) == (True, "the server is down")
    assert command("pool", "pause", "mail", "--fields", "state,note").out == "state\tpaused\nnote\tthe server is down\n"
    resumed = command("pool", "resume", "mail", "-o", "json").json

    assert resumed["limits"] == {
        "running": 3,
        "per_tenant": None,
        "per_key": None,
        "starts_per_minute": None,
        "paused": False,
        "note": "",
    }
    work_off(shop, 2)


def test_wrong_input_is_refused_with_what_is_right(shop: App, command: Command) -> None:
    missing = command("pool", "set", "mail")
    assert missing.code == 2
    assert "say which limit: --running, --per-tenant, --per-key, --starts-per-minute" in missing.err
    assert "a whole number from 1 to 1,000,000" in command("pool", "set", "mail", "--starts-per-minute", "0").err
    assert "a pool's name is" in command("pool", "pause", "two words").err
    assert command("pool", "get", "mail", "-o", "json").json["limits"]["running"] is None


def test_jobs_that_wait_say_what_their_pool_holds_back(shop: App, command: Command) -> None:
    def errors() -> set[str]:
        listed = command("job", "list", "--state", "pending", "--fields", "error").out
        return set(listed.splitlines())

    assert errors() == {"waits: no worker is alive"}
    command("pool", "set", "mail", "--running", "0")
    assert errors() == {"waits: pool 'mail' runs 0 of 0"}
    command("pool", "set", "mail", "--running", "7", "--per-tenant", "0")
    assert errors() == {"waits: pool 'mail' runs 0 of 0 for the tenant 'default'"}
    command("pool", "pause", "mail")
    assert errors() == {"waits: pool 'mail' is paused"}
    command("pool", "pause", "mail", "--note", "the server is down")
    assert errors() == {"waits: pool 'mail' is paused: the server is down"}
    waiting = shop.jobs.list(state="pending").jobs[0]
    assert command("job", "get", waiting.id, "--fields", "error").out == (
        "error\twaits: pool 'mail' is paused: the server is down\n"
    )
    assert command("job", "get", waiting.id, "-o", "json").json["error"] is None
    command("pool", "resume", "mail")
    command("pool", "set", "mail", "--per-tenant", "none")
    assert errors() == {"waits: no worker is alive"}


def test_what_waits_for_the_rate_of_its_pool_says_so(shop: App, command: Command) -> None:
    command("pool", "set", "mail", "--starts-per-minute", "6")
    assert command("pool", "get", "mail", "-o", "json").json["held"] is None, "a start may be taken"
    until_us = (int(time.time()) + 10) * 1_000_000  # as the start that was just taken leaves it
    shop.environment.store.write(lambda tx: tx.use_pool_starts("mail", used_until_us=until_us))
    words = "waits: pool 'mail' starts 6 a minute"

    listed = command("job", "list", "--state", "pending", "--fields", "error").out
    assert set(listed.splitlines()) == {words}
    assert f"held\t{words}\n" in command("pool", "get", "mail").out
    status = command("status", "-o", "json").json
    assert [queue["held"] for queue in status["queues"] if queue["pool"] == "mail" and queue["blocked"] < queue["due"]]
    assert "held back by pools" in command("status").err
    command("pool", "set", "mail", "--starts-per-minute", "none")
    assert command("pool", "get", "mail", "-o", "json").json["held"] is None


def test_a_job_that_is_not_due_or_in_another_pool_does_not_wait_for_a_paused_one(shop: App, command: Command) -> None:
    shop.scheduler.run_after(3600, "shop.send")
    command("pool", "pause", "bulk")
    command("pool", "pause", "mail")
    listed = command("job", "list", "--state", "pending", "--fields", "error").out
    assert sorted(listed.splitlines()) == ["", *["waits: pool 'mail' is paused"] * 2]


def test_a_pool_that_nothing_has_is_perhaps_another_one(shop: App, command: Command) -> None:
    note = "note: nothing here has the pool 'mial' yet; did you mean mail?\n"
    assert command("pool", "get", "mial").err == note
    assert command("pool", "pause", "mial").err == note
    assert command("pool", "pause", "mail").err == ""
    assert command("pool", "resume", "mial").err == ""  # it has a limit now, so it is known
    note = "note: nothing here has the pool 'bulk' yet"
    assert command("pool", "get", "bulk").err == f"{note}\n"
    assert command("pool", "set", "bulk", "--running", "5").err == f"{note}; what is set waits for it\n"
