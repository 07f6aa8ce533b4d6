"""What the README says of installing."""

import re
import tomllib

from tests.docs.pages import ROOT


def test_the_readme_names_every_extra_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Install\n")[2].partition("\n## ")[0]

    in_brackets = {name for names in re.findall(r"evertick\[([\w,]+)\]", section) for name in names.split(",")}
    in_words = set(re.findall(r"`(docs|dev)`", section))

    assert in_brackets | in_words == set(project["optional-dependencies"])


def test_the_readme_says_how_to_install_before_the_first_release() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert "Until the first release is published, install from a clone or an unpacked archive: `pip install .`" in text
