"""Every command against a server: it does the same as on the database, or says that it needs the database."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import click
import pytest

from evertick.cli.core import progress
from evertick.client import calls
from evertick.engine.jobs import completion
from tests.cli.desk import Command, Ended
from tests.cli.test_every_command import LEAVES, ROWS, UNKNOWN, ids, shop, shop_file
from tests.sampling import one_in
from tests.server.serving import serving
from tools.json_forms import OF_GATEWAYS

__all__ = ["ids", "shop_file"]

NO_SERVER: Final = {
    "init": "makes files",
    "version": "is about this machine",
    "completion": "prints a script",
    "dev": "is a server itself, with an app of its own",
    "serve": "is a server itself",
    "gateway run": "is a server itself, with crons of its own",
    "gateway check": "asks a gateway, whatever its platform is",
    "worker run": "needs the database: servers run no worker for others",
    "backup": "copies a file of this machine",
    "copy": "needs both databases",
    "migrate": "changes the schema, which is nothing for the API",
}
"""Commands that do not work on a server, and why."""
REFUSE: Final = {"dev", "serve", "worker run", "backup", "copy", "migrate"}
"""Those of them that work on a database, and so say why."""
READS: Final = {
    "workflow list", "workflow get", "workflow wait", "workflow history",
    "worker list", "pool list", "pool get", "tenant list", "tenant get",
    "logs", "job list", "job get", "job attempts", "job logs", "job counts",
    "schedule list", "schedule describe", "schedule get", "schedule explain", "schedule audit", "schedule occurrences",
    "schedule history", "schedule preview", "cron list", "cron get", "backfill list", "backfill get",
    "script list", "script get", "script versions", "script runs", "script logs",
    "workflow type get", "backfill watch", "data tables", "data list", "data get",
}  # fmt: skip
"""Commands that print the same, byte for byte."""
CHANGES: Final = {
    "workflow signal", "workflow withdraw", "workflow cancel", "workflow terminate",
    "workflow pause", "workflow resume", "workflow restart",
    "pool set", "pool pause", "pool resume", "pool delete", "tenant set", "token create", "status",
    "job cancel", "job stop", "job cancel-all",
    "script create", "script edit", "script test", "script publish", "script rollback", "script run", "script limits",
    "script delete",
    "job retry", "job run-now", "job reschedule", "workflow type pause", "workflow type resume",
    "workflow type deprecate", "workflow type delete", "backfill stop",
    "schedule create", "schedule update", "schedule toggle", "schedule pause", "schedule resume", "schedule trigger",
    "schedule backfill", "schedule delete", "schedule export", "cron trigger", "cron pause", "cron resume",
}  # fmt: skip
OTHERS: Final = {
    "token list": "test_tokens_are_made_listed_replaced_and_revoked",
    "token revoke": "test_tokens_are_made_listed_replaced_and_revoked",
    "token rotate": "test_tokens_are_made_listed_replaced_and_revoked",
    "workflow children": "test_a_workflow_is_started_and_looked_at",
    "workflow type list": "test_the_workflows_of_the_server_are_listed_with_their_status",
}
"""Commands with a test of their own below."""
STARTS: Final = {
    "workflow start": "test_a_workflow_is_started_and_looked_at",
    "run": "test_a_function_is_called_or_scheduled",
    "schedule apply": "test_schedule_files:test_a_server_is_a_database_to_it",
    "api": "test_connections:test_requests_are_sent_as_they_are",
    "mcp": "test_mcp:test_a_process_works_on_a_server",
    "open": "test_schedule_edit:test_pages_of_a_server_are_opened",
    "schedule edit": "test_schedule_edit:test_what_is_edited_is_applied",
    "doctor": "test_fleet_doctor:test_a_server_examines_its_fleet",
    **dict.fromkeys(OF_GATEWAYS, "test_gateway_commands:test_every_command_of_gateways_prints_what_is_described"),
}
"""The same for those that need no app there, or a file first, so that a wrong call is wrong in another way."""
TRIES: Final = 3
AGE: Final = re.compile(r"\d+(\.\d)? s ago *")
DAY: Final = "--from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z"
OTHER_WORDS: Final = {
    "schedule preview": "s --after 2026-01-01T00:00:00Z", "schedule explain": "s --at 2026-01-01T00:00:00Z",
    "schedule audit": f"s {DAY}",
}  # fmt: skip
"""Where the words of the row would not reach the database, or mean another moment each time."""


@pytest.fixture
def url(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server over that database; EVERTICK_TOKEN may do everything."""
    app = shop()
    app.open()
    monkeypatch.setenv("EVERTICK_TOKEN", app.tokens.create("root", scope="admin").secret)
    with serving(app) as address:
        yield address
    app.close()


