"""Django: its settings, its commands and its transactions, in the example's project on both databases."""

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from evertick import App
from evertick.integrations.django.configuration import _postgres_url
from tests.cli.programs import DJANGO, Done, Start, evertick, programs_in, run_python

EXAMPLE = Path(__file__).parents[2] / "examples" / "with-django"

NESTED = """
import django
django.setup()
from django.db import connection, connections, transaction
from evertick.errors import EvertickError, Misuse
from shop.jobs import app, ship

bound = app.bind(connection)
def jobs(): return len(bound.jobs.list().jobs)

bound.run_after(60, ship, 1)                     # outside of atomic: committed at once
assert not connection.in_atomic_block
assert len(app.jobs.list().jobs) == 1

with transaction.atomic():
    bound.run_after(60, ship, 2)
    try:
        with transaction.atomic():               # a savepoint
            bound.run_after(60, ship, 3)
            with transaction.atomic():
                bound.run_after(60, ship, 4)
            assert jobs() == 4
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert jobs() == 2
    assert len(app.jobs.list().jobs) == 1        # others do not see it yet
    with transaction.atomic():
        bound.run_after(60, ship, 5)
assert sorted(job.args["order_id"] for job in app.jobs.list().jobs) == [1, 2, 5]

with transaction.atomic():                       # an error of Evertick's leaves the block usable
    bound.using(key="once").run_after(60, ship, 6)
    try:
        bound.using(key="once").run_after(60, ship, 7)
    except EvertickError:
        pass
    bound.run_after(60, ship, 8)
assert sorted(job.args["order_id"] for job in app.jobs.list().jobs) == [1, 2, 5, 6, 8]

try:
    with transaction.atomic():
        app.tenant("acme").bind(connections["default"]).run_after(60, ship, 9)
        transaction.set_rollback(True)
finally:
    assert app.tenant("acme").jobs.list().jobs == ()
app.close()
print("all of it")
"""

