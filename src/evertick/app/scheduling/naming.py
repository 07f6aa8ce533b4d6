"""How a job is named: by its id, or by the key that it was scheduled with."""

from evertick.app.documents.tables import require_job_id, table_named_in
from evertick.base.cures import no_key
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, JobId, TenantId
from evertick.base.job_options import check_key
from evertick.base.records.jobs import Job, JobFilter
from evertick.engine.jobs.repair import job_found
from evertick.store.contract.store import Transaction


def is_key(named: JobId | str) -> bool:
    """Whether a job is named by its key: by text that is not an id, nor begins as the id of a job does.

    Raises InvalidArguments for what is neither, such as the id of a document.
    """
    table = table_named_in(named)
    if table is not None and table != JOB_PREFIX:
        raise InvalidArguments(
            f"{named!r} is not the id of a job: it is one of the table {table!r}; to name jobs by a key that holds it, "
            f"put a word before it, such as 'remind:{named}'"
        )
    if not isinstance(named, str) or not named or named.startswith(f"{JOB_PREFIX}_"):
        require_job_id(named)
        return False
    try:
        check_key(named, what="a key")
    except Misuse as error:
        raise InvalidArguments(str(error)) from None
    return True


def unfinished_named(transaction: Transaction, named: JobId | str, tenant: TenantId) -> JobId | None:
    """The job that has this id, or the unfinished one that holds this key; None if none holds it.

    Raises InvalidArguments.
    """
    return transaction.find_unfinished_key(named, tenant=tenant) if is_key(named) else JobId(named)


def job_named(transaction: Transaction, named: JobId | str, tenant: TenantId) -> Job:
    """The job that has this id; for a key the unfinished one that holds it, else the newest that had it.

    Raises JobNotFound, InvalidArguments.
    """
    found = unfinished_named(transaction, named, tenant)
    if found is None:
        ended = transaction.list_jobs(JobFilter(tenant=tenant, key=named), limit=1, newest_first=True)
        if not ended:
            raise no_key(named, tenant)
        found = ended[0].id
    return job_found(transaction, found, tenant)
