"""`evertick cron ...`: crons of an app's code, seen and steered from the terminal."""

from collections.abc import Iterator

import pytest

from evertick import App, MutationCtx, cron, every
from evertick.errors import Misuse
from tests.cli.desk import Command, work_off


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with two crons, whose engine has run once."""
    app = App("shop")

    @app.mutation(name="shop.clear")
    def clear(ctx: MutationCtx) -> None: ...

    app.crons.add("clear old carts", every(hours=1), clear)
    app.crons.add("report", cron("0 9 1 1 *", tz="Europe/Berlin"), clear)
    work_off(app, 1)  # an interval runs first when it is deployed
    yield app
    app.close()


def test_list_shows_the_next_one_first(shop: App, command: Command) -> None:
    listed = command("cron", "list", "--fields", "id,kind,source,function")

    assert listed.out == "clear old carts\tcron\tcode\tshop.clear\nreport\tcron\tcode\tshop.clear\n"
    assert command("cron", "list", "-q", "report", "--fields", "sentence,time_zone").out == (
        "at 09:00 on 1 January every year, Berlin time\tEurope/Berlin\n"
    )
    assert command("schedule", "list", "-q", "kind:schedule").err == "no schedules match\n"


def test_get_shows_its_recent_runs(shop: App, command: Command) -> None:
    row = command("cron", "get", "clear old carts", "-o", "json").json

    assert (row["kind"], row["policies"]["catch_up"]) == ("cron", "latest")
    assert [each["outcome"] for each in row["recent"]] == ["success"]
    assert "success after" in command("cron", "get", "clear old carts", "-o", "table").out


def test_a_pause_outlives_the_next_start_of_the_app(shop: App, command: Command) -> None:
    paused = command("cron", "pause", "clear old carts", "--reason", "too many carts")
    triggered = command("cron", "trigger", "clear old carts", "-o", "json")
    work_off(shop, 1)

    assert paused.err == "paused clear old carts: too many carts\n"
    assert triggered.json["reason"] == "triggered"
    assert (
        command("cron", "list", "-q", "state:paused", "--fields", "id,note").out == "clear old carts\ttoo many carts\n"
    )
    assert command("cron", "resume", "clear old carts").err.startswith("resumed clear old carts; next 20")


def test_what_a_cron_is_changes_in_the_code_alone(shop: App, command: Command) -> None:
    done = command("schedule", "update", "report", "--cron", "@daily")

    assert done.code == 2
    assert "declared in the code of the app 'shop'; change it there" in done.err


def test_a_cron_of_the_code_is_not_deleted_here(shop: App, command: Command) -> None:
    command("schedule", "create", "-s", "mine", "--interval", "1h", "--type", "shop.clear")

    done = command("schedule", "delete", "report")
    many = command("schedule", "delete", "-q", "function:shop.clear", "--yes")

    assert done.code == 2
    assert "declared in the code of the app 'shop'; remove it there, or pause it" in done.err
    with pytest.raises(Misuse, match="remove it there"):
        shop.schedules.delete("report")
    assert many.err == "deleted 1 schedule\nleft 2 schedules declared in code: remove them there, or pause them\n"
    assert command("schedule", "list", "--fields", "id").out == "clear old carts\nreport\n"


def test_a_cron_whose_app_is_gone_is_deleted_by_force(shop: App, command: Command) -> None:
    done = command("schedule", "delete", "report", "--force")
    many = command("schedule", "delete", "-q", "function:shop.clear", "--yes", "--force")

    assert (done.code, done.err) == (0, "deleted report; runs that were started go on\n")
    assert (many.code, many.err) == (0, "deleted 1 schedule\n")
    assert command("schedule", "list", "-o", "json").json == []


@pytest.mark.parametrize("verb", ["get", "trigger", "pause", "resume"])
def test_a_schedule_is_no_cron(shop: App, command: Command, verb: str) -> None:
    command("schedule", "create", "-s", "mine", "--interval", "1h", "--type", "shop.clear")

    assert command("cron", verb, "mine").err == "error: 'mine' is not a cron; list them with `evertick cron list`\n"
    done = command("cron", verb, "nothing")
    assert (done.code, done.err) == (3, "error: no cron 'nothing'; list them with `evertick cron list`\n")
    near = command("cron", verb, "reprot").err
    assert near == "error: no cron 'reprot'; did you mean 'report'? list them with `evertick cron list`\n"


def test_an_empty_list_says_whose_the_crons_of_code_are(shop: App, command: Command) -> None:
    done = command("cron", "list", "--tenant", "north", "-o", "table")

    hint = "; a worker writes those that code declares when it starts, in the tenant 'default'\n"
    assert done.err == f"no crons in the tenant north{hint}"


def test_who_triggers_a_cron_waits_no_longer_than_was_said(shop: App, command: Command) -> None:
    done = command("cron", "trigger", "report", "--wait", "--timeout", "1ms", "--request-id", "once")

    assert (done.code, done.err.splitlines()[-1]) == (8, "the time is over; the run has not ended yet")
