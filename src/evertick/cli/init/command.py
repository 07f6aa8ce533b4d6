"""`evertick init`: writes the files of a project that runs, and replaces none."""

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

import click

from evertick.base.errors import AlreadyExists, Misuse, StorageFailed
from evertick.base.escaping import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A project template: its requirements, and the commands to try first."""

    example: str
    meaning: str
    packages: tuple[str, ...] = ()
    development: tuple[str, ...] = ("pytest",)


KINDS: Final = {
    "minimal": Kind(
        example='evertick run app.add text="buy bread"', meaning="adds a note; five seconds later it is remembered"
    ),
    "fastapi": Kind(
        example="uvicorn app:api --reload",
        meaning="in a second terminal: serves the API on http://127.0.0.1:8000/docs; `evertick dev` runs its jobs",
        packages=("fastapi", "uvicorn"), development=("pytest", "httpx2"),
    ),
    "workflow": Kind(
        example="evertick workflow start app.fulfil order_id=7 --id order-7",
        meaning="starts a run; `evertick workflow signal order-7 paid` lets it go on",
    ),
}  # fmt: skip
COMMON: Final = ("pyproject.toml", ".gitignore", "README.md")
OWN: Final = ("app.py", "test_app.py")
SETUP: Final = {
    "sqlite": "",
    "postgres": "export EVERTICK_DATABASE_URL=postgresql://user:password@localhost/$name\nevertick migrate\n",
}
NAME_CHARS_MAX: Final = 50


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--template", type=click.Choice(list(KINDS)), default="minimal", show_default=True, help="What it begins with."
)
@click.option(
    "--db", "database", type=click.Choice(list(SETUP)), default="sqlite", show_default=True, help="Its database."
)
def init(folder: Path, template: str, database: str) -> None:
    """Make a project in FOLDER (this one unless given): an app, a test of it, and what to do next.

    No file is replaced: if one of them is there, nothing is written.
    """
    made = _contents(_name_of(folder), template, database)
    if taken := [name for name in made if (folder / name).exists()]:
        raise AlreadyExists(f"{folder / taken[0]} is there already, so nothing was written; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
            click.echo(printable(str(folder / name)))
    except OSError as error:
        raise StorageFailed(f"cannot write to {folder}: {error.strerror}") from None
    where = "" if folder.resolve() == Path.cwd() else f"cd {printable(str(folder))} && "
    click.echo(f"next: {where}evertick dev", err=True)


def _name_of(folder: Path) -> str:
    """A name for the app and its package, derived from the folder's name. Raises Misuse if that has no letter."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:NAME_CHARS_MAX].rstrip("-")
    if not re.search("[a-z]", name):
        raise Misuse(f"the folder's name {folder.resolve().name!r} has no letter from a to z, so it names no project")
    return name


def _contents(name: str, template: str, database: str) -> dict[str, str]:
    """The contents of the project's files, by file name."""
    kind = KINDS[template]
    own = "evertick[postgres]" if database == "postgres" else "evertick"
    packages = [own, *kind.packages]
    setup = Template(SETUP[database]).substitute(name=name)
    values = {
        "name": name,
        "dependencies": ", ".join(f'"{each}"' for each in packages),
        "development": ", ".join(f'"{each}"' for each in kind.development),
        "packages": " ".join(f"'{each}'" if "[" in each else each for each in (*packages, *kind.development)),
        "setup": setup.rstrip("\n"),
        "example": kind.example,
        "meaning": kind.meaning,
    }
    folder = files("evertick.cli.init") / "templates"
    found = {}
    for file, where in {**dict.fromkeys(COMMON, "common"), **dict.fromkeys(OWN, template)}.items():
        text = (folder / where / f"{file.removeprefix('.')}.txt").read_text(encoding="utf-8")
        found[file] = Template(text).substitute(values).replace("\n\n```\n", "\n```\n")
    return found
