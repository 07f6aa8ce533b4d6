"""`evertick schedule preview`: times of one spec from flags, and for many from a file."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from evertick.cli.schedule.flags import SpecFlags, spec_options
from evertick.cli.schedule.preview import preview, previews


def run(*arguments: str) -> Result:
    return CliRunner().invoke(preview, arguments)


def ask(**line: Any) -> dict[str, Any]:
    [answer] = previews([json.dumps(line)], "now", 5)
    return answer


def test_the_seeds_flags_are_understood() -> None:
    result = run(
        "--interval", "5h/15m", "--cal", '{"dayOfWeek":"Fri","hour":"11","minute":"3"}',
        "--after", "2022-06-17T05:00:00Z", "-n", "3", "-o", "json",
    )  # fmt: skip
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert [row["utc"][11:16] for row in shown["times"]] == ["05:15", "10:15", "11:03"]
    assert shown["time_zone"] == "UTC"
    assert "5 hours" in shown["description"]


def test_a_sentence_is_a_flag_like_any_other() -> None:
    result = run(
        "--when", "every weekday at 9am except holidays in New York, New York time", "--when", "0 12 * * 6",
        "--interval", "7d/12h", "--except", "2026-11-28", "--after", "2026-11-25T12:00:00Z", "-n", "5", "-o", "json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["time_zone"] == "America/New_York"
    # Thanksgiving is the 26th, the excluded Saturday the 28th; the interval would fire on Thursday the 26th as well.
    assert [row["time"][:16] for row in shown["times"]] == [
        "2026-11-25T09:00", "2026-11-27T09:00", "2026-11-30T09:00", "2026-12-01T09:00", "2026-12-02T09:00",
    ]  # fmt: skip


def test_a_sentence_is_read_on_the_clock_that_tz_names() -> None:
    result = run(
        "--when", "every day at noon, beginning 2 May 2026", "--tz", "Asia/Tokyo", "--after", "2026-01-01", "-n", "1",
        "-o", "jsonl",
    )  # fmt: skip
    assert json.loads(result.stdout)["time"] == "2026-05-02T12:00:00+09:00"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--when", "every weakday at 9am"],
            "'weakday at 9am' is not understood after 'every'; did you mean 'weekday'",
        ),
        (["--when", "every weakday at 9am"], "Read as a cron line"),
        (["--when", "every day at noon, Tokyo time", "--tz", "Europe/Berlin"], "Asia/Tokyo, but the time zone given"),
        (["--when", "hourly, Tokyo time", "--when", "hourly, Berlin time"], "different time zones: Asia/Tokyo, Europe"),
        (
            ["--when", "hourly, Tokyo time", "--spec", '{"time_zone": "Europe/Berlin"}'],
            "the time zone given with it is",
        ),
        (["--when", "hourly, ending 1 May 2027", "--end-time", "2027-05-01"], "the end is given by a sentence and by"),
        (["--when", "hourly", "--dialect", "temporal"], "does not go with the dialect temporal"),
        (
            ["--when", "hourly, ending 1 May 2027", "--when", "at noon every day, ending 1 June 2027"],
            "two sentences differ in their end",
        ),
    ],
)
def test_a_sentence_that_cannot_be_read_or_contradicts_is_a_usage_error(flags: list[str], message: str) -> None:
    result = run(*flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_clock_change_is_noted_beside_the_time() -> None:
    result = run("--cron", "30 2 * * *", "--tz", "America/New_York", "--after", "2025-03-08", "-n", "2", "-o", "jsonl")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["time"] for row in rows] == ["2025-03-08T02:30:00-05:00", "2025-03-09T03:00:00-04:00"]
    assert "note" not in rows[0]
    assert "clocks went forward" in rows[1]["note"]


def test_the_table_has_data_on_stdout_and_words_on_stderr() -> None:
    result = run("--cron", "0 9 * * 1-5", "--after", "2026-05-20T12:00:00Z", "-n", "1")
    assert result.stdout.split("\t")[:2] == ["2026-05-21T09:00:00+00:00", "2026-05-21T09:00:00Z"]
    assert "weekdays" in result.stderr


def test_what_is_rarely_meant_is_remarked_upon() -> None:
    result = run("--cron", "* 9 * * *", "--after", "2026-05-20T12:00:00Z", "-n", "1")
    assert "note: crons[0]:" in result.stderr
    shown = json.loads(run("--cron", "* 9 * * *", "--after", "2026-05-20T12:00:00Z", "-o", "json").stdout)
    assert [warning["code"] for warning in shown["warnings"]] == ["every_minute"]


def test_a_spec_of_which_nothing_is_left_says_never_in_its_sentence_too() -> None:
    emptied = ("--cron", "0 9 * * 1", "--except", '{"calendar":{"day_of_week":"Mon"}}', "-o", "json")
    assert json.loads(run(*emptied).stdout)["description"] == (
        "never (no time is left of: at 09:00 on Mondays, except on Mondays)"
    )
    assert json.loads(run("--cron", "0 0 30 2 *", "-o", "json").stdout)["description"].count("never") == 1


def test_never_and_ended_are_told_apart() -> None:
    assert "never" in run("--cron", "0 0 30 2 *").stderr
    ended = run("--at", "2020-01-01T00:00:00Z", "--after", "2026-01-01", "-o", "json")
    assert json.loads(ended.stdout)["ended"] is True


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--cron", "61 * * * *"),
        ("--cal", "{broken"),
        ("--cal", "[" * 100_000),
        ("--spec", "[]"),
        ("--spec", "@/no/such/file"),
        ("--cron", "0 9 * * *", "--tz", "Mars/Phobos"),
        ("--cron", "0 9 * * *", "--after", "whenever"),
        ("--cron", "0 9 * * *", "--start-time", "2026-02-30"),
        ("--cron", "0 9 * * *", "-n", "0"),
    ],
)
def test_a_mistake_is_a_usage_error_without_a_traceback(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "Error" in result.stderr


def test_a_file_is_answered_line_by_line_and_one_bad_line_stops_nothing(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "spec": {"crons": ["0 9 * * 1-5"]}, "after": "2026-05-20T12:00:00Z", "count": 2},
        {"id": "b", "spec": {"crons": ["0 0 30 2 *"]}},
        {"id": "c", "spec": {"crons": ["nonsense"]}},
        {"id": "d", "spec": {"calendars": [{"year": "2024"}]}, "after": "2026-01-01T00:00:00Z"},
        {"id": "e", "spec": {"crons": ["@daily"]}, "count": 10**9},
        {"id": "f", "spec": {"crons": ["@daily"]}, "colour": "red"},
        ["not", "an", "object"],
        {"id": "g", "spec": {"intervals": ["1h"]}, "after": "2026-05-20T12:00:00.000000009Z", "count": 1},
    ]
    path = tmp_path / "specs.jsonl"
    path.write_text("\n".join([*map(json.dumps, lines), "{broken", "", "[" * 200_000]), "utf-8")
    result = run("--file", str(path))
    assert result.exit_code == 0
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(found) == len(lines) + 2
    assert found[0]["times"] == ["2026-05-21T09:00:00+00:00", "2026-05-22T09:00:00+00:00"]
    assert "weekdays" in found[0]["description"]
    assert found[1] == {"id": "b", "never": True}
    assert found[2]["error"]["code"] == "invalid_spec"
    assert (found[3]["times"], found[3]["ended"]) == ([], True)
    assert [one["error"]["code"] for one in (found[4], found[5], found[6])] == ["invalid_spec"] * 3
    assert found[7]["times"] == ["2026-05-20T13:00:00+00:00"]
    assert [one["id"] for one in found[8:]] == [None, None]


def test_times_are_on_the_clock_of_the_schedule() -> None:
    spec = {
        "rrules": [{"dtstart": "1997-09-02T09:00:00", "rrule": "FREQ=DAILY;COUNT=2"}],
        "time_zone": "America/New_York",
    }
    assert ask(id=1, spec=spec, after="1990-01-01T00:00:00Z")["times"] == [
        "1997-09-02T09:00:00-04:00",
        "1997-09-03T09:00:00-04:00",
    ]


def test_with_a_seed_the_times_are_the_actual_ones() -> None:
    spec = {"intervals": [{"every": "1h"}], "jitter": "1h", "dialect": "temporal"}
    answer = ask(id="j", spec=spec, after="2022-06-01T00:00:00Z", count=2, jitter_seed="mynsid-myschedule")
    assert answer["times"] == ["2022-06-01T01:49:22.594Z", "2022-06-01T02:02:39.204Z"]


def test_the_flags_can_be_given_to_any_command() -> None:
    @click.command()
    @spec_options
    @click.option("--note", default="")
    def create(spec_flags: SpecFlags, note: str) -> None:
        click.echo(json.dumps([note, spec_flags.wire()], sort_keys=True))

    result = CliRunner().invoke(
        create,
        [
            "--note", "x", "--cron", "@daily", "--except", '{"dates":["2027-01-01"]}', "--tz", "Europe/Berlin",
            "--start-time", "2026-07-01T09:00:00", "--end-time", "2026-08-01T00:00:00Z", "--jitter", "30s",
            "--rrule", "DTSTART:20260105T090000 RRULE:FREQ=DAILY", "--spec", '{"crons":["@hourly"]}',
        ],
    )  # fmt: skip
    assert json.loads(result.stdout) == [
        "x",
        {
            "crons": ["@hourly", "@daily"],
            "rrules": ["DTSTART:20260105T090000 RRULE:FREQ=DAILY"],
            "except": [{"dates": ["2027-01-01"]}],
            "time_zone": "Europe/Berlin",
            "start": "2026-07-01T07:00:00Z",
            "end": "2026-08-01T00:00:00Z",
            "jitter": "30s",
        },
    ]
