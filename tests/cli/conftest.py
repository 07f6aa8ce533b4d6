"""Fixtures of the command line's tests: a folder with an app in it, and programs that are ended afterwards."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick import App
from tests.cli.desk import Command, commands
from tests.cli.programs import Start, programs_in

APP = """
import asyncio

from evertick import App

app = App("chat")


@app.mutation
def send(ctx, body: str, author: str = "ada", delay: float = 0.05) -> str:
    message_id = ctx.db.insert("messages", {"body": body, "author": author})
    ctx.scheduler.run_after(delay, destruct, message_id)
    return message_id


@app.mutation(internal=True)
def destruct(ctx, message_id: str) -> None:
    ctx.log.info("deleting %s", message_id)
    ctx.db.delete(message_id)


@app.query
def messages(ctx) -> list[dict]:
    return ctx.db.query("messages").collect()


@app.action
async def wait(ctx, seconds: float) -> str:
    ctx.log.info("waiting")
    await asyncio.sleep(seconds)
    return "waited"


@app.mutation
def fail(ctx, text: str = "no luck") -> None:
    raise ValueError(text)
"""


@pytest.fixture
def folder(tmp_path: Path, migrated_by_an_app: Path) -> Path:
    """A folder with an `app.py` and its database."""
    (tmp_path / "app.py").write_text(APP)
    copy_database(migrated_by_an_app, tmp_path, "chat")
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts programs in the folder; whatever still runs after the test is killed."""
    with programs_in(folder) as begin:
        yield begin


@pytest.fixture(autouse=True)
def app_of_its_own() -> Iterator[None]:
    """A command that imports `app.py` in this process finds this test's file, and leaves nothing to the next one."""
    before = sys.modules.pop("app", None)
    yield
    sys.modules.pop("app", None)
    if before is not None:
        sys.modules["app"] = before


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs commands in this process, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVERTICK_DATABASE_URL", raising=False)
    return commands(capsys)


@pytest.fixture(scope="session")
def migrated_by_an_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and no rows, with the tables where an app puts them."""
    path = tmp_path_factory.mktemp("migrated") / "app.db"
    app = App("shop", database_url=f"sqlite:///{path}")
    app.migrate()
    app.close()
    return path


@pytest.fixture
def migrated_shop(command: Command, tmp_path: Path, migrated_by_an_app: Path) -> None:
    """The database of an app `shop` in the folder of the commands."""
    copy_database(migrated_by_an_app, tmp_path, "shop")


def copy_database(migrated: Path, folder: Path, app: str) -> None:
    """Let an app have the migrated database: to copy one is faster than to migrate it."""
    (folder / ".evertick").mkdir(exist_ok=True)
    shutil.copy(migrated, folder / ".evertick" / f"{app}.db")
