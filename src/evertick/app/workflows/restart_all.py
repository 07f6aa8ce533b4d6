"""Restarts of many runs: those that match filters and were not run again yet."""

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
"""Runs restarted in one transaction. Each copies its journal, while other writers wait."""


def restart_page(
    operations: "WorkflowOperations",
    after: str,
    workflow: Any = None,
    *,
    step: int | str | None = None,
    from_failed: bool = False,
    **where: Unpack[RunsWhere],
) -> Work[Page]:
    """Restart all failed runs of a workflow, or of all workflows, that match the filters of `list`; returns how many.

        app.workflows.restart_all(process, error="AttributeError", from_failed=True)

    `state` selects other runs than failed ones. `step` and `from_failed` say where to restart, as in `restart`; by
    default from the beginning. Skipped are: child runs (their callers call them again; `restart` restarts one), runs
    that were run again already, that did not make the step or succeeded, with an earlier call that has no end yet,
    whose key another run has taken meanwhile, of an inactive workflow, and those that this release cannot read. Works
    in pages, each its own transaction.

    Raises Misuse for an unknown filter, InvalidDelay, QuotaExceeded if the quota does not allow more.
    """
    check_restart(step, from_failed=from_failed)
    where.setdefault("state", "failed")
    where["roots"] = True
    chosen = runs_where(operations.tenant, workflow, **where)
    chosen = replace(chosen, not_retried=set(chosen.states) == {JobState.FAILED})
    last, _, newest = after.partition(" ")
    newest = newest or operations.job_builder.make_id(JOB_PREFIX, operations.job_builder.now())  # excludes the new runs

    def work(transaction: Transaction) -> Page:
        found, following = transaction.find_jobs(chosen, limit=RESTART_PAGE, after=last or None)
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
    """Restart a run if that is possible; returns whether it was restarted."""
    try:
        operations.restart(run_id, step=step, from_failed=from_failed)(transaction)
    except (AlreadyExists, Misuse, SchemaMismatch, StepStillRuns, WorkflowInactive):
        return False
    return True
