"""`evertick dev` with crons, and its simulated clock: real processes, real files."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.programs import Program, Start, evertick
from tests.cli.test_dev import QUIET

pytestmark = pytest.mark.processes

READY = r"  try  "
SIMULATED = "sqlite:///.evertick/shop.simulated.db"

SHOP = """
import asyncio

from evertick import App, cron, every

app = App("shop")


@app.mutation
def clear(ctx) -> None:
    ctx.log.info("it is %s", ctx.now.isoformat())


@app.action
async def slow(ctx) -> None:
    await asyncio.sleep(3600)


app.crons.add("clear", every(seconds=1), clear)
app.crons.add("report", cron("0 9 1 1 *", tz="Europe/Berlin"), clear)
"""

NIGHT = """
from evertick import App, cron

app = App("shop")


@app.mutation
def clear(ctx) -> None:
    ctx.log.info("it is %s", ctx.now.isoformat())


app.crons.add("nightly", cron("30 2 * * *", tz="Europe/Berlin"), clear)
app.crons.add("hourly", cron("0 * * * *", tz="Europe/Berlin"), clear)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(SHOP)
    return tmp_path


def stop(program: Program) -> None:
    """End it and see that it went well."""
    program.send(signal.SIGTERM)
    assert program.end() == 0, program.text


