"""`evertick job retry`, `run-now` and `reschedule`: one job, or all that a filter chooses."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evertick import App, MutationCtx, every
from tests.cli.desk import Command, work_off


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app whose function fails for odd orders."""
    app = App("shop")

    @app.mutation(name="shop.bill")
    def bill(ctx: MutationCtx, order: int) -> int:
        if order % 2:
            raise ValueError("odd")
        return order

    assert app.environment
    yield app
    app.close()


def job(command: Command, job_id: str) -> dict[str, object]:
    found: dict[str, object] = command("job", "get", job_id, "-o", "json").json
    return found


def test_a_failed_job_is_retried_with_other_arguments(shop: App, command: Command) -> None:
    failed = shop.scheduler.using(key="k", priority=3).run_after(0, "shop.bill", order=1)
    work_off(shop, 1)

    done = command("job", "retry", failed, "--args", '{"order": 2}', "-o", "json")

    [row] = done.json
    again = row["retried_as"]
    assert (done.code, row["job_id"], done.err) == (0, failed, f"{failed} runs again as {again}\n")
    work_off(shop, 1)
    assert (job(command, failed)["state"], job(command, failed)["args"]) == ("failed", {"order": 1})
    found = job(command, again)
    assert (found["state"], found["result"], found["parent_id"]) == ("success", 2, failed)
    assert (found["key"], found["priority"]) == ("k", 3)


def test_a_pending_job_is_replaced_by_one_with_other_arguments(shop: App, command: Command) -> None:
    pending = shop.scheduler.using(key="k").run_after(3600, "shop.bill", order=1)
    due_at = job(command, pending)["due_at"]

    again = command("job", "retry", pending, "--args", '{"order": 2}', "-o", "json").json[0]["retried_as"]

    assert job(command, pending)["state"] == "canceled"
    found = job(command, again)
    assert (found["state"], found["args"], found["due_at"], found["key"]) == ("pending", {"order": 2}, due_at, "k")


def test_arguments_get_another_name_in_all_jobs_that_a_filter_chooses(shop: App, command: Command) -> None:
    failed = [shop.scheduler.run_after(0, "shop.bill", order=order) for order in (1, 3)]
    work_off(shop, 2)
    pending = shop.scheduler.run_after(3600, "shop.bill", order=5)
    renamed = ("job", "retry", "--function", "shop.bill", "--rename", "order=order_id", "--yes", "-o", "json")

    failed_again, replaced = command(*renamed), command(*renamed, "--state", "pending")

    assert (failed_again.code, {row["job_id"] for row in failed_again.json}) == (0, set(failed))
    for row, order in zip(failed_again.json, (1, 3), strict=True):
        assert job(command, row["retried_as"])["args"] == {"order_id": order}
    [row] = replaced.json  # those that failed are pending again, and have the new name already
    assert (replaced.code, row["job_id"], job(command, pending)["state"]) == (0, pending, "canceled")
    assert job(command, row["retried_as"])["args"] == {"order_id": 5}


def test_a_job_is_retried_once(shop: App, command: Command) -> None:
    first, second = (shop.scheduler.run_after(0, "shop.bill", order=order) for order in (1, 3))
    work_off(shop, 2)
    [row] = command("job", "retry", first, "-o", "json").json

    again = command("job", "retry", first)
    rest = command("job", "retry", "--function", "shop.bill", "--yes", "-o", "json")
    nothing = command("job", "retry", "--all", "--yes")

    assert (again.code, again.out) == (5, "")
    assert f"was retried already, as {row['retried_as']}; if that failed too, retry that one" in again.err
    assert [each["job_id"] for each in rest.json] == [second]
    assert (nothing.code, nothing.err) == (0, "no jobs\n")
    work_off(shop, 2)
    assert {each["job_id"] for each in command("job", "retry", "--all", "--yes", "-o", "json").json} == {
        row["retried_as"], rest.json[0]["retried_as"]
    }  # fmt: skip