def words_of(name: str, ids: dict[str, str]) -> list[str]:
    """A good call of a command."""
    words = OTHER_WORDS.get(name, ROWS[name].words)
    return [*name.split(), *(ids.get(word, word) for word in words.split())]


def without_age(ended: Ended) -> tuple[int, str, str]:
    """What a command printed, but for tenths of a second: each call is later than the one before."""
    return ended.code, AGE.sub("just now", ended.out), ended.err


@pytest.mark.parametrize("name", one_in(4, sorted(READS)))
@pytest.mark.parametrize("form", ["json", "table"])
def test_what_only_reads_prints_the_same(name: str, form: str, ids: dict[str, str], url: str, command: Command) -> None:
    has_times = any(each.name == "time_style" for each in LEAVES[name].params)
    words = [*words_of(name, ids), "-o", form, *(("--time", "iso") if has_times else ())]
    for _ in range(TRIES):  # a minute or an hour may have begun meanwhile
        before, remote, after = (command(*words, *place) for place in ((), ("--url", url), ()))
        if without_age(remote) in (without_age(before), without_age(after)):
            break
    assert without_age(remote) in (without_age(before), without_age(after))
    assert remote.code == 0


@pytest.mark.parametrize("name", one_in(4, sorted(CHANGES)))
def test_what_changes_something_does_the_same(name: str, ids: dict[str, str], url: str, command: Command) -> None:
    row, words = ROWS[name], words_of(name, ids)
    done = command(*words, *(("-o", "json") if row.keys else ()), "--url", url)
    assert done.code == 0, done.err
    if row.keys:
        assert set(row.keys) <= set(done.json[0] if isinstance(done.json, list) else done.json)


@pytest.mark.parametrize("name", one_in(6, sorted(READS | CHANGES | OTHERS.keys())))
def test_a_wrong_call_ends_the_same(name: str, ids: dict[str, str], url: str, command: Command) -> None:
    row = ROWS[name]
    done = command(*name.split(), *(ids.get(word, word) for word in row.wrong.split()), "--url", url)
    assert (done.code, done.out) == (row.code, "")
    assert done.err.splitlines()[-1].startswith("error: ")
    assert row.says in done.err


def test_every_command_is_tried_against_a_server_or_says_why_not() -> None:
    tried = READS | CHANGES | OTHERS.keys() | STARTS.keys()
    assert not tried & NO_SERVER.keys()
    assert tried | NO_SERVER.keys() == LEAVES.keys()
    for home in (OTHERS | STARTS).values():
        module, _, test = home.rpartition(":")
        assert callable(getattr(import_module(f"tests.cli.{module or 'test_against_a_server'}"), test))


@pytest.mark.parametrize("name", sorted(REFUSE))
def test_all_others_need_the_database(name: str, command: Command) -> None:
    row = ROWS[name]
    words = row.wrong if row.elsewhere else row.words
    done = command(*name.split(), *words.split(), "--url", "http://127.0.0.1:1")
    assert (done.code, done.out) == (2, "")
    assert f"error: `{name}" in done.err
    assert "needs the database" in done.err


