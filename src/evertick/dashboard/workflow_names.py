"""Which workflows a visitor can choose from, and which functions have another name now."""

from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.server.callers import Caller


def renamed(caller: Caller) -> dict[str, str]:
    """The present names of functions of the app, by those that they had before."""
    return {alias: each.name for each in caller.app.functions for alias in each.aliases}


def names_for(caller: Caller) -> list[str]:
    """The workflows of the app that the caller may start, by name."""
    shown = (each for each in caller.app.functions if not each.internal or caller.may(Scope.ADMIN))
    return sorted(each.name for each in shown if each.kind is FunctionKind.WORKFLOW)
