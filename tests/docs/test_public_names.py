"""The index of public names in docs/reference/python.md is that of the code."""

import re

from tests.docs.pages import ROOT
from tools import public_names


def test_the_index_of_public_names_is_that_of_the_code() -> None:
    written = public_names.PAGE.read_text("utf-8")

    assert written == public_names.page(), "run `python -m tools.public_names`"
    assert not re.findall(r"^\| `\w+` \| [.]? \|$", written, re.MULTILINE)  # a name without a meaning


def test_it_has_the_modules_of_the_site() -> None:
    listed = re.search(r"PUBLIC_MODULES = \((.*?)\)", (ROOT / "docs" / "conf.py").read_text("utf-8"), re.DOTALL)

    assert listed is not None
    assert set(re.findall(r'"([\w.]+)"', listed[1])) == set(public_names.MODULES)
