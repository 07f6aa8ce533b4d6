"""Mistakes on the command line of schedules: what is meant is said, and where the mistake is."""

from pathlib import Path

import pytest

from evertick import App
from evertick.app.functions_by_name import NamedFunction, NamedFunctions
from evertick.base.ids import DEFAULT_TENANT, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import SERVES, FunctionKind, ServedFunction, Serves, Worker
from tests.cli.desk import Command
from tests.cli.test_every_command import ids, shop, shop_file

__all__ = ["ids", "shop_file"]

HOURLY = ("--interval", "1h")


def test_a_function_that_is_probably_misspelt_is_refused_unless_forced(ids: dict[str, str], command: Command) -> None:
    wrong = ("schedule", "create", "a", *HOURLY, "--function", "shop.bil")
    refused = command(*wrong)
    assert (refused.code, refused.out) == (3, "")
    assert refused.err == (
        "error: no worker, job or schedule has a function 'shop.bil'; did you mean shop.bill? "
        "--force takes it all the same\n"
    )
    assert command("schedule", "get", "a").code == 3
    assert command("schedule", "update", "s", "--function", "shop.bil").code == 3
    assert command("schedule", "update", "s", "--force").code == 2
    forced = command(*wrong, "--force")
    assert (forced.code, "nothing in this database has called shop.bil yet" in forced.err) == (0, True)


def test_a_schedule_that_is_probably_misspelt_is_found_in_its_tenant(ids: dict[str, str], command: Command) -> None:
    made = ("schedule", "create", *HOURLY, "--function", "shop.bill", "--tenant", "acme")
    assert [command(*made, "-s", name).code for name in ("daily", "weekly")] == [0, 0]
    cure = "list them with `evertick schedule list --tenant acme`"
    meant = f"error: no schedule 'daly' in the tenant acme; did you mean 'daily'? {cure}\n"
    for words in (("get", "daly"), ("pause", "daly"), ("export", "daly"), ("history", "daly")):
        assert command("schedule", *words, "--tenant", "acme").err == meant
    assert command("job", "list", "--schedule", "daly", "--tenant", "acme").err == meant
    elsewhere = command("schedule", "get", "daly").err
    assert elsewhere == "error: no schedule 'daly'; list them with `evertick schedule list`\n"
    assert command("cron", "get", "x", "--tenant", "acme").err.endswith("`evertick cron list --tenant acme`\n")


def test_a_function_unlike_all_others_is_taken_with_a_note(ids: dict[str, str], command: Command) -> None:
    done = command("schedule", "create", "a", *HOURLY, "--function", "reports.weekly_summary")
    assert done.code == 0
    assert "nothing in this database has called reports.weekly_summary yet" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--cron nonsense", "--cron: the cron line 'nonsense' has 1 field"),
        ("--cron @hourly --cron nonsense", "--cron: the cron line 'nonsense' has 1 field"),
        ("--interval never", "--interval: 'never' is not a duration"),
        ("--when gibberish", "--when: 'gibberish' is neither a sentence nor a cron line"),
        ("--at noon", "--at: a time 'noon' is not a date or time"),
        ("--rrule FOO", "--rrule: 'FOO' is not a line"),
        ('--calendar {"hour":"99"}', "--calendar: hour must lie between 0 and 23"),
        ("--cron @hourly --except zz", "--except: 'zz': write a date"),
        ("--cron @hourly --jitter 5x", "--jitter: '5x' is not a duration"),
        ("--cron @hourly --start-time zz", "--start-time 'zz' is not a date"),
    ],
)
def test_an_error_in_a_time_names_its_flag(words: str, says: str, ids: dict[str, str], command: Command) -> None:
    for call in (("schedule", "preview"), ("schedule", "create", "a", "--function", "shop.bill")):
        done = command(*call, *words.split())
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {says}")


