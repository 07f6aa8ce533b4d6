"""What a program loads before it runs anything: every start, command and reload waits for it."""

import subprocess
import sys

HEAVY = {
    "asyncio",
    "ctypes",
    "email",
    "logging",
    "psycopg",
    "pydantic",
    "pydantic_core",
    "sqlalchemy",
    "sqlite3",
    "zoneinfo",
    "evertick.app.crons",
    "evertick.app.execution",
    "evertick.app.schedules",
    "evertick.engine.evaluator",
    "evertick.engine.worker",
    "evertick.rules.recurrence",
    "evertick.store.postgres",
    "evertick.store.sqlite",
}


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_app_is_imported_without_what_only_running_needs() -> None:
    assert not HEAVY & loaded_after("from evertick import App")


def test_functions_are_registered_without_pydantic_or_a_database() -> None:
    code = (
        "from evertick import ActionCtx, App, JobResult, MutationCtx, QueryCtx, Retry\n"
        "app = App('small')\n"
        "app.table('messages', indexes={'by_author': ['author']})\n"
        "@app.mutation\n"
        "def send(ctx: MutationCtx, body: str) -> str: return body\n"
        "@app.action(timeout=5)\n"
        "async def notify(ctx: ActionCtx) -> None: ...\n"
    )
    assert not HEAVY & loaded_after(code)


def test_the_list_of_heavy_modules_names_modules_that_exist() -> None:
    code = (
        "import evertick.app.codec, evertick.app.crons, evertick.app.execution, evertick.engine.worker\n"
        "import evertick.store.open, pydantic\n"
    )
    optional = {"email", "psycopg", "sqlalchemy", "zoneinfo", "evertick.store.postgres"}

    assert loaded_after(code) >= HEAVY - optional
