"""`evertick doctor`: a deploy that removes, renames and changes functions is told before it happens."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import copy_database
from tests.cli.programs import DEADLINE_S, evertick, run_python

pytestmark = pytest.mark.processes

BEFORE = """
from evertick import App, every

app = App("shop")

@app.mutation
def bill(ctx, order: int) -> None: ...

@app.action
def remind(ctx, order: int) -> None: ...

@app.mutation
def report(ctx) -> None: ...

@app.mutation
def told(ctx, job_id, context, result) -> None: ...

@app.mutation
def price(ctx, order: int, cents: int) -> None: ...

@app.mutation
def order(ctx) -> None:
    ctx.scheduler.using(on_complete=told).run_after(600, report)
    for number in range(12):
        ctx.scheduler.run_after(600, bill, number)
    ctx.scheduler.run_after(600, remind, 1)
    ctx.scheduler.run_after(600, price, 1, 250)

app.crons.add("report", every(hours=1), report)
"""
AFTER = """
from evertick import App, every

app = App("shop")

@app.mutation
def bill(ctx, order_id: int) -> None: ...

@app.mutation
def price(ctx, amount: float) -> None: ...

@app.query
def report(ctx) -> int:
    return 1

@app.mutation
def send_reminder(ctx, order: int) -> None: ...

app.crons.add("bill", every(hours=1), bill)
"""
CURED = """
from evertick import App

app = App("shop")

@app.mutation
def bill(ctx, order: int = 0, order_id: int = 0) -> None: ...

@app.mutation
def price(ctx, order: int = 0, cents: int = 0, amount: float = 0) -> None: ...

@app.mutation(aliases=["app.told"])
def was_told(ctx, job_id, context, result) -> None: ...

@app.mutation(aliases=["app.remind"])
def send_reminder(ctx, order: int) -> None: ...

@app.mutation
def report(ctx) -> None: ...
"""


@pytest.fixture
def shop(tmp_path: Path, migrated_by_an_app: Path) -> Path:
    """A folder with a database in which the first release has scheduled all sorts of things."""
    (tmp_path / "app.py").write_text(BEFORE)
    copy_database(migrated_by_an_app, tmp_path, "shop")
    assert evertick(tmp_path, "run", "app.order").code == 0
    made = evertick(
        tmp_path,
        "schedule",
        "create",
        "nightly",
        "--cron",
        "0 3 * * *",
        "--function",
        "app.remind",
        "-i",
        '{"order": 1}',
    )
    assert made.code == 0
    return tmp_path


def test_code_that_fits_is_told_so(shop: Path) -> None:
    done = evertick(shop, "doctor", "--app", "app.py")
    data = json.loads(evertick(shop, "doctor", "-o", "json").out)

    assert (done.code, done.out) == (0, "")
    assert done.err == "15 pending jobs, 1 schedule and 0 crons fit the code of shop\n"
    assert (data["fits"], data["findings"], data["jobs"], data["complete"]) == (True, [], 15, True)


def test_what_does_not_fit_is_listed_with_its_cure(shop: Path) -> None:
    (shop / "app.py").write_text(AFTER)

    done = evertick(shop, "doctor", "app.py")
    data = evertick(shop, "doctor", "-o", "json")

    assert done.code == data.code == 8
    assert done.err.startswith("7 problems among 15 pending jobs, 1 schedule and 0 crons\n")
    report = json.loads(data.out)
    assert report["fits"] is False
    found = {(each["what"], each["function"]): each for each in report["findings"]}
    problems = {key: (each["problem"], each["count"]) for key, each in found.items()}
    assert problems == {
        ("job", "app.bill"): ("arguments", 12),
        ("job", "app.price"): ("arguments", 1),
        ("job", "app.remind"): ("removed", 1),
        ("job", "app.report"): ("not_callable", 1),
        ("job", "app.told"): ("removed", 1),
        ("schedule", "app.remind"): ("removed", 1),
        ("cron", "app.bill"): ("invalid", 1),
    }
    bills = found["job", "app.bill"]
    assert len(bills["ids"]) == 10
    problem = "order_id: field required; order: the function has no such parameter"
    assert bills["detail"] == f"ArgumentValidationError: app.bill(order_id): {problem}"
    assert bills["fix"] == "evertick job retry --function app.bill --state pending --rename order=order_id --app app.py"
    prices = found["job", "app.price"]
    assert prices["fix"].startswith(f"evertick job retry {prices['ids'][0]} --args JSON")
    assert found["job", "app.told"]["detail"].endswith("it is the on_complete of app.report")
    assert "aliases=['app.remind']" in found["job", "app.remind"]["fix"]
    assert found["schedule", "app.remind"]["ids"] == ["nightly"]
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert {(row[0], row[4], row[5]) for row in rows} == {(*key, value[0]) for key, value in problems.items()}


def test_aliases_and_arguments_with_defaults_cure_it(shop: Path) -> None:
    (shop / "app.py").write_text(CURED)

    assert evertick(shop, "doctor").code == 0


TENANTS = """
from evertick import App, every

