"""How a job is named: by its id, or by the key that it was scheduled with."""

from typing import Final

from evertick.app.documents.tables import require_job_id, table_named_in
from evertick.base.cures import no_key
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, JobId, TenantId
from evertick.base.job_options import check_key
from evertick.base.records.jobs import FunctionKind, Job, JobFilter
from evertick.engine.jobs.repair import job_found
from evertick.store.transaction.transaction import Transaction

LOOKED_AT: Final = 100
"""Keys with the same beginning among which one may have been meant that no job has."""


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
            raise no_key(named, tenant, keys_like(transaction, named, tenant))
        found = ended[0].id
    return job_found(transaction, found, tenant)


def keys_like(transaction: Transaction, key: str, tenant: TenantId, *, of_runs: bool = False) -> list[str]:
    """Keys that begin as one does that no job has, and that may have been meant; of runs of workflows alone, if asked.

    Longer beginnings are looked for first, so the nearest ones are found among any number of keys. A function learns of
    none: what it reads could make it meet the writes of others.
    """
    if transaction.own is not None or not key.isprintable() or key.startswith(f"{JOB_PREFIX}_"):
        return []
    beginnings = dict.fromkeys(key[: max(1, length)] for length in (len(key) * 3 // 4, len(key) // 2, 1))
    found = [
        each
        for beginning in beginnings
        for each in transaction.found_jobs(tenant, beginning, unfinished=(), look=1, limit=LOOKED_AT)
    ]
    return [each.key for each in found if each.key and (each.kind == FunctionKind.WORKFLOW or not of_runs)]
