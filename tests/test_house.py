"""Two rules of the code's structure: no import is circular, and each floor imports only floors below it.

The contracts are in `pyproject.toml`; import-linter checks them, lazy and type-only imports included.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_imports_follow_the_contracts() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    for contract in ("each floor imports only floors below it", "no cycles anywhere"):
        assert f"{contract} KEPT" in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout
