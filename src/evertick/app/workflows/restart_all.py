"""Many runs restarted at once: those that filters choose and that were not run again yet."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from evertick.app.transacting import Page, Work
from evertick.app.workflows.choice import RunsWhere, runs_where
from evertick.app.workflows.restarting import check_restart
from evertick.base.errors import AlreadyExists, Misuse, SchemaMismatch, StepStillRuns, WorkflowInactive
from evertick.base.ids import JOB_PREFIX, JobId
from evertick.base.records.jobs import JobState
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.workflows.operations import WorkflowOperations

RESTART_PAGE: Final = 10
"""Runs that are restarted in one transaction: each copies its journal while others wait to write."""


def restart_page(
    operations: "WorkflowOperations",
    after: str,
    workflow: Any = None,
    *,
    step: int | str | None = None,
    from_failed: bool = False,
    **where: Unpack[RunsWhere],
) -> Work[Page]:
    """Restart all failed runs of a workflow, or of all, that the filters of `list` choose; returns how many.

        app.workflows.restart_all(process, error="AttributeError", from_failed=True)

    `state` chooses others than failed ones. `step` and `from_failed` say from where, as for `restart`; else they begin
    anew. Left out are child runs (the run that called one calls it again; to restart one alone, name it to `restart`),
    runs that were run again already, those that did not make the step, or succeeded, those with a
    call before it that has no end yet, those whose key another run holds meanwhile, those of a workflow that is not
    active, and those that this release cannot read. Works in pages, each a transaction of its own.

    Raises Misuse for an unknown word, InvalidDelay, QuotaExceeded when there is no room for more.
    """
    check_restart(step, from_failed=from_failed)
    where.setdefault("state", "failed")
    where["roots"] = True
    chosen = runs_where(operations.tenant, workflow, **where)
    chosen = replace(chosen, not_retried=set(chosen.states) == {JobState.FAILED})
    last, _, newest = after.partition(" ")
    newest = newest or operations.job_builder.make_id(JOB_PREFIX, operations.job_builder.now())  # the new ones are left

    def work(transaction: Transaction) -> Page:
        found, following = transaction.look_for_jobs(chosen, limit=RESTART_PAGE, after=last or None)
        meant = [job.id for job in found if job.id < newest and job.retried_as is None]
        count = sum(_restarted(operations, transaction, each, step, from_failed=from_failed) for each in meant)
        goes_on = following is not None and following < newest
        return count, f"{following} {newest}" if goes_on else None

    return work


def _restarted(
    operations: "WorkflowOperations",
    transaction: Transaction,
    run_id: JobId,
    step: int | str | None,
    *,
    from_failed: bool,
) -> bool:
    """Restart a run, unless it cannot be from there; returns whether."""
    try:
        operations.restart(run_id, step=step, from_failed=from_failed)(transaction)
    except (AlreadyExists, Misuse, SchemaMismatch, StepStillRuns, WorkflowInactive):
        return False
    return True
