"""Evertick: durable scheduling for Python.

Functions that run later, exactly when they should, committed together with your data, on the database you have.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evertick._version import __version__

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.app.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx
    from evertick.app.database import UNSET
    from evertick.app.functions import Action, Function, FunctionCall, Mutation, Query
    from evertick.app.options import JobResult, NonRetryable, OnConflict, Retry
    from evertick.app.queries import Document, Page
    from evertick.base.errors import EvertickError
    from evertick.base.ids import JobId
    from evertick.base.records import JobState
    from evertick.engine.settings import Settings

# Imported on first use, so that `evertick --version` and the recurrence engine alone do not load everything.
_HOMES = {
    "UNSET": "evertick.app.database",
    "Action": "evertick.app.functions",
    "ActionCtx": "evertick.app.contexts",
    "App": "evertick.app.app",
    "Document": "evertick.app.queries",
    "EvertickError": "evertick.base.errors",
    "Function": "evertick.app.functions",
    "FunctionCall": "evertick.app.functions",
    "JobId": "evertick.base.ids",
    "JobResult": "evertick.app.options",
    "JobState": "evertick.base.records",
    "Mutation": "evertick.app.functions",
    "MutationCtx": "evertick.app.contexts",
    "NonRetryable": "evertick.app.options",
    "OnConflict": "evertick.app.options",
    "Page": "evertick.app.queries",
    "Query": "evertick.app.functions",
    "QueryCtx": "evertick.app.contexts",
    "Retry": "evertick.app.options",
    "Settings": "evertick.engine.settings",
    "SyncActionCtx": "evertick.app.contexts",
}

__all__ = [
    "UNSET",
    "Action",
    "ActionCtx",
    "App",
    "Document",
    "EvertickError",
    "Function",
    "FunctionCall",
    "JobId",
    "JobResult",
    "JobState",
    "Mutation",
    "MutationCtx",
    "NonRetryable",
    "OnConflict",
    "Page",
    "Query",
    "QueryCtx",
    "Retry",
    "Settings",
    "SyncActionCtx",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evertick' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
