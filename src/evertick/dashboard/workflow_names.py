"""Which workflows a visitor can choose from."""

from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.server.callers import Caller


def names_for(caller: Caller) -> list[str]:
    """The workflows of the app that the caller may start, by name."""
    shown = (each for each in caller.app.functions if not each.internal or caller.may(Scope.ADMIN))
    return sorted(each.name for each in shown if each.kind is FunctionKind.WORKFLOW)
