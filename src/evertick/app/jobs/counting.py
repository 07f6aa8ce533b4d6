"""Counts of jobs. Apart from their pages, which documents read: the schema of a count loads pydantic."""

from typing import Final

from evertick.api.schema import COUNT_MAX, Count
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import JobFilter, JobState
from evertick.store.transaction.transaction import Transaction

COUNTED_PAGES_MAX: Final = 20
"""Pages of jobs that are read to count them."""


def count_of_jobs(transaction: Transaction, where: JobFilter) -> Count:
    """The number of jobs that match a filter: from stored counts if possible, otherwise counted, up to 10,000."""
    if where == JobFilter(tenant=where.tenant, states=where.states, name=where.name):
        names = [state.value for state in where.states or JobState]
        functions = transaction.count_jobs(where.tenant, name=where.name).values()
        return Count(number=sum(getattr(each, name) for each in functions for name in names))
    counted, after = 0, None
    for _ in range(COUNTED_PAGES_MAX):
        found = transaction.find_jobs(where, limit=PAGE_MAX, after=after, newest_first=True)
        counted, after = counted + len(found.jobs), found.after
        if after is None or counted > COUNT_MAX:
            return Count.of(counted)
    return Count(number=counted, more=True)