app = App("shop")

@app.mutation
def bill(ctx, order: int) -> None: ...

@app.mutation
def report(ctx) -> None: ...

for name in ("default", "acme", "big bank"):
    app.tenant(name).scheduler.run_after(600, bill, 1)
app.tenant("acme").schedules.create("daily", when=every(days=1), do=report.with_args())
"""


FLOWS = """
import asyncio

from evertick import ActionCtx, App, Step

app = App("shop")

@app.action(pool="away")
async def slow(ctx: ActionCtx) -> None: ...

@app.workflow
async def fulfil(step: Step, order: int) -> None:
    await asyncio.gather(step.run(slow), step.wait_for("paid"))
"""


@pytest.mark.long
def test_runs_that_have_begun_keep_their_arguments_and_their_steps_are_no_complaint(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FLOWS)
    start = f"""
import time
from app import app, fulfil

app.migrate()
app.pools.pause("away")
with app.running():
    app.workflows.start(fulfil, 7)
    deadline = time.monotonic() + {DEADLINE_S}
    while not app.jobs.list(function="app.slow").jobs and time.monotonic() < deadline:
        time.sleep(0.01)
"""
    subprocess.run([sys.executable, "-c", start], cwd=tmp_path, check=True, timeout=2 * DEADLINE_S)
    fits = evertick(tmp_path, "doctor")
    (tmp_path / "app.py").write_text(FLOWS.replace("order: int", "number: int"))
    changed = evertick(tmp_path, "doctor")

    assert (fits.code, fits.err) == (0, "2 pending jobs, 0 schedules and 0 crons fit the code of shop\n")
    assert changed.code == 8
    assert "these runs have begun: keep the parameters that they have, and give new parameters a default" in changed.out
    assert "job retry" not in changed.out

    (tmp_path / "app.py").write_text(FLOWS.replace("await asyncio", "await step.sleep(1)\n    await asyncio"))
    longer = evertick(tmp_path, "doctor")
    as_json = json.loads(evertick(tmp_path, "doctor", "-o", "json").out)

    assert longer.code == 8
    assert "the journal has step 1 (action 'app.slow'), the code calls step 1 (sleep 'sleep') here" in longer.out
    assert re.search(r"step\.patched\(\.\.\.\), or: evertick workflow restart job_\w+ --step 1", longer.out)
    assert [(each["problem"], each["count"]) for each in as_json["findings"]] == [("journal", 1)]


def test_every_tenant_s_problems_are_found_and_their_cures_name_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TENANTS)
    assert evertick(tmp_path, "doctor").code == 0
    (tmp_path / "app.py").write_text("from evertick import App\napp = App('shop')\n")

    done = evertick(tmp_path, "doctor", "-o", "json")
    of_one = json.loads(evertick(tmp_path, "doctor", "--tenant", "acme", "-o", "json").out)

    report = json.loads(done.out)
    assert done.code == 8
    assert report["tenants"] == ["acme", "big bank", "default"]
    assert of_one["tenants"] == ["acme"]
    assert of_one["findings"] == [each for each in report["findings"] if each["tenant"] == "acme"]
    cures = {(each["tenant"], each["what"]): each["fix"].partition(", or: ")[2] for each in report["findings"]}
    assert cures["default", "job"] == "evertick job cancel-all --function app.bill"
    assert cures["acme", "job"] == "evertick job cancel-all --function app.bill --tenant acme"
    assert cures["big bank", "job"] == "evertick job cancel-all --function app.bill --tenant 'big bank'"
    update = "evertick schedule update --query function:app.report --function NAME --tenant acme"
    assert cures["acme", "schedule"] == f"{update}, or delete it"
    assert "4 problems among 3 pending jobs, 1 schedule and 0 crons of 3 tenants" in evertick(tmp_path, "doctor").err

    for tenant in ("acme", "big bank", "default"):
        words = shlex.split(cures[tenant, "job"])
        assert evertick(tmp_path, *words[1:], "--yes").code == 0
    assert evertick(tmp_path, "schedule", "delete", "daily", "--tenant", "acme", "--yes").code == 0
    assert evertick(tmp_path, "doctor").code == 0


LIMITED = """
import sys
from evertick.app import doctor as limits
from evertick.cli.doctor import doctor
limits.TENANTS_MAX, limits.JOBS_MAX = 1, int(sys.argv[1])
sys.exit(doctor.main([], standalone_mode=False))
"""


def test_all_tenants_are_looked_at_and_what_is_left_out_of_one_shows_in_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TENANTS)
    assert evertick(tmp_path, "doctor").code == 0

    (tmp_path / "app.py").write_text(TENANTS.partition("for name in")[0])
    (tmp_path / "limited.py").write_text(LIMITED)
    whole = run_python(tmp_path, "limited.py", "100")
    cut = run_python(tmp_path, "limited.py", "1")

    looked = "3 pending jobs, 1 schedule and 0 crons of 3 tenants fit the code of shop"
    assert (whole.code, whole.err) == (0, f"{looked}\n")
    assert (cut.code, cut.err) == (6, f"{looked}; there are more pending jobs or runs, which were not checked\n")


NIGHTS = """
from evertick import App, cron
from evertick.testing import World