IN_A_WORLD = """
from django.test import TransactionTestCase
from evertick import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx
from evertick.testing import World
from shop.jobs import app
from shop.models import Order

@app.mutation
def begin(ctx: MutationCtx, order_id: int) -> None:
    item = Order.objects.get(pk=order_id).item
    ctx.db.insert("begun", {"item": item})
    ctx.scheduler.run_after(1800, pack, order_id)

@app.query
def state(ctx: QueryCtx, order_id: int) -> str:
    return Order.objects.get(pk=order_id).state

@app.action
def pack(ctx: SyncActionCtx, order_id: int) -> str:
    Order.objects.filter(pk=order_id).update(state="packed")
    ctx.scheduler.run_after(1800, send, order_id)
    return ctx.run_query(state, order_id)

@app.action
async def send(ctx: ActionCtx, order_id: int) -> str:
    await Order.objects.filter(pk=order_id).aupdate(state="sent")
    return await ctx.run_query(state, order_id)

class Worlds(TransactionTestCase):
    def test_every_kind_of_function_uses_the_orm(self) -> None:
        with World(app) as world:
            order = Order.objects.create(item="tea")
            app.scheduler.run_after(0, begin, order.pk)
            world.advance(3600)
            self.assertEqual([each.state for each in world.jobs()], ["success"] * 3, world.jobs())
            self.assertEqual(world.jobs(pack)[0].result, "packed")
            self.assertEqual(world.jobs(send)[0].result, "sent")
            order.refresh_from_db()
            self.assertEqual(order.state, "sent")
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, on a database without any tables."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    monkeypatch.delenv("SHOP_DATABASE_URL", raising=False)
    if request.param == "postgres":
        monkeypatch.setenv("SHOP_DATABASE_URL", request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
    return folder


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    with programs_in(project) as begin:
        yield begin


def python(folder: Path, *words: str, code: int = 0, **changes: str) -> str:
    done = run_python(folder, *words, modules=DJANGO, **changes)
    assert done.code == code, done.out + done.err
    return done.out + done.err


@pytest.mark.processes
def test_djangos_test_runner(project: Path) -> None:
    written = python(project, "manage.py", "test", "--no-input")

    assert "Ran 6 tests" in written
    assert "OK" in written


@pytest.mark.processes
def test_djangos_orm_works_in_a_world(project: Path) -> None:
    (project / "shop" / "test_worlds.py").write_text(IN_A_WORLD)

    written = python(project, "manage.py", "test", "--no-input", "shop.test_worlds")

    assert "Ran 1 test" in written
    assert "OK" in written


@pytest.mark.processes
def test_a_test_database_with_a_name_of_its_own(project: Path) -> None:
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write('\nDATABASES["default"]["TEST"] = {"NAME": "test_shop_of_its_own"}\n')
    if "SHOP_DATABASE_URL" in os.environ:
        name = f"test_{os.environ['SHOP_DATABASE_URL'].rpartition('/')[2].partition('?')[0]}_again"
        text = (project / "shop" / "settings.py").read_text()
        (project / "shop" / "settings.py").write_text(text.replace("test_shop_of_its_own", name))

    assert "OK" in python(project, "manage.py", "test", "--no-input")


@pytest.mark.processes
def test_nested_blocks_and_savepoints(project: Path) -> None:
    python(project, "manage.py", "migrate")
    (project / "nested.py").write_text(NESTED)

    assert "all of it" in python(project, "nested.py")


@pytest.mark.processes
def test_migrate_brings_the_tables_and_says_so(project: Path) -> None:
    assert "No changes detected" in python(project, "manage.py", "makemigrations", "--check", "--dry-run")
    assert re.search(r"Evertick's tables: \d+ steps? taken", python(project, "manage.py", "migrate"))
    assert "Evertick's" not in python(project, "manage.py", "migrate")
    assert "nothing to do" in python(project, "manage.py", "evertick_migrate")


@pytest.mark.processes
def test_migrate_leaves_the_tables_alone_if_told_to(project: Path) -> None:
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write('\nEVERTICK["MIGRATE"] = False\n')

    assert "Evertick's" not in python(project, "manage.py", "migrate")
    assert re.search(r"\d+ steps? taken", python(project, "manage.py", "evertick_migrate"))


@pytest.mark.long
@pytest.mark.processes
def test_a_worker_runs_what_was_committed_and_drains(project: Path, start: Start) -> None:
    python(project, "manage.py", "migrate")
    (project / "order.py").write_text(
        "import django\ndjango.setup()\n"
        "from django.db import connection, transaction\nfrom shop.jobs import app, ship\n"
        "from shop.models import Order\n"
        "with transaction.atomic():\n"
        "    app.bind(connection).run_after(0, ship, Order.objects.create(item='tea').pk)\n"
    )
    python(project, "order.py")
    worker = start("manage.py", "evertick_worker", "--drain", "5", command=(sys.executable,), PYTHONUNBUFFERED="1")

    line = worker.wait_for("order 1 is shipped")
    assert '"job_id": "job_' in line
    assert '"function": "shop.jobs.ship"' in line
    worker.process.terminate()
    assert worker.end() == 0
    assert re.search(r"runs the jobs of shop on (sqlite|postgresql)://.*; Ctrl-C drains and stops", worker.text)
    assert "stopped" in worker.text.splitlines()
    assert state_of_orders(project) == ["shipped"]


def state_of_orders(project: Path) -> list[str]:
    if "SHOP_DATABASE_URL" in os.environ:
        with psycopg.connect(os.environ["SHOP_DATABASE_URL"]) as connection:
            return [state for (state,) in connection.execute("select state from shop_order").fetchall()]
    with closing(sqlite3.connect(project / "shop.db")) as file:
        return [state for (state,) in file.execute("select state from shop_order").fetchall()]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("EVERTICK = {}", "has no app"),
        ('EVERTICK = {"APP": "shop.jobs.other"}', "cannot be imported"),
        ('EVERTICK = {"APP": "shop.jobs.ship"}', "is not an App, but <action shop.jobs.ship>"),
        ('EVERTICK = {"AP": "shop.jobs.app"}', "takes APP, DATABASE, MIGRATE"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    monkeypatch.delenv("SHOP_DATABASE_URL", raising=False)
    with (folder / "shop" / "settings.py").open("a") as settings:
        settings.write(f"\n{line}\n")

    assert said in python(folder, "manage.py", "evertick_worker", code=1)


COMMANDS = [
    ["doctor", "shop.jobs"], ["serve", "shop.jobs", "--port", "0"], ["worker", "shop.jobs"], ["dev", "shop.jobs"],
    ["run", "shop.jobs.ship", "order_id=1"],
]  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_without_djangos_settings_says_what_to_set(tmp_path: Path, words: list[str]) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", "*.db*"))

    done = command(tmp_path / "project", *words, DJANGO_SETTINGS_MODULE=None)

    assert done.code == 2
    [line] = [each for each in done.err.splitlines() if "error" in each]
    assert "Django has no settings: set DJANGO_SETTINGS_MODULE, for example" in line
    assert "Traceback" not in done.err


@pytest.mark.processes
def test_an_app_that_imports_models_says_so_too(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    jobs = tmp_path / "project" / "shop" / "jobs.py"
    jobs.write_text(jobs.read_text().replace("app =", "from shop.models import Order\n\napp =", 1))

    done = command(tmp_path / "project", "doctor", "shop.jobs", DJANGO_SETTINGS_MODULE=None)
    assert re.fullmatch(
        r"error: shop/models.py:\d+: ImproperlyConfigured: Django has no settings; set DJANGO_SETTINGS_MODULE, for "
        r"example DJANGO_SETTINGS_MODULE=shop.settings evertick ...\n",
        done.err,
    )

    done = command(tmp_path / "project", "doctor", "shop.jobs", DJANGO_SETTINGS_MODULE="shop.nowhere")
    assert "Django cannot be set up with DJANGO_SETTINGS_MODULE=shop.nowhere: ModuleNotFoundError" in done.err
    assert "Traceback" not in done.err


@pytest.mark.processes
def test_with_djangos_settings_in_the_environment_commands_work(project: Path) -> None:
    jobs = project / "shop" / "jobs.py"
    jobs.write_text(jobs.read_text().replace("app =", "from shop.models import Order\n\napp =", 1))
    python(project, "manage.py", "migrate")
    (project / "order.py").write_text(
        "import django\ndjango.setup()\nfrom shop.models import Order\nOrder.objects.create(item='tea')\n"
    )
    python(project, "order.py")

    done = command(project, "run", "shop.jobs.ship", "order_id=1")

    assert done.code == 0, done.err
    assert state_of_orders(project) == ["shipped"]
    assert "fit the code of shop" in command(project, "doctor", "shop.jobs").err


def command(folder: Path, *words: str, **changes: str | None) -> Done:
    """Runs `evertick`, with the changes to the environment; None removes a variable."""
    return evertick(folder, *words, modules=DJANGO, **changes)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"NAME": "shop", "USER": "ada", "PASSWORD": "p@ss/1", "HOST": "db", "PORT": 5432},
         "postgresql://ada:p%40ss%2F1@db:5432/shop"),
        ({"NAME": "shop", "HOST": "/run/postgresql", "PORT": "5433"},
         "postgresql:///shop?host=%2Frun%2Fpostgresql&port=5433"),
        ({"NAME": "shop", "OPTIONS": {"sslmode": "require", "pool": True, "cursor_factory": object}},
         "postgresql:///shop?sslmode=require"),
        ({"NAME": None, "OPTIONS": {"service": "shop"}}, "postgresql:///?service=shop"),
    ],
)  # fmt: skip
def test_the_address_of_a_postgresql_database(given: dict[str, object], url: str) -> None:
    assert _postgres_url(given).replace("host=/run", "host=%2Frun").replace("/postgresql&", "%2Fpostgresql&") == url


def test_an_address_is_asked_for_when_it_is_needed(tmp_path: Path) -> None:
    folder = [tmp_path / "first"]
    app = App("lazy", database_url=lambda: f"sqlite:///{folder[0]}/lazy.db")
    folder[0] = tmp_path / "second"

    app.migrate()
    app.close()

    assert (tmp_path / "second" / "lazy.db").exists()
    assert not (tmp_path / "first").exists()
