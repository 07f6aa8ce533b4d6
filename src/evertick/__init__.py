"""Evertick: durable scheduling for Python.

Functions that run later, exactly when they should, committed together with your data, on the database you have.

    from evertick import App, MutationCtx

    app = App("chat")

    @app.mutation
    def send(ctx: MutationCtx, body: str) -> str:
        message_id = ctx.db.insert("messages", {"body": body})
        ctx.scheduler.run_after(5, destruct, message_id)
        return message_id

    @app.mutation
    def destruct(ctx: MutationCtx, message_id: str) -> None:
        ctx.db.delete(message_id)

What a first program needs is here. More is in `evertick.schedules` (occurrences, policies, explanations),
`evertick.workflows` (runs, their steps and histories), `evertick.functions` (registered functions, schedulers, states
of jobs), `evertick.scripts` (code of customers), `evertick.documents` (queries, pages), `evertick.errors` (every
error), `evertick.recurrence` (times without a database) and `evertick.testing` (a clock that jumps).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evertick._version import __version__
from evertick.base.lazy import lazy_names

if TYPE_CHECKING:
    from evertick.app.app import App as App
    from evertick.app.documents.queries import UNSET as UNSET
    from evertick.app.execution.contexts import ActionCtx as ActionCtx, MutationCtx as MutationCtx
    from evertick.app.execution.contexts import QueryCtx as QueryCtx, SyncActionCtx as SyncActionCtx
    from evertick.app.functions.options import ApplicationError as ApplicationError, JobResult as JobResult
    from evertick.app.functions.options import NonRetryable as NonRetryable, Retry as Retry
    from evertick.base.errors import EvertickError as EvertickError
    from evertick.base.ids import JobId as JobId
    from evertick.engine.runtime.settings import Settings as Settings
    from evertick.recurrence.builders import at as at, calendar as calendar, cron as cron, daily as daily
    from evertick.recurrence.builders import every as every, hourly as hourly, monthly as monthly, rrule as rrule
    from evertick.recurrence.builders import sentence as sentence, weekly as weekly
    from evertick.rules.workflows.step import Step as Step
    from evertick.rules.schedules.policies import CatchUp as CatchUp, Overlap as Overlap
else:
    __all__, _load, __dir__ = lazy_names(
        __name__,
        {
            "evertick.app.app": "App",
            "evertick.app.documents.queries": "UNSET",
            "evertick.app.execution.contexts": "ActionCtx MutationCtx QueryCtx SyncActionCtx",
            "evertick.app.functions.options": "ApplicationError JobResult NonRetryable Retry",
            "evertick.base.errors": "EvertickError",
            "evertick.base.ids": "JobId",
            "evertick.engine.runtime.settings": "Settings",
            "evertick.recurrence.builders": "at calendar cron daily every hourly monthly rrule sentence weekly",
            "evertick.rules.schedules.policies": "CatchUp Overlap",
            "evertick.rules.workflows.step": "Step",
        },
    )
    __all__ += ["__version__"]
    _MODULES = frozenset(
        {"client", "documents", "errors", "functions", "recurrence", "schedules", "testing", "workflows"}
    )

    def __getattr__(name: str) -> Any:
        if name in __all__ or name.startswith("_"):
            return _load(name)
        if name in _MODULES:  # `import evertick` is enough for `evertick.errors.JobNotFound`
            return import_module(f"evertick.{name}")
        return _load(name)
