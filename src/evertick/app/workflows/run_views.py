"""Runs of workflows as others see them, from their jobs."""

from collections.abc import Mapping, Sequence

from evertick.api.workflows import RunView
from evertick.app.transacting import Work
from evertick.base.ids import JobId, TenantId
from evertick.base.records.jobs import FunctionKind, Job
from evertick.store.transaction.transaction import Transaction


def run_views(transaction: Transaction, jobs: Sequence[Job]) -> tuple[RunView, ...]:
    """The runs of jobs, in their order."""
    records, paused = transaction.shown_runs([job.id for job in jobs])
    return tuple(RunView.of(job, records.get(job.id), is_paused=job.id in paused) for job in jobs)


def runs_by_id(tenant: TenantId, ids: Sequence[str]) -> Work[Mapping[str, RunView]]:
    """The runs of a tenant that have these ids, by them; others are left out."""

    def work(transaction: Transaction) -> Mapping[str, RunView]:
        jobs = transaction.get_jobs([JobId(each) for each in ids], tenant=tenant)
        runs = [each for each in jobs if each.kind is FunctionKind.WORKFLOW]
        return {run.id: run for run in run_views(transaction, runs)}

    return work
