"""Schedules: what `app.schedules` and `ctx.schedules` take and return.

    report = app.schedules.create("report", when=daily(hour=9), do=make_report, overlap=Overlap.BUFFER_ONE)
    page = app.schedules.occurrences("report", fate=Fate.SKIPPED)
    print(app.schedules.explain("report", at=yesterday).sentence)

An occurrence is one nominal time of a schedule; its `Fate` says whether it started, and its `Reason` why not.
"""

from typing import TYPE_CHECKING

from evertick.base.lazy import lazy_names

if TYPE_CHECKING:
    from evertick.api.reports import Answer as Answer, AuditCounts as AuditCounts, AuditReport as AuditReport
    from evertick.api.reports import Check as Check, Explanation as Explanation, Missing as Missing
    from evertick.api.reports import UnreadableSchedule as UnreadableSchedule
    from evertick.api.reports import Unrecorded as Unrecorded, UnrecordedTime as UnrecordedTime
    from evertick.api.schedules import BackfillPlanView as BackfillPlanView, BackfillView as BackfillView
    from evertick.api.schedules import CountersView as CountersView, HistoryLine as HistoryLine
    from evertick.api.schedules import OccurrencePage as OccurrencePage, OccurrenceView as OccurrenceView
    from evertick.api.schedules import OpenRunView as OpenRunView, PauseView as PauseView, PoliciesView as PoliciesView
    from evertick.api.schedules import ScheduleDescription as ScheduleDescription, SchedulePage as SchedulePage
    from evertick.api.schedules import ScheduleSummary as ScheduleSummary, TargetView as TargetView
    from evertick.api.schedules import TimeView as TimeView, WaitingView as WaitingView
    from evertick.base.scheduled_run import ScheduledRun as ScheduledRun
    from evertick.app.schedules.api import AsyncSchedules as AsyncSchedules, ScheduleReader as ScheduleReader
    from evertick.app.schedules.api import Schedules as Schedules
    from evertick.base.ids import ScheduleId as ScheduleId
    from evertick.base.options import UNCHANGED as UNCHANGED
    from evertick.recurrence.spec.spec import Dst as Dst, Spec as Spec
    from evertick.rules.schedules.fates import Fate as Fate, Origin as Origin
    from evertick.rules.schedules.fates import Reason as Reason, RunOutcome as RunOutcome
else:
    # Loading all of them would take a program longer than all that registering functions needs.
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "evertick.api.reports": "Answer AuditCounts AuditReport Check Explanation Missing UnreadableSchedule "
            "Unrecorded UnrecordedTime",
            "evertick.api.schedules": "BackfillPlanView BackfillView CountersView HistoryLine OccurrencePage "
            "OccurrenceView OpenRunView PauseView PoliciesView ScheduleDescription SchedulePage ScheduleSummary "
            "TargetView TimeView WaitingView",
            "evertick.app.schedules.api": "AsyncSchedules ScheduleReader Schedules",
            "evertick.base.ids": "ScheduleId",
            "evertick.base.options": "UNCHANGED",
            "evertick.base.scheduled_run": "ScheduledRun",
            "evertick.recurrence.spec.spec": "Dst Spec",
            "evertick.rules.schedules.fates": "Fate Origin Reason RunOutcome",
        },
    )
