"""`evertick tenant`: limits set, shown and listed."""

from pathlib import Path

import pytest

from evertick import App
from evertick.base.errors import QuotaExceeded
from evertick.store.open import open_store
from tests.cli.desk import Command, commands


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs commands on an empty database."""
    url = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("EVERTICK_DATABASE_URL", url)
    store = open_store(url)
    store.migrate()
    store.close()
    return commands(capsys)


def test_limits_that_are_set_hold_for_programs(command: Command) -> None:
    done = command("tenant", "set", "acme", "--jobs", "0", "--running", "5")
    app = App("shop")

    @app.mutation(name="note")
    def note(ctx: object) -> None: ...

    assert (done.code, done.err) == (0, "")
    assert "jobs\t0 of 0" in done.out
    with pytest.raises(QuotaExceeded, match="evertick tenant set --jobs"):
        app.tenant("acme").scheduler.run_after(60, "note")
    app.close()


def test_a_limit_is_changed_and_removed_and_the_others_stay(command: Command) -> None:
    command("tenant", "set", "acme", "--jobs", "10", "--starts-per-minute", "60")
    done = command("tenant", "set", "acme", "--jobs", "none", "--schedules", "2", "-o", "json")

    limits = {"running": None, "starts_per_minute": 60, "jobs": None, "argument_bytes": None, "schedules": 2}
    usage = {"running": 0, "jobs": 0, "argument_bytes": 0, "schedules": 0}
    assert done.json == {"tenant": "acme", "limits": limits, "usage": usage}
    assert command("tenant", "get", "acme", "-o", "json").json == done.json


def test_tenants_are_listed_while_anything_of_them_is_kept(command: Command) -> None:
    app = App("shop")

    @app.mutation(name="note")
    def note(ctx: object) -> None: ...

    for name in ("globex", "acme"):
        app.tenant(name).scheduler.run_after(60, "note")
    app.close()
    command("tenant", "set", "bolt", "--running", "3")

    listed = command("tenant", "list", "--fields", "tenant,jobs,running")
    assert listed.out == "acme\t1\t0\nbolt\t0\t0 of 3\nglobex\t1\t0\n"
    assert command("tenant", "list", "--limited", "--fields", "tenant").out == "bolt\n"
    assert command("tenant", "list", "--limit", "3", "--fields", "tenant").err == ""
    assert "these are 2; there are more" in command("tenant", "list", "--limit", "2").err


def test_tenants_with_limits_are_listed_by_name(command: Command) -> None:
    for name in ("bolt", "acme", "core"):
        command("tenant", "set", name, "--running", "1000")

    assert command("tenant", "list", "--fields", "tenant,running").out == "".join(
        f"{name}\t0 of 1,000\n" for name in ("acme", "bolt", "core")
    )
    page = command("tenant", "list", "--first", "b", "--limit", "1", "-o", "json")
    assert [each["tenant"] for each in page.json] == ["bolt"]
    assert page.err == "these are 1; there are more: --limit, or --first\n"


def test_where_there_are_no_tenants_the_list_says_so(command: Command) -> None:
    done = command("tenant", "list")

    assert (done.code, done.out, done.err) == (0, "", "no tenants yet\n")
    assert command("tenant", "list", "--limited").err == "no tenant has limits\n"
    assert command("tenant", "get", "acme", "-o", "none").out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "acme"), "say which limit: --running, --starts-per-minute, --jobs, --argument-bytes, --schedules"),
        (("set", "acme", "--jobs", "many"), "'many' is neither a whole number nor 'none'"),
        (("set", "acme", "--jobs", "-1"), "-1 is not from 0 to"),
        (("set", " acme", "--jobs", "1"), "' acme'"),
        (("set", "acme", "--starts-per-minute", "0"), "starts_per_minute= takes a whole number from 1"),
        (("list", "--fields", "size"), "no field 'size'"),
        (("get",), "NAME"),
    ],
)
def test_wrong_input_is_refused_with_its_reason(command: Command, words: tuple[str, ...], said: str) -> None:
    done = command("tenant", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_the_cure_of_an_explanation_names_the_tenant(command: Command) -> None:
    command("schedule", "create", "s", "--interval", "1h", "--function", "shop.order", "--tenant", "acme")
    told = command("schedule", "explain", "s", "--at", "2020-01-01T00:00:00Z", "--tenant", "acme").out
    assert "fix: evertick schedule backfill s " in told and told.endswith(" --tenant acme\n")