def test_it_lists_the_crons_and_shows_their_runs(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    dev.wait_for(r"▶ clear +\d\d:\d\d:\d\d started")
    dev.wait_for(r"✓ app\.clear")

    assert re.search(r"^  crons +clear +every second, counted from .* +next 20\S+Z \((in \S+ s|now)\)$", dev.text, re.M)
    assert re.search(r"^ +report +at 09:00 on 1 January every year, Berlin time +next \S+-01-01T09:00:00\+01:00 \(in ",
                     dev.text, re.M)  # fmt: skip


def test_what_a_command_beside_it_makes_runs_and_what_is_in_the_way_is_named(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    made = evertick(folder, "schedule", "create", "-s", "tick", "--interval", "1s", "--type", "app.slow")

    dev.wait_for(r"▶ tick +\d\d:\d\d:\d\d started")
    dev.wait_for(r"↷ tick +\d\d:\d\d:\d\d skipped: .*tick-20")
    assert made.code == 0
    listed = evertick(folder, "schedule", "occurrences", "tick", "--oldest-first", "--fields", "fate,reason")
    assert listed.out.splitlines()[:2] == ["started\ton_time", "skipped\toverlap"]
    assert evertick(folder, "schedule", "pause", "tick", "--reason", "enough").code == 0
    evertick(folder, "job", "cancel-all", "--yes")
    dev.send(signal.SIGKILL)


def test_a_trigger_waits_for_the_end_of_its_run(folder: Path, start: Start) -> None:
    start("dev", "app.py", QUIET).wait_for(READY)

    done = evertick(folder, "cron", "trigger", "report", "--wait", "--fields", "outcome")

    assert (done.code, done.out) == (0, "outcome\tsuccess\n")


def test_a_backfill_shows_its_progress_to_the_end(folder: Path, start: Start) -> None:
    start("dev", "app.py", QUIET).wait_for(READY)

    done = evertick(
        folder, "schedule", "backfill", "report", "--start-time", "2000-01-01", "--end-time", "2025-12-31",
        "--overlap-policy", "BufferAll", "--wait", "--fields", "times,started,ended,done",
    )  # fmt: skip

    assert done.code == 0
    assert done.out.splitlines() == ["times\t26", "started\t26", "ended\t26", "done\ttrue"]
    assert "26 of 26 started, 26 ended" in done.err

    many = evertick(
        folder, "schedule", "backfill", "--query", "id:report",
        "--start-time", "2000-01-01", "--end-time", "2025-12-31",
        "--overlap-policy", "Skip", "--include-done", "--yes", "--wait",
    )  # fmt: skip

    assert many.code == 6
    assert many.err.splitlines()[-1] == "report: 25 of its times were skipped or missed"


@pytest.mark.long
def test_ctrl_c_leaves_a_backfill_to_itself_and_says_how_to_look_again(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    stop(dev)
    waiting = start(
        "schedule", "backfill", "report", "--start-time", "2000-01-01", "--end-time", "2003-12-31",
        "--overlap-policy", "BufferAll", "--wait",
    )  # fmt: skip
    waiting.wait_for("no worker runs on this database; the backfill goes on when one is started")

    waiting.send(signal.SIGINT)

    assert waiting.end() == 130
    hint = waiting.wait_for("see it with: evertick backfill watch report backfill_")
    start("dev", "app.py", QUIET).wait_for(READY)
    watched = evertick(folder, *hint.partition("evertick ")[2].split(), "--fields", "started,ended,done")
    assert watched.out.splitlines() == ["started\t4", "ended\t4", "done\ttrue"]


@pytest.mark.long
def test_a_reload_tells_which_crons_changed(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    (folder / "app.py").write_text(SHOP + '\napp.crons.add("weekly", cron("0 0 * * 0"), clear)\n')

    dev.wait_for(r"cron added: weekly: at 00:00 on Sundays")


def test_a_cron_that_cannot_work_ends_the_start_with_its_name(folder: Path) -> None:
    (folder / "app.py").write_text(SHOP + '\napp.crons.add("never", cron("0 0 30 2 *"), clear)\n')

    done = evertick(folder, "dev", "app.py")

    assert done.code in (1, 2)
    assert "never" in done.err


# -- the simulated clock


@pytest.mark.long
def test_a_night_without_half_past_two_on_a_simulated_clock(folder: Path, start: Start) -> None:
    """In Berlin clocks went from 02:00 to 03:00 on 29 March 2026, which is 01:00 UTC."""
    (folder / "app.py").write_text(NIGHT)
    dev = start("dev", "app.py", QUIET, "--at", "2026-03-29T00:30Z", "--speed", "600", TZ="UTC")
    dev.wait_for(READY)

    dev.wait_for(r"^  2026-03-29 01:0\d:\d\d ▶ nightly +01:00:00 started")
    dev.wait_for(r"app\.clear: it is 2026-03-29T01:0")
    dev.wait_for(r"▶ hourly +02:00:00 started")
    stop(dev)

    assert re.search(
        r"nightly +at 02:30 every day, Berlin time +next 2026-03-29T03:00:00\+02:00 \(in \d+ min\)", dev.text
    )
    rows = evertick(folder, "schedule", "occurrences", "--oldest-first", "-o", "json").out
    due = [(row["schedule"], row["nominal"]) for row in json.loads(rows)][:3]
    assert due == [
        ("hourly", "2026-03-29T01:00:00Z"),
        ("nightly", "2026-03-29T01:00:00Z"),
        ("hourly", "2026-03-29T02:00:00Z"),
    ]
    told = evertick(folder, "schedule", "explain", "nightly", "--at", "2026-03-29T02:30")
    assert "moved from 02:30: clocks went forward from 02:00 to 03:00" in told.out
    assert "→ started" in told.out


def test_commands_on_a_simulation_follow_its_clock(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET, "--at", "2031-07-01T00:00Z", "--speed", "2")
    dev.wait_for(READY)

    made = evertick(folder, "schedule", "create", "-s", "s", "--cron", "0 12 * * *", "--type", "app.clear")
    scheduled = evertick(folder, "run", "app.clear", "--after", "1h", "-o", "json", "--db", SIMULATED)
    worker = evertick(folder, "worker", "app.py", "--db", SIMULATED)

    assert made.out.startswith("2031-07-01T12:00:00Z\n")
    assert '"due_at": "2031-07-01T01:' in scheduled.out
    assert worker.code == 2
    assert "is a simulation with a clock of its own" in worker.err


@pytest.mark.long
def test_a_simulation_stops_with_dev_and_goes_on_where_it_stopped(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET, "--at", "2031-07-01T00:00Z")
    dev.wait_for(r"✓ app\.clear")
    stop(dev)
    stopped = json.loads((folder / ".evertick/shop.simulated.db.clock").read_text())["stopped"]

    again = start("dev", "app.py", QUIET, "--db", SIMULATED)
    again.wait_for(READY)
    mark = again.mark
    again.wait_for(r"▶ clear", after=mark)
    stop(again)

    shown = re.search(r"clock +simulated: (\S+), at the pace of the real one", again.text)
    assert shown is not None
    assert shown[1].startswith("2031-07-01T00:0")
    later = json.loads((folder / ".evertick/shop.simulated.db.clock").read_text())["stopped"]
    assert later > stopped


@pytest.mark.long
def test_a_simulation_never_touches_a_real_database(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    stop(dev)
    real = (folder / ".evertick/shop.db").read_bytes()

    refused = evertick(folder, "dev", "app.py", "--at", "2031-07-01T00:00Z", "--db", "sqlite:///.evertick/shop.db")
    server = evertick(folder, "dev", "app.py", "--speed", "2", "--db", "postgresql://localhost/shop")
    simulated = start("dev", "app.py", QUIET, "--at", "2031-07-01T00:00Z")
    simulated.wait_for(r"✓ app\.clear")
    stop(simulated)

    assert (refused.code, server.code) == (2, 2)
    assert "exists already: it is real" in refused.err
    assert "needs a database of its own" in server.err
    assert (folder / ".evertick/shop.db").read_bytes() == real


@pytest.mark.long
def test_each_simulation_begins_anew(folder: Path, start: Start) -> None:
    first = start("dev", "app.py", QUIET, "--at", "2031-07-01T00:00Z")
    first.wait_for(r"✓ app\.clear")
    stop(first)

    second = start("dev", "app.py", QUIET, "--at", "2030-01-01T00:00Z")
    second.wait_for(r"✓ app\.clear")

    assert "shop.simulated.db (new)" in second.text
    newest = evertick(folder, "schedule", "occurrences", "--limit", "1", "--fields", "nominal").out
    assert newest.startswith("2030-01-01T00:0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at", "2026-03-29T00:55"], "needs a zone"),
        (["--at", "someday"], "is not a date or time"),
        (["--speed", "0"], "is not in the range"),
        (["--speed", "nan"], "is not a number"),
        (["--drain", "inf"], "is not a number"),
        (["--speed", "100000"], "is not in the range"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(folder: Path, words: list[str], message: str) -> None:
    done = evertick(folder, "dev", "app.py", *words)

    assert done.code == 2
    assert message in done.err
