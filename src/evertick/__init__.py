"""Evertick: durable scheduling for Python.

Functions that run later, exactly when they should, committed together with your data, on the database you have.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evertick._version import __version__

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.app.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx
    from evertick.app.functions import Action, Function, FunctionCall, Mutation, Query
    from evertick.app.options import ApplicationError, JobResult, NonRetryable, OnConflict, Retry
    from evertick.app.queries import Document, Page
    from evertick.app.ranges import UNSET
    from evertick.app.schedule_audit import AuditReport
    from evertick.app.schedule_explain import Explanation
    from evertick.app.schedule_views import (
        BackfillPlanView,
        BackfillView,
        OccurrenceView,
        ScheduleDescription,
        ScheduleSummary,
    )
    from evertick.app.scheduled_run import ScheduledRun
    from evertick.base.errors import EvertickError
    from evertick.base.ids import JobId, ScheduleId
    from evertick.base.records import JobState
    from evertick.engine.settings import Settings
    from evertick.rules.recurrence.source import Dst, Spec
    from evertick.rules.recurrence.vocabulary import at, calendar, cron, daily, every, hourly, monthly, rrule, weekly
    from evertick.rules.schedule import CatchUp, Fate, Overlap, Reason, RunOutcome

# Imported on first use, so that `evertick --version` and the recurrence engine alone do not load everything.
_HOMES = {
    "Action": "evertick.app.functions",
    "ActionCtx": "evertick.app.contexts",
    "App": "evertick.app.app",
    "ApplicationError": "evertick.app.options",
    "AuditReport": "evertick.app.schedule_audit",
    "BackfillPlanView": "evertick.app.schedule_views",
    "BackfillView": "evertick.app.schedule_views",
    "CatchUp": "evertick.rules.schedule",
    "Document": "evertick.app.queries",
    "Dst": "evertick.rules.recurrence.source",
    "EvertickError": "evertick.base.errors",
    "Explanation": "evertick.app.schedule_explain",
    "Fate": "evertick.rules.schedule",
    "Function": "evertick.app.functions",
    "FunctionCall": "evertick.app.functions",
    "JobId": "evertick.base.ids",
    "JobResult": "evertick.app.options",
    "JobState": "evertick.base.records",
    "Mutation": "evertick.app.functions",
    "MutationCtx": "evertick.app.contexts",
    "NonRetryable": "evertick.app.options",
    "OccurrenceView": "evertick.app.schedule_views",
    "OnConflict": "evertick.app.options",
    "Overlap": "evertick.rules.schedule",
    "Page": "evertick.app.queries",
    "Query": "evertick.app.functions",
    "QueryCtx": "evertick.app.contexts",
    "Reason": "evertick.rules.schedule",
    "Retry": "evertick.app.options",
    "RunOutcome": "evertick.rules.schedule",
    "ScheduleDescription": "evertick.app.schedule_views",
    "ScheduleId": "evertick.base.ids",
    "ScheduleSummary": "evertick.app.schedule_views",
    "ScheduledRun": "evertick.app.scheduled_run",
    "Settings": "evertick.engine.settings",
    "Spec": "evertick.rules.recurrence.source",
    "SyncActionCtx": "evertick.app.contexts",
    "UNSET": "evertick.app.ranges",
    "at": "evertick.rules.recurrence.vocabulary",
    "calendar": "evertick.rules.recurrence.vocabulary",
    "cron": "evertick.rules.recurrence.vocabulary",
    "daily": "evertick.rules.recurrence.vocabulary",
    "every": "evertick.rules.recurrence.vocabulary",
    "hourly": "evertick.rules.recurrence.vocabulary",
    "monthly": "evertick.rules.recurrence.vocabulary",
    "rrule": "evertick.rules.recurrence.vocabulary",
    "weekly": "evertick.rules.recurrence.vocabulary",
}

__all__ = [
    "UNSET",
    "Action",
    "ActionCtx",
    "App",
    "ApplicationError",
    "AuditReport",
    "BackfillPlanView",
    "BackfillView",
    "CatchUp",
    "Document",
    "Dst",
    "EvertickError",
    "Explanation",
    "Fate",
    "Function",
    "FunctionCall",
    "JobId",
    "JobResult",
    "JobState",
    "Mutation",
    "MutationCtx",
    "NonRetryable",
    "OccurrenceView",
    "OnConflict",
    "Overlap",
    "Page",
    "Query",
    "QueryCtx",
    "Reason",
    "Retry",
    "RunOutcome",
    "ScheduleDescription",
    "ScheduleId",
    "ScheduleSummary",
    "ScheduledRun",
    "Settings",
    "Spec",
    "SyncActionCtx",
    "__version__",
    "at",
    "calendar",
    "cron",
    "daily",
    "every",
    "hourly",
    "monthly",
    "rrule",
    "weekly",
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