app = App("shop")

@app.action
def night(ctx, depot: str, staff: int) -> None: ...

app.crons.using(catch_up="all", overlap="buffer_all").add("night", cron("0 3 * * *"), night, "north", 2)
"""
OUTAGE = """
from datetime import UTC, datetime, timedelta

class Past:
    def now(self):
        return int((datetime.now(UTC) - timedelta(days=3)).timestamp() * 1000)

before = App("shop", clock=Past())
before.migrate()
night = before.action(name="app.night")(lambda ctx, depot, staff: None)
before.crons.using(catch_up="all", overlap="buffer_all").add("night", cron("0 3 * * *"), "app.night", "north", 2)
before.sync_crons()
before.schedules.trigger("night")
for number in range(2):
    before.scheduler.run_after(600, "app.night", "north", number)
before.close()
"""


def test_what_a_deploy_does_to_crons_and_their_runs_is_found_before_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NIGHTS)
    (tmp_path / "outage.py").write_text(NIGHTS.partition("app =")[0] + OUTAGE)
    assert run_python(tmp_path, "outage.py").code == 0
    fits = evertick(tmp_path, "doctor")
    assert fits.code == 0, "late times start with the code that is there then"

    (tmp_path / "app.py").write_text(NIGHTS.replace("depot: str, staff", "site: str, people"))
    renamed = {each["count"]: each for each in json.loads(evertick(tmp_path, "doctor", "-o", "json").out)["findings"]}
    cure = (
        "evertick job retry --function app.night --state pending --rename depot=site --rename staff=people --app app.py"
    )
    assert renamed[2]["fix"] == cure
    assert "it is a run of 'night', whose schedule has passed later times" in renamed[1]["detail"]
    first = (
        "evertick job cancel-all --schedule night, and after the deploy evertick schedule backfill night --start-time"
    )
    assert renamed[1]["fix"].startswith(first)
    assert evertick(tmp_path, *shlex.split(cure)[1:], "--yes").code == 0
    assert evertick(tmp_path, "job", "cancel-all", "--schedule", "night", "--yes").code == 0
    assert evertick(tmp_path, "doctor").code == 0

    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text().replace('"night", cron', '"the night", cron'))
    moved = evertick(tmp_path, "doctor", "-o", "json")
    [lost] = json.loads(moved.out)["findings"]
    assert (moved.code, lost["what"], lost["ids"]) == (8, "cron", ["night"])
    assert re.search("a worker deletes it, and [23] of its times that have not started will not run", lost["detail"])
    assert "run them then: evertick schedule backfill NAME --start-time" in lost["fix"]
    assert "note: a worker adds the crons the night, and deletes night; a renamed one starts again" in moved.err


RENTS = """
from evertick import App, every

