"""The registry: the functions and tables of an app."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from evertick.app.documents.tables import Table
from evertick.app.functions.function import Function
from evertick.app.scheduling.job_builder import Target
from evertick.base.errors import FunctionNotFound, Misuse, RegistrationError
from evertick.base.ids import check_addressable
from evertick.base.options import shown
from evertick.base.records.stored import storable

LIKE_BEGINNING: Final = 4
"""If this many letters at the beginning are equal, two names count as similar."""


class Registry:
    """The registered functions of an app, by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Function[..., Any]] = {}
        self._by_name: dict[str, Function[..., Any]] = {}
        """By all names, including aliases."""

    def add(self, function: Function[..., Any]) -> None:
        """Register a function. Raises RegistrationError if its name or an alias is taken."""
        names = (function.name, *function.aliases)
        for name in names:
            if storable(name) != name:
                raise RegistrationError(f"a function's name must not contain NUL or a lone surrogate: {name!r}")
            check_addressable(name, "a function", RegistrationError)
            taken = self._by_name.get(name)
            if taken is not None:
                raise RegistrationError(
                    f"{name!r} is registered twice: {_place(taken)} and {_place(function)}; "
                    "rename one, or give it another name with name=..."
                )
        self._functions[function.name] = function
        self._by_name |= dict.fromkeys(names, function)

    def resolve(self, target: Target) -> Function[..., Any]:
        """A registered function, given as an object or by name.

        Raises FunctionNotFound, with the nearest names, or Misuse if it is not a function of an app.
        """
        if isinstance(target, Function):
            if self._functions.get(target.name) is not target:
                raise FunctionNotFound(
                    f"{target.name!r} is registered with the app {target.app_name!r}, not with this one"
                )
            return target
        if not isinstance(target, str):
            raise Misuse(
                f"{shown(target)} is not a registered function: give one that is decorated with @app.mutation or "
                "@app.action, or its name"
            )
        function = self._by_name.get(target)
        if function is None:
            near = self.nearest(target)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise FunctionNotFound(f"no function {target!r} is registered{hint}")
        return function

    def nearest(self, name: str) -> list[str]:
        """Up to three functions with names similar to an unknown one."""
        return nearest_names(name, self._functions)

    def __iter__(self) -> Iterator[Function[..., Any]]:
        return iter(self._functions.values())


def nearest_names(target: str, names: Iterable[str]) -> list[str]:
    """Up to three similar names: the last part is similar, or has the same beginning."""
    by_end: dict[str, list[str]] = {}
    for name in names:
        by_end.setdefault(name.rpartition(".")[2], []).append(name)
    wanted = target.rpartition(".")[2]
    ends = difflib.get_close_matches(wanted, by_end, n=3, cutoff=0.6)
    ends += [end for end in by_end if end.startswith(wanted[:LIKE_BEGINNING]) and len(wanted) >= LIKE_BEGINNING]
    return [name for end in dict.fromkeys(ends) for name in by_end[end]][:3]


class TableRegistry:
    """Declared tables by name."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}

    def add(self, table: Table) -> None:
        """Register a table. Raises RegistrationError if it was declared before."""
        if table.name in self._tables:
            raise RegistrationError(f"table {table.name!r} is declared twice; declare it once")
        self._tables[table.name] = table

    def remove(self, name: str) -> None:
        """Remove a declaration."""
        del self._tables[name]

    def get(self, name: str, /) -> Table | None:
        """The declaration of a table, or None if there is none."""
        return self._tables.get(name)

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())


def _place(function: Function[..., Any]) -> str:
    code = function.handler.__code__ if hasattr(function.handler, "__code__") else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function.handler)
