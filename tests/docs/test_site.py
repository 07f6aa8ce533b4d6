"""The site of the documentation builds without a warning: pages, links, anchors, docstrings and commands."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
import pytest

from evertick.cli.root import root
from tests.docs.pages import ROOT

PACKAGES: Final = ("sphinx", "myst_parser", "furo")
pytestmark = pytest.mark.long
MISSING: Final = [package for package in PACKAGES if find_spec(package) is None]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    if MISSING:
        pytest.fail(f"the site needs {', '.join(MISSING)}: python -m pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "doctrees")]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(folder / "html")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_the_site_loads_nothing_from_the_network(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 20

    for page in pages:
        loaded = re.findall(r"""(?:src="|<link[^>]*href="|url\()["']?(https?:)?//""", page.read_text("utf-8"))
        assert loaded == [], page


def test_every_command_and_flag_is_described(site: Path) -> None:
    page = (site / "reference/commands.html").read_text("utf-8")

    def check(command: click.Command, path: str) -> None:
        assert f">{path}<" in page
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(flag in page for flag in option.opts), (path, option.opts)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                member = command.get_command(context, name)
                assert member is not None
                check(member, f"{path} {name}")

    check(root, "evertick")


def test_every_public_name_of_the_package_is_described(site: Path) -> None:
    import evertick

    page = (site / "reference/generated/evertick.html").read_text("utf-8")

    for name in evertick.__all__:
        if not name.startswith("_"):
            assert f'id="evertick.{name}"' in page, name
