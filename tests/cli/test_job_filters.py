"""Filters of `evertick job list`, `retry` and `cancel-all`: by key, by error, and what no live worker runs."""

from collections.abc import Iterator

import pytest

from evertick import App, MutationCtx
from evertick.store.transaction import lists
from tests.app.engine import Engine
from tests.cli.desk import Command, work_off


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with a function that fails for some customers."""
    app = App("shop")

    @app.mutation(name="shop.bill")
    def bill(ctx: MutationCtx, customer: str) -> None:
        if customer != "ann":
            raise LookupError(f"no customer {customer!r}")

    assert app.environment
    yield app
    app.close()


def ids(command: Command, *words: str) -> list[str]:
    """The jobs that a list shows, as JSON."""
    return [row["id"] for row in command("job", "list", "-o", "json", *words).json]


def test_jobs_are_listed_and_retried_by_key_and_by_error(shop: App, command: Command) -> None:
    ann, bob, cat = (
        shop.scheduler.using(key=f"bill {name}").run_after(0, "shop.bill", name) for name in ("ann", "bob", "cat")
    )
    work_off(shop, 3)
    again = shop.scheduler.using(key="bill ann").run_after(60, "shop.bill", "ann")

    assert ids(command, "--key", "bill ann") == [again, ann]
    assert ids(command, "--key", "bill ann", "--state", "success") == [ann]
    assert ids(command, "--error", "lookuperror: no customer") == [cat, bob]
    assert ids(command, "--error", "'bob'", "--function", "shop.bill") == [bob]
    nothing = command("job", "list", "--error", "no route")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no jobs\n")
    retried = command("job", "retry", "--error", "'bob'", "--yes", "-o", "json")
    assert [row["job_id"] for row in retried.json] == [bob]
    assert command("job", "retry", "--key", "bill cat", "--yes", "-o", "json").json[0]["job_id"] == cat
    canceled = command("job", "cancel-all", "--key", "bill ann", "--yes")
    assert (canceled.code, canceled.err) == (0, "canceled 1 job that the filters choose\n")
    assert ids(command, "--key", "bill ann", "--state", "canceled") == [again]


def test_failed_jobs_of_a_pool_are_listed_and_retried(shop: App, command: Command) -> None:
    @shop.mutation(name="shop.mail", pool="mail")
    def mail(ctx: MutationCtx) -> None:
        raise LookupError("no route")

    mails = [shop.scheduler.run_after(0, "shop.mail") for _ in range(3)]
    bill = shop.scheduler.run_after(0, "shop.bill", "bob")
    work_off(shop, 4)

    assert ids(command, "--pool", "mail", "--state", "failed") == mails[::-1]
    assert ids(command, "--pool", "default") == [bill]
    retried = command("job", "retry", "--pool", "mail", "--yes", "-o", "json")
    assert sorted(row["job_id"] for row in retried.json) == sorted(mails)
    for words in (("list",), ("retry", "--yes"), ("cancel-all", "--yes")):
        misspelt = command("job", *words, "--pool", "mial")
        assert "note: nothing here has the pool 'mial' yet; did you mean mail?" in misspelt.err, words
    canceled = command("job", "cancel-all", "--pool", "mail", "--yes")
    assert (canceled.code, canceled.err) == (0, "canceled 3 jobs that the filters choose\n")
    wrong = command("job", "list", "--pool", "a/b")
    assert wrong.code == 2 and "a pool's name" in wrong.err


def test_jobs_are_chosen_by_their_limit_key_and_show_it(shop: App, command: Command) -> None:
    ann, bob = (
        [shop.scheduler.using(limit_key=name).run_after(0, "shop.bill", name) for _ in range(count)]
        for name, count in (("ann", 2), ("bob", 1))
    )

    assert ids(command, "--limit-key", "ann") == ann[::-1]
    shown = command("job", "list", "--fields", "id,limit_key", "--limit", "3")
    assert shown.out == "".join(f"{job}\t{key}\n" for job, key in ((bob[0], "bob"), (ann[1], "ann"), (ann[0], "ann")))
    assert command("job", "get", bob[0], "-o", "json").json["limit_key"] == "bob"
    canceled = command("job", "cancel-all", "--limit-key", "ann", "--yes")
    assert (canceled.code, canceled.err) == (0, "canceled 2 jobs that the filters choose\n")
    assert ids(command, "--state", "pending") == bob


def test_several_jobs_are_shown_in_the_order_of_their_ids_and_what_is_missing_is_said(
    shop: App, command: Command
) -> None:
    ann, bob = (shop.scheduler.run_after(60, "shop.bill", name) for name in ("ann", "bob"))
    none = f"job_{'0' * 28}"

    done = command("job", "get", bob, ann, bob, "-o", "json")
    assert (done.code, [row["id"] for row in done.json]) == (0, [bob, ann])
    assert command("job", "get", ann, bob, "--fields", "state,args").out.count("pending") == 2
    partly = command("job", "get", ann, none, "--fields", "id")
    assert (partly.code, partly.out) == (6, f"{ann}\n")
    assert partly.err.startswith(f"error: no job {none}")
    missing = command("job", "get", none, f"job_{'1' * 28}")
    assert (missing.code, missing.err.count("error: no job")) == (3, 2)


def test_blocked_jobs_are_listed_moved_and_canceled(shop: App, command: Command) -> None:
    other = App("shop")
    other.mutation(name="shop.other")(lambda ctx: None)
    with Engine(other) as engine:
        engine.wait(other.scheduler.run_after(0, "shop.other"))  # it lives
        first, second = (shop.scheduler.run_after(0, "shop.bill", name) for name in ("ann", "bob"))

        rows = command("job", "list", "--blocked", "-o", "json").json
        assert [(row["id"], row["blocked"]) for row in rows] == [(second, True), (first, True)]
        assert ids(command, "--blocked", "--function", "shop.bill", "--state", "pending") == [second, first]
        moved = command("job", "reschedule", "--blocked", "--at", "now+1h", "--yes", "-o", "json")
        assert {row["job_id"] for row in moved.json} == {first, second}
        third = shop.scheduler.run_after(0, "shop.bill", "cat")
        canceled = command("job", "cancel-all", "--blocked", "--yes")
        assert (canceled.code, canceled.err) == (0, "canceled 1 job that the filters choose\n")
        assert ids(command, "--state", "canceled") == [third]
    other.close()
    assert command("job", "list", "--blocked").err == "no jobs\n"


def test_a_page_says_where_the_next_one_begins(shop: App, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [shop.scheduler.run_after(3_600, "shop.bill", str(number)) for number in range(60)]
    full = command("job", "list", "--fields", "id")
    assert full.err == f"these are the newest 50; there are more: --limit, or --cursor {made[10]}\n"
    assert ids(command, "--cursor", made[10]) == made[9::-1]

    monkeypatch.setattr(lists, "SCAN_MAX", 45)
    part = command("job", "list", "--since", "now+2h")
    assert (part.code, part.out) == (0, "")
    assert part.err == f"only some of the jobs were searched; continue with --cursor {made[15]}\n"
    assert command("job", "list", "--since", "now+2h", "--cursor", made[15]).err == "no jobs\n"


def test_counts_of_one_function(shop: App, command: Command) -> None:
    shop.scheduler.run_after(60, "shop.bill", "ann")

    [row] = command("job", "counts", "--function", "shop.bill", "-o", "json").json

    assert (row["function"], row["pending"]) == ("shop.bill", 1)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["list", "--error", ""], 2, "--error takes a text that is not empty"),
        (["list", "--blocked", "--state", "failed"], 2, "--blocked: only pending jobs can be blocked"),
        (["retry", "--blocked", "--yes"], 2, "--blocked: only pending jobs can be blocked"),
        (["list", "--cursor", "schedule_1"], 2, "'schedule_1' is not the id of a job"),
        (["cancel-all", "--since", "soonish", "--yes"], 2, "--since"),
        (["cancel-all", "--schedule", "nightyl", "--yes"], 3, "no schedule 'nightyl'"),
        (["counts", "--function", "shop.bil"], 3, "did you mean shop.bill"),
    ],
)
def test_wrong_input_is_one_line_and_an_exit_code(
    shop: App, command: Command, words: list[str], code: int, message: str
) -> None:
    shop.scheduler.run_after(60, "shop.bill", "ann")

    done = command("job", *words)

    assert (done.code, done.out) == (code, "")
    assert message in done.err.splitlines()[-1]


def test_jobs_that_wait_are_listed_by_their_time(shop: App, command: Command) -> None:
    late, soon, later = (shop.scheduler.run_after(seconds, "shop.bill", "ann") for seconds in (0, 60, 3600))
    sooner = shop.scheduler.run_after(30, "shop.bill", "ann")

    assert ids(command) == [sooner, later, soon, late]
    assert ids(command, "--upcoming") == [sooner, soon, later]
    assert ids(command, "--upcoming", "--until", "now+5m") == [sooner, soon]
    first = command("job", "list", "--upcoming", "--limit", "2", "-o", "json")
    assert [row["id"] for row in first.json] == [sooner, soon]


def test_the_list_by_time_goes_on_where_a_page_has_ended(
    shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.cli.job.commands.LIMIT_DEFAULT", 2)
    waiting = [shop.scheduler.run_after(60 * n, "shop.bill", "ann") for n in (1, 2, 3)]
    full = command("job", "list", "--upcoming", "--limit", "2", "--fields", "id")
    assert "these are the 2 due soonest; there are more: --limit, or --cursor " in full.err
    cursor = full.err.split()[-1]
    assert ids(command, "--upcoming", "--cursor", cursor) == waiting[2:]
    wrong = command("job", "list", "--upcoming", "--cursor", waiting[0])
    assert (wrong.code, wrong.err) == (
        2, f"error: '{waiting[0]}' is not the cursor of a list of upcoming jobs\n"
    )  # fmt: skip


@pytest.mark.parametrize("flag", [("--state", "failed"), ("--blocked",)])
def test_what_does_not_wait_has_no_list_by_time(shop: App, command: Command, flag: tuple[str, ...]) -> None:
    refused = command("job", "list", "--upcoming", *flag)
    assert refused.code == 2
    assert f"leave out {flag[0]}" in refused.err