def test_failed_jobs_that_were_not_run_again_are_listed_and_counted(shop: App, command: Command) -> None:
    first, second = (shop.scheduler.run_after(0, "shop.bill", order=order) for order in (1, 3))
    work_off(shop, 2)
    [row] = command("job", "retry", first, "--set", "order=2", "-o", "json").json
    work_off(shop, 1)

    assert job(command, first)["retried_as"] == row["retried_as"]
    for words in (("--not-retried",), ("--state", "failed", "--not-retried"), ("--not-retried", "--since", "now-1h")):
        assert [each["id"] for each in command("job", "list", *words, "-o", "json").json] == [second], words
    states = {each["id"]: each["state"] for each in map(dict, command("job", "list", "-o", "json").json)}
    assert (states[first], states[second]) == ("failed", "failed")
    shown = command("job", "list", "--state", "failed", "--fields", "id,state").out.splitlines()
    assert {*shown} >= {f"{first}\tfailed (retried)", f"{second}\tfailed"}
    [counts] = command("job", "counts", "-o", "json").json
    assert (counts["failed"], counts["not_retried"]) == (2, 1)
    status = command("status")
    assert "1 failed in the last hour and 1 that was run again" in status.err
    for words in (("--state", "canceled"), ("--blocked",)):
        refused = command("job", "list", "--not-retried", *words)
        assert (refused.code, "--not-retried: only failed jobs are meant" in refused.err) == (2, True)
    waiting = command("job", "list", "--not-retried", "--upcoming")
    assert (waiting.code, "leave out --not-retried" in waiting.err) == (2, True)


def test_a_filter_retries_all_that_it_chooses_once_their_number_is_typed(
    shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for order in (1, 3, 5, 6):
        shop.scheduler.run_after(0, "shop.bill", order=order)
    work_off(shop, 4)
    monkeypatch.setattr("evertick.cli.core.progress.is_terminal", lambda stream: stream is sys.stdin)
    typed = ["2", "3"]
    asked: list[str] = []
    monkeypatch.setattr("click.prompt", lambda text, err: asked.append(text) or typed.pop(0))
    chosen = ("job", "retry", "--function", "shop.bill", "--since", "now-1h", "-o", "json")

    wrong, right = command(*chosen), command(*chosen)

    assert (wrong.code, wrong.out) == (130, "")
    assert (right.code, len(right.json)) == (0, 3)
    assert asked == ["To retry 3 jobs, type 3"] * 2
    assert command(*chosen, "--yes").json == []  # they were retried already
    nothing = command("job", "retry", "--all", "--until", "now-1h")
    assert (nothing.code, nothing.err) == (0, "no jobs\n")


@pytest.mark.parametrize("words", [("retry",), ("run-now",), ("reschedule", "--at", "now+1h"), ("cancel",), ("get",)])
def test_what_is_no_id_of_a_job_is_said_alike_by_all_commands(shop: App, command: Command, words: tuple[str]) -> None:
    done = command("job", *words, "job_x")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: 'job_x' is not the id of a job: expected job_ and 28 characters 0-9, a-f; "
        "`evertick job list` shows them\n"
    )


def test_pending_jobs_run_now_or_at_another_time(shop: App, command: Command) -> None:
    first, second = (shop.scheduler.run_after(3600, "shop.bill", order=order) for order in (2, 4))
    year = datetime.now(UTC).year + 1

    moved = command("job", "reschedule", second, "--at", f"{year}-12-24T09:00", "-o", "json")
    now = command("job", "run-now", first, "-o", "jsonl")

    assert moved.json == [{"job_id": second, "due_at": f"{year}-12-24T09:00:00Z"}]
    assert moved.err == f"{second} is due at {year}-12-24T09:00:00Z\n"
    assert datetime.fromisoformat(now.json["due_at"]) <= datetime.now(UTC) + timedelta(seconds=1)
    work_off(shop, 1)
    assert (job(command, first)["state"], job(command, second)["state"]) == ("success", "pending")
    everything = command("job", "run-now", "--function", "shop.bill", "--yes")
    assert (everything.code, everything.out) == (0, "")
    work_off(shop, 1)
    assert job(command, second)["state"] == "success"