def test_an_unknown_member_of_a_file_is_told_with_the_one_that_was_meant(
    ids: dict[str, str], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(
        "schedules:\n- id: a\n  when: '@hourly'\n  function: shop.bill\n  overlapp: skip\n  zzz: 1\ncron: []\n"
    )
    done = command("schedule", "apply", "s.yaml", "--yes")
    assert done.code == 2
    assert "s.yaml:5: a: overlapp: a schedule has no such member; did you mean 'overlap'?\n" in done.err
    assert "s.yaml:6: a: zzz: a schedule has no such member\n" in done.err
    assert "s.yaml:7: there is no 'cron'; did you mean 'crons'?\n" in done.err


def test_a_file_whose_function_is_probably_misspelt_is_refused_unless_forced(
    ids: dict[str, str], command: Command, tmp_path: Path
) -> None:
    def write(*functions: str) -> None:
        entries = [f"- id: a{n}\n  when: every minute\n  function: {name}\n" for n, name in enumerate(functions)]
        (tmp_path / "s.yaml").write_text(f"schedules:\n{''.join(entries)}")

    apply = ("schedule", "apply", "s.yaml", "--yes")
    write("shop.bill", "shop.bil")
    refused = command(*apply)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines()[0] == (
        "s.yaml:5: a1: no worker, job or schedule has a function 'shop.bil'; did you mean shop.bill? "
        "--force takes it all the same"
    )
    assert command("schedule", "get", "a0").code == 3, "nothing was changed"
    forced = command(*apply, "--force")
    unseen = "note: nothing in this database has called shop.bil yet; its runs wait until a worker knows it"
    assert (forced.code, forced.err.splitlines()) == (0, [unseen, "2 created"])
    assert (again := command(*apply)).code == 0 and again.err == "2 unchanged\n"
    write("shop.bill", "shop.bill")
    assert command(*apply).err == "1 changed, 1 unchanged\n"
    write("shop.bill", "shop.bilk")
    assert command(*apply).code == 2, "a change of an existing schedule, too"


def test_a_function_of_a_file_that_is_unlike_all_others_is_noted_once(
    ids: dict[str, str], command: Command, tmp_path: Path
) -> None:
    entry = "- id: a{}\n  when: every minute\n  function: reports.weekly_summary\n"
    (tmp_path / "s.yaml").write_text("schedules:\n" + "".join(map(entry.format, range(3))))
    done = command("schedule", "apply", "s.yaml", "--yes", "-o", "json")
    assert done.err == (
        "note: nothing in this database has called reports.weekly_summary yet; its runs wait until a worker knows it\n"
        "3 created\n"
    )


@pytest.mark.parametrize(
    ("member", "says"),
    [
        ("time_zone: Europe/Berlin", "time_zone: the zone belongs to the times, as in when: {crons: ['0 9 * * *'], "),
        ("retry: often", "retry: give a number of attempts, or attempts with waits, such as {attempts: 5, first: 1s}"),
        ("except: ['2027-12-24', '2027-13-01']", "except.1: it is a list of dates such as 2026-12-24, pairs of dates,"),
        ("except: ['2027-13-01']", "except.0: it is a list of dates such as 2026-12-24, pairs of dates, and mappings"),
        ("start: 2027-01-01T09:00", "start: the time has no time zone; add one: 2027-01-01T00:00:00+01:00"),
        (
            "paused: 2027-01-01",
            "paused: it is true, false, or the moment until which it is paused, such as 2027-01-01T",
        ),
        ("jitter: long", "'long' is not a duration; write it like '90s'"),
    ],
)
def test_what_is_wrong_with_a_member_of_a_file_is_one_line_with_its_cure(
    ids: dict[str, str], command: Command, tmp_path: Path, member: str, says: str
) -> None:
    (tmp_path / "s.yaml").write_text(f"schedules:\n- id: a\n  when: 0 9 * * *\n  function: shop.bill\n  {member}\n")
    done = command("schedule", "apply", "s.yaml", "--yes")
    line, end = done.err.splitlines()
    assert (done.code, end) == (2, "error: 1 problem in what is to be applied; nothing was changed")
    assert line.startswith(("s.yaml:5: a: ", "s.yaml:2: a: 'long'")) and says in line


def test_a_file_takes_a_number_of_attempts(ids: dict[str, str], command: Command, tmp_path: Path) -> None:
    text = "schedules:\n- id: a\n  when: 0 9 * * *\n  function: shop.bill\n  retry: 3\n"
    (tmp_path / "s.yaml").write_text(text)
    assert command("schedule", "apply", "s.yaml", "--yes").code == 0
    assert command("schedule", "get", "a", "-o", "json").json["target"]["retry"][0] == 3
    (tmp_path / "s.yaml").write_text(text.replace("retry: 3", "retry: {attempts: 3}"))
    assert command("schedule", "apply", "s.yaml", "--check").code == 0, "it is the same"


def test_a_catch_up_window_that_is_lifted_is_told(ids: dict[str, str], command: Command) -> None:
    note = "note: a catch-up window of less than 10s counts as 10s"
    made = command("schedule", "create", "a", *HOURLY, "--function", "shop.bill", "--catchup-window", "1s")
    assert note in made.err.splitlines()
    assert note in command("schedule", "update", "a", "--catchup-window", "9s").err.splitlines()
    assert note in command("schedule", "update", "a", "--catchup-window", "0s").err.splitlines()
    assert note not in command("schedule", "update", "a", "--catchup-window", "10s").err


def test_an_explanation_gives_the_nearest_times_on_the_clock_of_the_schedule(
    ids: dict[str, str], command: Command
) -> None:
    made = ("schedule", "create", "b", "--cron", "0 9 * * *", "--function", "shop.bill")
    assert command(*made, "--tz", "Europe/Berlin").code == 0
    told = command("schedule", "explain", "b", "--at", "2099-07-02T08:00").out
    assert (
        "2099-07-01T09:00:00+02:00 (2099-07-01T07:00:00Z) and 2099-07-02T09:00:00+02:00 (2099-07-02T07:00:00Z)" in told
    )


def test_a_function_that_a_worker_has_is_known_with_its_kind(ids: dict[str, str], command: Command) -> None:
    app: App = shop()
    store = app.environment.store
    serves = Serves((ServedFunction("shop.ring", FunctionKind.ACTION, "default", "()"),))
    worker = Worker(WorkerId("worker_2"), Instant(0), Instant(0), "host", 1, serves=SERVES.value(serves))
    store.write(lambda transaction: transaction.register_worker(worker))
    found = NamedFunctions(store, DEFAULT_TENANT).resolve("shop.ring")
    assert isinstance(found, NamedFunction)
    assert (found.kind, found.seen, found.meant) == (FunctionKind.ACTION, True, ())
    app.close()
    assert "note: nothing" not in command("schedule", "create", "a", *HOURLY, "--function", "shop.ring").err


def test_the_row_of_a_worker_that_cannot_be_read_hides_no_pool_of_the_others(
    ids: dict[str, str], command: Command
) -> None:
    app: App = shop()
    serves = Serves((ServedFunction("shop.ring", FunctionKind.ACTION, "shop/bells", "()"),))
    rows = (SERVES.text('{"v": 99}'), SERVES.value(serves))
    for number, row in enumerate(rows):
        worker = Worker(WorkerId(f"worker_9{number}"), Instant(number), Instant(0), "host", 1, serves=row)
        app.environment.store.write(lambda transaction, worker=worker: transaction.register_worker(worker))  # type: ignore[misc]
    app.close()

    made = ("schedule", "create", "a", *HOURLY, "--function", "shop.ring")
    assert "shop.ring is in the pool 'bells' and not in 'mail'" in command(*made, "--pool", "mail").err
    assert command(*made, "--pool", "bells").code == 0
