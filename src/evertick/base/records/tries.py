"""How often a job was tried. A run of a workflow is claimed each time it goes on, which is no further try."""

from evertick.base.records.jobs import Claim, FunctionKind, JobState, JobSummary


def tries_of(job: JobSummary) -> int:
    """How often a job was tried so far, with the present try; 0 before the first."""
    if job.kind is not FunctionKind.WORKFLOW:
        return job.attempt
    return 0 if not job.attempt else max(1, job.failures + (job.state is not JobState.FAILED))


def try_of(claim: Claim) -> int:
    """Which try of its job a claim is."""
    return claim.failures + 1 if claim.kind is FunctionKind.WORKFLOW else claim.attempt


def lines_of(job: JobSummary) -> int | None:
    """The attempt whose lines the log of a job shows: the last one; None is all, of a run of a workflow."""
    return None if job.kind is FunctionKind.WORKFLOW else job.attempt