def test_what_cannot_be_is_refused_with_the_reason(shop: App, command: Command, tmp_path: Path) -> None:
    pending = shop.scheduler.run_after(3600, "shop.bill", order=2)
    done = shop.scheduler.run_after(0, "shop.bill", order=2)
    failed = shop.scheduler.run_after(0, "shop.bill", order=3)
    shop.schedules.create("s", when=every(hours=1), do=shop.functions.resolve("shop.bill").with_args(order=2))
    work_off(shop, 2)
    run = shop.schedules.trigger("s").job_id or ""
    unknown = "job_" + "0" * 28
    for words, code, message in (
        (["retry", done], 5, "has succeeded; call shop.bill again with `evertick run`"),
        (["retry", pending], 5, f"`evertick job run-now {pending}` lets it run at once"),
        (["retry", run, "--args", '{"order": 4}'], 5, "is a run of the schedule 's': update the schedule"),
        (["retry", unknown], 3, f"no job {unknown}"),
        (["retry", "nonsense"], 3, "no job has the key 'nonsense'"),
        (["retry"], 2, "name the jobs to retry by their ids, or choose them with --function"),
        (["retry", failed, "--all"], 2, "name the jobs to retry by their ids, or choose them with --function"),
        (["retry", "--all"], 2, "this would retry 1 job; give --yes where no terminal can confirm it"),
        (["retry", "--all", "--args", "{}"], 2, "--args are of one job"),
        (["retry", "--all", "--state", "pending"], 2, "pending jobs have not failed yet"),
        (["retry", failed, "--rename", "order"], 2, "--rename 'order': name both arguments"),
        (["retry", failed, "--rename", "id=order_id"], 2, "has no argument 'id'; it has order"),
        (["retry", failed, "--rename", "order=order"], 2, "has the argument 'order' already"),
        (["retry", failed, "--rename", "a=b", "--args", "{}"], 2, "give either it or --set and --rename"),
        (["retry", failed, "--args", "[1]"], 2, "--args must hold a JSON object"),
        (["retry", "--all", "--since", "soon"], 2, "--since 'soon' is not a date or time"),
        (["run-now", done], 5, "is success; only the time of a pending job can be changed"),
        (["run-now"], 2, "name the jobs to run now"),
        (["reschedule", pending], 2, "Missing option '--at'"),
        (["reschedule", pending, "--at", "soon"], 2, "is not a date or time"),
        (["reschedule", pending, "--at", "2100-01-01"], 2, "more than 5 years in the future"),
        (["reschedule", pending, unknown, "--at", "now+1h"], 6, f"no job {unknown}"),
    ):
        ended = command("job", *words)
        assert (ended.code, ended.out) == (code, ""), words
        assert message in ended.err.splitlines()[-1], words


def test_arguments_are_checked_against_the_code_where_it_is_given(shop: App, command: Command, tmp_path: Path) -> None:
    (tmp_path / "bills.py").write_text(
        "from evertick import App\n"
        'app = App("shop")\n'
        '@app.mutation(name="shop.bill")\n'
        "def bill(ctx, order_id: int) -> int:\n    return order_id\n"
    )
    failed = shop.scheduler.run_after(0, "shop.bill", order=1)
    work_off(shop, 1)

    refused = command("job", "retry", failed, "--args", '{"order": 2}', "--app", "bills.py")
    taken = command("job", "retry", failed, "--args", '{"order_id": 2}', "--app", "bills.py", "-o", "json")

    assert (refused.code, "order_id: field required" in refused.err) == (2, True)
    assert job(command, taken.json[0]["retried_as"])["args"] == {"order_id": 2}


def test_one_argument_is_set_and_the_others_stay(shop: App, command: Command) -> None:
    @shop.mutation(name="shop.send")
    def send(ctx: MutationCtx, order: int, to: str, copies: int = 1) -> None:
        raise ValueError("odd")

    failed = shop.scheduler.run_after(0, "shop.send", order=1, to="ada", copies=3)
    work_off(shop, 1)

    done = command("job", "retry", failed, "--set", "order=2", "--set", "to=bob", "-o", "json")

    assert done.code == 0
    assert job(command, done.json[0]["retried_as"])["args"] == {"order": 2, "to": "bob", "copies": 3}
    assert "give either it or --set" in command("job", "retry", failed, "--set", "order=2", "--args", "{}").err
    assert "--set 'order': name an argument and its value" in command("job", "retry", failed, "--set", "order").err
