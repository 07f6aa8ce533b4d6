"""The workflows that a visitor can choose, and the current names of renamed functions."""

from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.server.callers import Caller


def renamed(caller: Caller) -> dict[str, str]:
    """The current names of the app's functions, by their former names."""
    return {alias: each.name for each in caller.app.functions for alias in each.aliases}


def names_for(caller: Caller) -> list[str]:
    """The workflows of the app that the caller may start, by name."""
    shown = (each for each in caller.app.functions if not each.internal or caller.may(Scope.ADMIN))
    return sorted(each.name for each in shown if each.kind is FunctionKind.WORKFLOW)
