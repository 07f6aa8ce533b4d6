"""What a program loads before it runs anything: every start, command and reload waits for it."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import evertick
import evertick.errors
from evertick.base import errors as base_errors
from evertick.errors import EvertickError

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
    "evertick.app.execution.runner",
    "evertick.app.schedules.api",
    "evertick.engine.schedules.evaluator",
    "evertick.engine.worker",
    "evertick.recurrence",
    "evertick.store.postgres.store",
    "evertick.store.sqlite.store",
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


@pytest.mark.long
def test_the_list_of_heavy_modules_names_modules_that_exist() -> None:
    code = (
        "import evertick.app.functions.codec, evertick.app.crons, evertick.app.execution.runner\n"
        "import evertick.engine.worker\n"
        "import ctypes, evertick.store.open, pydantic\n"
    )
    optional = {"email", "psycopg", "sqlalchemy", "zoneinfo", "evertick.store.postgres.store"}

    assert loaded_after(code) >= HEAVY - optional


PUBLIC = (
    "evertick",
    "evertick.documents",
    "evertick.errors",
    "evertick.functions",
    "evertick.schedules",
    "evertick.testing",
    "evertick.workflows",
)
LAZY = ("evertick", "evertick.schedules", "evertick.testing")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    module = import_module(name)

    assert module.__doc__
    for each in module.__all__:
        assert getattr(module, each).__doc__, each


@pytest.mark.parametrize("name", LAZY)
def test_type_checkers_see_the_names_that_are_imported_on_first_use(name: str) -> None:
    module = import_module(name)
    source = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in source.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = [(node.module, alias) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    assert sorted(alias.name for _, alias in imported) == sorted(set(module.__all__) - {"__version__"})
    for home, alias in imported:
        assert alias.asname == alias.name, "this form exports the name"
        assert getattr(module, alias.name) is getattr(import_module(str(home)), alias.name)


def test_the_package_exports_what_a_first_program_needs() -> None:
    assert len(evertick.__all__) <= 27
    assert set(dir(evertick)) == set(evertick.__all__)


def test_a_name_that_the_package_does_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Fata'"):
        evertick.__getattr__("Fata")


def test_every_error_is_in_the_public_module() -> None:
    def tree(error: type[Exception]) -> set[str]:
        return {error.__name__}.union(*map(tree, error.__subclasses__()))

    defined = {each for each in tree(EvertickError) if hasattr(base_errors, each)}

    assert set(evertick.errors.__all__) == defined


@pytest.mark.long
@pytest.mark.parametrize("name", [each for each in PUBLIC if each != "evertick"])
def test_importing_the_package_is_enough_for_its_public_modules(name: str) -> None:
    code = f"import evertick\nmodule = {name}\nassert all(hasattr(module, each) for each in module.__all__)"

    assert name in loaded_after(code)
    assert not HEAVY & loaded_after("import evertick")