app = App("shop")

@app.mutation
def bill(ctx, customer: str) -> None: ...
"""
CLIENTS = RENTS.replace("def bill(ctx, customer", "def charge(ctx, client")


def test_schedules_with_one_problem_are_one_line_and_its_cure_cures_all(tmp_path: Path) -> None:
    makes = (
        "\nfor n in range(12):\n    app.schedules.create(f'rent-{n}', when=every(days=1), do=bill.with_args(f'c{n}'))\n"
    )
    (tmp_path / "app.py").write_text(RENTS + makes)
    assert evertick(tmp_path, "doctor").code == 0
    (tmp_path / "app.py").write_text(CLIENTS.replace("@app.mutation", "@app.mutation(aliases=['app.bill'])"))

    done = json.loads(evertick(tmp_path, "doctor", "-o", "json").out)
    [found] = done["findings"]
    update = "evertick schedule update --query function:app.bill"
    assert (found["what"], found["problem"], found["count"], len(found["ids"])) == ("schedule", "arguments", 12, 10)
    assert found["fix"] == f"{update} --rename customer=client --function app.charge"

    cure = shlex.split(found["fix"])[1:]
    assert evertick(tmp_path, *cure, "--app", "app.py").code == 2, "nobody has confirmed it"
    cured = evertick(tmp_path, *cure, "--app", "app.py", "--yes")
    assert (cured.code, cured.err) == (0, "changed 12 schedules\n")
    assert cured.out.splitlines()[0] == "rent-0\tfunction\tapp.bill -> app.charge"
    assert evertick(tmp_path, "doctor").code == 0
    (tmp_path / "app.py").write_text(CLIENTS)
    assert evertick(tmp_path, "doctor").code == 0, "the alias can go"


def test_wrong_input_is_one_line_and_an_exit_code(shop: Path) -> None:
    for words, code, message in (
        (["nowhere.py"], 2, "there is no file nowhere.py"),
        (["--db", "sqlite:///nope.db"], 7, "there is no database at nope.db"),
        (["-o", "yaml"], 2, "'yaml' is not one of"),
    ):
        done = evertick(shop, "doctor", *words)
        assert (done.code, done.out) == (code, "")
        assert message in done.err.splitlines()[-1]
    (shop / "app.py").write_text("1 / 0\n")
    broken = evertick(shop, "doctor")
    assert (broken.code, "ZeroDivisionError" in broken.err) == (1, True)


def test_a_variable_that_is_not_read_is_noted(folder: Path) -> None:
    done = evertick(folder, "doctor", EVERTICK_DATABSE_URL="sqlite:///other.db", evertick_token="x")

    assert "variable EVERTICK_DATABSE_URL is not read; did you mean EVERTICK_DATABASE_URL?" in done.err
    assert "variable evertick_token is not read" in done.err
    assert done.code == 0
