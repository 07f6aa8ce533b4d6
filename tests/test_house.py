"""The house keeps the measures that let a newcomer find the way: see `tools/house.py`."""

import subprocess
import sys
from pathlib import Path

from tools import house, walks

ROOT = Path(__file__).parents[1]


def test_files_and_functions_stay_short() -> None:
    long_files = {
        name: lines
        for name, path in house.modules().items()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > house.FILE_LINES_MAX
    }
    assert not long_files
    assert not [each for each in house.functions() if each.lines > house.FUNCTION_LINES_MAX]


def test_what_belongs_together_is_handed_over_as_a_record() -> None:
    functions = list(house.functions())
    assert not [each for each in functions if each.parameters > house.PARAMETERS_MAX]
    many = [each for each in functions if each.parameters >= house.MANY_PARAMETERS]
    assert len(many) <= house.FUNCTIONS_WITH_MANY_PARAMETERS_MAX, many


def test_imports_are_shallow_and_never_circular() -> None:
    chain = house.deepest_chain()
    assert len(chain) <= house.IMPORT_DEPTH_MAX, " -> ".join(chain)


def test_no_folder_is_crowded() -> None:
    folder, files = house.fullest_folder()
    assert files <= house.FILES_IN_A_FOLDER_MAX, folder


def test_a_call_and_a_creation_pass_few_files() -> None:
    """In a process of its own: whatever other tests have left in this one does not count."""
    code = (
        "from tools import walks\n"
        "found = walks.walks()\n"
        "print(*(len(found[name].files) for name in ('a scheduled call', 'a creation')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    of_a_call, of_a_creation = map(int, done.stdout.split())
    assert of_a_call <= walks.FILES_OF_A_CALL_MAX
    assert of_a_creation <= walks.FILES_OF_A_CREATION_MAX