@pytest.mark.long
def test_a_schedule_is_made_changed_and_removed(ids: dict[str, str], url: str, command: Command) -> None:
    def ended(*words: str) -> Ended:
        return command("schedule", *words, "--url", url)

    made = ended("create", "a", "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--function", "shop.bill", "-o", "json")
    assert made.err.startswith("a created: ")
    assert ended(
        "create", "a", "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--function", "shop.bill"
    ).err.startswith("a exists already")
    changed = ended("update", "a", "--overlap-policy", "BufferAll", "-o", "json")
    assert changed.json["changes"] == {"overlap": ["skip", "buffer_all"]}
    assert changed.json["version"] == made.json["version"] + 1
    assert ended("update", "a", "--jitter", "1m", "--if-version", "1").code == 5
    assert ended("update", "a", "--cron", "0 8 * * *").code == 0
    assert ended("update", "a", "--input", '{"fails": true}', "-o", "json").json["target"]["input"] == {"fails": True}
    assert ended("update", "a", "--replace", "--interval", "1h", "--function", "shop.bill").code == 0
    assert command("schedule", "get", "a", "-o", "json").json == ended("get", "a", "-o", "json").json
    assert ended("update", "a", "--function", "shop.none").code == 3
    assert ended("create", "b", "--interval", "1h", "--function", "shop.bill", "--input", '{"no": 1}').code == 2
    assert ended("pause", "a", "--reason", "rest").err == "paused a: rest\n"
    assert ended("history", "a", "-o", "json").json[0]["actor"] == "token root"
    assert ended("pause", "--query", "function:shop.bill kind:schedule", "--yes").err == "paused 1 schedule\n"
    assert ended("resume", "--query", "id:a", "--yes").err == "resumed 1 schedule\n"
    many = ended("update", "--query", "id:a", "--rename", "fails=fials", "--function", "shop.bill", "--yes")
    assert (many.code, many.err) == (0, "changed 0 schedules\nleft out 1 schedule: declared in code, without such an "
                                        "argument, or as they should be\n")  # fmt: skip
    assert ended("update", "a", "--input", '{"fails": true}').code == 0
    wrong = ended("update", "--query", "id:a", "--rename", "fails=fials", "--yes")
    assert (wrong.code, "fials: the function has no such parameter" in wrong.err) == (2, True)
    other = ended("update", "--query", "id:a", "--function", "shop.flow", "--yes")
    assert (other.code, "shop.flow()" in other.err) == (2, True)
    assert ended("delete", "a").code == 0
    assert ended("get", "a").code == 3
    assert command("cron", "get", "s", "--url", url).err.startswith("error: 's' is not a cron")
    assert "no cron 'cc'; did you mean 'c'?" in command("cron", "get", "cc", "--url", url).err


def test_a_run_is_waited_for(ids: dict[str, str], url: str, command: Command) -> None:
    done = command("schedule", "trigger", "s", "--wait", "--timeout", "0s", "--url", url, "-o", "json")
    assert (done.code, done.json["fate"]) == (8, "started")
    assert "the run has not ended yet" in done.err


def test_a_rehearsal_writes_nothing(ids: dict[str, str], url: str, command: Command) -> None:
    new = ("schedule", "create", "a", "--interval", "1h", "--function", "shop.bill", "--dry-run")
    shown = command(*new, "-o", "json", "--url", url)
    assert shown.json["dry_run"] is True
    assert shown.err.startswith("a would be created: every hour")
    assert command(*new[:-1], "--input", '{"no": 1}', "--dry-run", "--url", url).code == 2
    assert command("schedule", "get", "a", "--url", url).code == 3
    before = command("schedule", "get", "s", "-o", "json").json
    changed = ("schedule", "update", "s", "--overlap-policy", "BufferAll", "--dry-run")
    for words in ((), ("--replace", "--function", "shop.bill", "--interval", "1h")):
        done = command(*changed, *words, "-o", "json", "--url", url)
        assert done.json["changes"] == {"overlap": ["skip", "buffer_all"]}
    assert command("schedule", "get", "s", "-o", "json").json["version"] == before["version"]
    assert [line["action"] for line in command("schedule", "history", "s", "-o", "json").json] == [
        "backfilled",
        "triggered",
        "created",
    ]


def test_a_cron_of_an_app_that_is_gone_is_deleted_by_force(ids: dict[str, str], url: str, command: Command) -> None:
    assert command("schedule", "delete", "c", "--url", url).code == 2
    assert command("schedule", "delete", "c", "--force", "--url", url).code == 0
    assert command("cron", "get", "c", "--url", url).code == 3


def test_crons_are_deleted_by_force_where_a_query_chooses_them(ids: dict[str, str], url: str, command: Command) -> None:
    where = ("-q", "kind:cron", "--yes", "--url", url)
    assert command("schedule", "delete", *where).err.startswith("deleted 0 schedules\nleft 1 schedule declared in code")
    assert command("schedule", "delete", *where, "--force").err == "deleted 1 schedule\n"


def test_the_workflows_of_the_server_are_listed_with_their_status(
    ids: dict[str, str], url: str, command: Command
) -> None:
    rows = command("workflow", "type", "list", "-o", "json", "--url", url).json
    assert [(row["name"], row["status"]) for row in rows] == [("shop.flow", "active"), ("shop.old", "deprecated")]
    assert command("workflow", "type", "delete", "shop.flow", "--url", url).code == 0
    names = [row["name"] for row in command("workflow", "type", "list", "-o", "json", "--url", url).json]
    every = command("workflow", "type", "list", "--deleted", "-o", "json", "--url", url).json
    assert (names, len(every)) == (["shop.old"], 2)


def test_failed_jobs_are_retried_once_however_often_a_filter_chooses_them(
    ids: dict[str, str], url: str, command: Command
) -> None:
    again = ("job", "retry", "--function", "shop.bill", "--yes", "-o", "json", "--url", url)
    first, second = command(*again), command(*again)
    assert [row["job_id"] for row in first.json] == [ids["FAILED"]]
    assert (second.code, second.json, second.err) == (0, [], "no jobs\n")
    left = ("job", "list", "--not-retried", "--url", url)
    assert command(*left).err.startswith("no jobs")
    assert command("job", "counts", "-o", "json", "--url", url).json[0]["not_retried"] == 0
    assert command("job", "retry", ids["FAILED"], "--url", url).code == 5


def test_a_job_gets_other_arguments_from_afar(ids: dict[str, str], url: str, command: Command) -> None:
    done = command("job", "retry", ids["FAILED"], "--set", "fails=false", "-o", "json", "--url", url)
    assert command("job", "get", done.json[0]["retried_as"], "-o", "json").json["args"] == {"fails": False}
    wrong = command("job", "retry", ids["PENDING"], "--args", '{"no": 1}', "--url", url)
    assert (wrong.code, "no" in wrong.err) == (2, True)


def test_jobs_are_looked_up_followed_and_canceled(ids: dict[str, str], url: str, command: Command) -> None:
    def both(*words: str) -> Ended:
        local, remote = command("job", *words), command("job", *words, "--url", url)
        assert remote == local
        return remote

    assert both("get", ids["DONE"], UNKNOWN, ids["FAILED"], "-o", "json").code == 6
    assert both("list", "--state", "failed", "--function", "shop.bill", "-o", "json").json[0]["id"] == ids["FAILED"]
    assert "these are the newest" not in both("list", "--since", "now-1h", "--limit", "2").err
    assert both("list", "--function", "shop.bil").code == 3
    assert both("list", "--schedule", "none").code == 3
    assert both("get", "job_none").code == 2
    assert both("logs", ids["FAILED"], "-f", "-o", "table").err.startswith("ended: failed, ValueError: no card")
    assert both("cancel", ids["DONE"]).code == 5
    done = command("job", "stop", ids["PENDING"], ids["DONE"], "--url", url)
    assert done.code == 6
    assert done.err.startswith(f"canceled {ids['PENDING']}\n")
    assert both("cancel", ids["PENDING"]).code == 5
    assert both("cancel-all", "--schedule", "s", "--yes").err == "canceled 0 jobs that the filters choose\n"


