"""Alembic and Django leave Evertick's tables alone: their own commands, in a project of a user's, on both databases."""

import json
from pathlib import Path
from typing import Any

import pytest

from evertick import App, MutationCtx
from evertick.base.records.jobs import JobFilter
from evertick.store.sqlite.address import path_of
from tests.cli.programs import ALEMBIC, DJANGO, run_python
from tests.places import postgres_beside, sqlite_beside

pytestmark = pytest.mark.sql

MODELS = """
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

class Base(DeclarativeBase):
    pass

class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
"""

ENV = """
from alembic import context
from sqlalchemy import create_engine
from models import Base

{filter}
engine = create_engine({url!r})
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, {options})
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""

BY_PREFIX = """
def include_name(name, type_, parent_names):
    return type_ != "table" or not name.startswith("evertick_")
"""

BY_SCHEMA = """
def include_name(name, type_, parent_names):
    return type_ != "schema" or name != "evertick"
"""

SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "shop"]
DATABASES = {{"default": {database}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
"""

DJANGO_MODELS = """
from django.db import models

class Order(models.Model):
    item = models.CharField(max_length=20)
"""

PLACE_ORDERS = """
import django
django.setup()
from django.db import connection, transaction
from shop.models import Order
from program import app, ship

app.open()
with transaction.atomic():
    order = Order.objects.create(item="tea")
    connection.ensure_connection()
    app.bind(connection.connection).run_after(60, ship, order.pk)
try:
    with transaction.atomic():
        order = Order.objects.create(item="never")
        app.bind(connection.connection).run_after(60, ship, order.pk)
        raise ValueError
except ValueError:
    pass
app.close()
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address with a place, in a database that has nothing else."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db?prefix=evertick_"
    return f"{request.getfixturevalue('postgres_url')}?schema=evertick"


@pytest.fixture
def app(url: str) -> Any:
    app = App("shop", database_url=url)

    @app.mutation(name="ship")
    def ship(ctx: MutationCtx, order_id: int) -> None: ...

    app.migrate()
    app.scheduler.run_after(60, ship, 1)
    yield app
    app.close()


def jobs_in(app: App) -> int:
    return len(app.environment.store.read(lambda transaction: transaction.list_jobs(JobFilter(), limit=9)))


def run(folder: Path, *words: str, **environment: str) -> str:
    modules = DJANGO if "DJANGO_SETTINGS_MODULE" in environment else ALEMBIC
    done = run_python(folder, *words, modules=modules, **environment)
    assert done.code == 0, done.out + done.err
    return done.out + done.err


# -- Alembic


def alembic_project(folder: Path, url: str, *, all_schemas: bool = False) -> None:
    plain = url.partition("?")[0].replace("postgresql:", "postgresql+psycopg:", 1)
    is_sqlite = url.startswith("sqlite")
    filtered = is_sqlite or all_schemas
    options = ("include_name=include_name, " if filtered else "") + ("include_schemas=True" if all_schemas else "")
    (folder / "models.py").write_text(MODELS)
    (folder / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")
    run(folder, "-m", "alembic", "init", "made")
    (folder / "migrations" / "versions").mkdir(parents=True)
    (folder / "made" / "script.py.mako").rename(folder / "migrations" / "script.py.mako")
    names = (BY_PREFIX if is_sqlite else BY_SCHEMA) if filtered else ""
    (folder / "migrations" / "env.py").write_text(ENV.format(filter=names, url=plain, options=options))


@pytest.mark.parametrize("all_schemas", [False, True])
def test_alembics_autogenerate_proposes_nothing_about_evertick(
    app: App, url: str, tmp_path: Path, all_schemas: bool
) -> None:
    if all_schemas and url.startswith("sqlite"):
        return  # it has no schemas
    project = tmp_path / "project"
    project.mkdir()
    alembic_project(project, url, all_schemas=all_schemas)

    run(project, "-m", "alembic", "revision", "--autogenerate", "-m", "orders")
    [made] = (project / "migrations" / "versions").glob("*.py")
    upgrade = made.read_text().partition("def upgrade")[2].partition("def downgrade")[0]
    assert upgrade.count("op.create_table(") == 1
    assert "op.drop" not in upgrade
    assert "evertick" not in upgrade
    run(project, "-m", "alembic", "upgrade", "head")
    assert "No new upgrade operations" in run(project, "-m", "alembic", "check")
    run(project, "-m", "alembic", "downgrade", "base")

    assert jobs_in(app) == 1
    app.environment.store.check_schema()


def test_without_the_filter_alembic_would_drop_tables_with_a_prefix(tmp_path: Path) -> None:
    """What the filter is for; a schema of its own needs none."""
    url = f"sqlite:///{tmp_path}/shop.db?prefix=evertick_"
    App("shop", database_url=url).migrate()
    alembic_project(tmp_path, url)
    env = tmp_path / "migrations" / "env.py"
    env.write_text(env.read_text().replace("include_name=include_name, ", ""))
    run(tmp_path, "-m", "alembic", "revision", "--autogenerate", "-m", "orders")
    [made] = (tmp_path / "migrations" / "versions").glob("*.py")
    assert "op.drop_table('evertick_jobs')" in made.read_text()


# -- Django


def django_project(folder: Path, url: str) -> None:
    if url.startswith("sqlite"):
        database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path_of(url))}
    else:
        _, _, rest = url.partition("://")
        login, _, place = rest.partition("@")
        host, _, name = place.partition("?")[0].partition("/")
        database = {
            "ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": login.partition(":")[0],
            "PASSWORD": login.partition(":")[2], "HOST": host.partition(":")[0], "PORT": host.partition(":")[2],
        }  # fmt: skip
    shop = folder / "shop"
    shop.mkdir(parents=True)
    (shop / "__init__.py").touch()
    (shop / "models.py").write_text(DJANGO_MODELS)
    (folder / "settings.py").write_text(SETTINGS.format(database=json.dumps(database)))
    (folder / "program.py").write_text(
        "from evertick import App, MutationCtx\n"
        f"app = App('shop', database_url={url!r})\n"
        "@app.mutation(name='ship')\n"
        "def ship(ctx: MutationCtx, order_id: int) -> None: ...\n"
    )
    (folder / "orders.py").write_text(PLACE_ORDERS)


@pytest.fixture(params=["alone", "beside"])
def django_url(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> str:
    """Also where tables of the names of Evertick's were there before."""
    if request.param == "alone":
        return url
    if url.startswith("sqlite"):
        return sqlite_beside(tmp_path)
    return postgres_beside(url.partition("?")[0])


def test_djangos_migrations_leave_evertick_alone_and_its_transactions_schedule(
    django_url: str, app: App, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    django_project(project, django_url)
    App("shop", database_url=django_url).migrate()
    settings = {"DJANGO_SETTINGS_MODULE": "settings"}

    made = run(project, "-m", "django", "makemigrations", "shop", **settings)
    assert "Create model Order" in made
    assert "evertick" not in made
    run(project, "-m", "django", "migrate", **settings)
    assert "No changes detected" in run(project, "-m", "django", "makemigrations", "--check", **settings)
    before = jobs_in(app)
    run(project, "orders.py", **settings)
    assert jobs_in(app) == before + 1
    run(project, "-m", "django", "flush", "--no-input", **settings)
    run(project, "-m", "django", "migrate", "shop", "zero", **settings)
    assert jobs_in(app) == before + 1
    app.environment.store.check_schema()
