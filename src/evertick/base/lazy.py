"""Lazy modules: each name of a public module is imported from its defining module when it is first used.

Every program, command and reload pays for the imports of a package, so a large package loads only what is used.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    module: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """The `__all__`, `__getattr__` and `__dir__` of `module`; `homes` maps modules to the names they define.

    Type checkers need the same names as imports under `if TYPE_CHECKING`; a test compares the two.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)
        return value

    names = sorted(home_of)
    return names, load, lambda: names


# -- Extras: optional dependencies.


def missing_extra(error: ModuleNotFoundError, package: str, what: str, extra: str) -> ModuleNotFoundError:
    """The error for a module that was not found; with the extra to install if the module is of `package`."""
    if (error.name or "").partition(".")[0] != package:
        return error
    return ModuleNotFoundError(f"{what}: pip install 'evertick[{extra}]'", name=error.name)