def test_a_change_of_many_tells_how_far_it_is(
    ids: dict[str, str], url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal each piece of the server's work is told, as on a database; Ctrl-C says how many were done."""
    monkeypatch.setattr(calls, "PIECE_S", 0)
    monkeypatch.setattr(completion, "CANCEL_PAGE", 2)
    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    echo = click.echo
    app = shop()
    app.open()
    app.jobs.cancel_all()

    def interrupt(text: str = "", **options: Any) -> None:
        echo(text, **options)
        if text.endswith("2 jobs are canceled"):
            raise KeyboardInterrupt

    for place, left in ((("--url", url), "the server ends its last request within a second or two"),
                        ((), "the others stay, but perhaps for those under way")):  # fmt: skip
        for _ in range(5):
            app.scheduler.run_after(3_600, "shop.bill")
        with monkeypatch.context() as patch:
            patch.setattr(click, "echo", interrupt)
            ended = command("job", "cancel-all", "--yes", *place)
        anew = "\r"  # without the colors of a terminal
        assert ended.code == 130
        assert ended.err.startswith(f"{anew}2 jobs are canceled{anew}2 jobs are canceled; {left}\n")
        assert app.jobs.counts()["pending"] == 3

        told = command("job", "cancel-all", "--yes", *place).err
        assert told == "".join(f"{anew}{n} jobs are canceled" for n in (2, 3)) + f"{anew}canceled 3 jobs\n"
    app.close()


def test_tokens_are_made_listed_replaced_and_revoked(ids: dict[str, str], url: str, command: Command) -> None:
    def both(*words: str) -> Ended:
        local, remote = command("token", *words), command("token", *words, "--url", url)
        assert remote == local
        return remote

    made = command("token", "create", "me", "--scope", "edit", "--tenant", "acme", "-o", "json", "--url", url).json
    assert (made["tenant"], made["scope"], made["created_by"]) == ("acme", "edit", "token root")
    again = command("token", "rotate", made["id"], "--tenant", "acme", "-o", "json", "--url", url).json
    assert command("token", "revoke", again["id"], "--tenant", "other", "--url", url).code == 3
    assert command("token", "revoke", again["id"], "--tenant", "acme", "--url", url).code == 0
    assert [each["id"] for each in both("list", "--tenant", "acme", "-o", "json").json] == [made["id"], again["id"]]
    of_all = command("token", "create", "all", "--expires", "never", "-o", "json", "--url", url).json
    assert (of_all["tenant"], of_all["expires_at"]) == (None, None)
    assert made["secret"] not in both("list", "--fields", "id,name,tenant", "-o", "table").out


def test_a_tenants_token_sees_its_tenant(
    ids: dict[str, str], url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = command("token", "create", "me", "--tenant", "acme", "-o", "json").json["secret"]
    monkeypatch.setenv("EVERTICK_TOKEN", secret)
    done = command("status", "--tenant", "acme", "--url", url)
    assert done.code == 0
    assert done.err.startswith("0 due; 0 running")
    assert command("tenant", "get", "acme", "--url", url).code == 0
    assert command("status", "--url", url).err == done.err
    for words in (("worker", "list"), ("pool", "list"), ("token", "list", "--tenant", "acme")):
        assert command(*words, "--url", url).code == 4


def test_a_workflow_is_started_and_looked_at(ids: dict[str, str], url: str, command: Command) -> None:
    def ended(*words: str) -> Ended:
        return command("workflow", *words, "--url", url)

    made = ended("start", "shop.flow", "--id", "k", "--attribute", "n=7", "--attribute", "big=true")
    again = ended("start", "shop.flow", "--id", "k")
    assert again.out == made.out
    assert again.err.startswith(f"note: run {made.out.strip()} has this id and has not ended")
    assert ended("get", "k", "-o", "json").json["attributes"] == {"n": 7, "big": True}
    for chosen in ("n=7", "big=true"):
        assert [each["key"] for each in ended("list", "--attribute", chosen, "-o", "json").json] == ["k"]
    assert ended("children", "k", "-o", "json").json == []
    assert ended("children", "none").code == 3
    assert ended("wait", "k", "--timeout", "0s").code == 8
    assert ended("list", "--workflow", "shop.flwo").code == 3
    assert ended("start", "shop.flwo").code == 3
    assert ended("start", "shop.flow", "no=1").code == 2
    assert ended("start", "shop.bill").code == 2
    assert ended("start", "shop.old").code == 5
    assert ended("start", "shop.flow", "--app", "app.py").err.startswith("error: --app needs the database")


def test_a_function_is_called_or_scheduled(ids: dict[str, str], url: str, command: Command) -> None:
    def ended(*words: str) -> Ended:
        return command("run", *words, "--url", url)

    assert ended("shop.bill", "fails=false").out == "null\n"
    raised = ended("shop.bill", "fails=true")
    assert (raised.code, raised.out) == (1, "")
    assert raised.err == "error: shop.bill raised ValueError: no card\n"
    first, second = (ended("shop.bill", "--idempotency-key", "k") for _ in range(2))
    assert first.code == second.code == 0
    assert ended("shop.bill", "fails=true", "--idempotency-key", "k").code == 5
    job_id = ended("shop.bill", "--after", "1h", "--key", "j").out.strip()
    assert command("job", "get", job_id, "-o", "json").json["key"] == "j"
    job_id = ended("shop.bill", "--after", "1h", "--limit-key", "ada", "--pool", "mail", "--retry", "3").out.strip()
    job = command("job", "get", job_id, "-o", "json").json
    assert (job["limit_key"], job["pool"]) == ("ada", "mail")
    moved = ended("shop.bill", "--at", "tomorrow", "-o", "json").json
    assert moved["due_at"].endswith("T00:00:00Z")
    assert ended("shop.none").code == 3
    assert ended("shop.bill", "no=1").code == 2
    assert ended("shop.bill", "--traceback").code == 2
    assert ended("shop.bill", "--app", "app.py").code == 2
