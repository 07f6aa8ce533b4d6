"""`ctx.db`: documents in tables, inside the transaction of the function that asks.

Writes wait in the unit of work and are read back from it; so everything here is seen by this function at once, by
everybody else after the commit, and by nobody if the function raises.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from evertick.app.budget import Budget
from evertick.app.queries import Document, DocumentQuery
from evertick.app.tables import Index, Table, check_name
from evertick.app.values import decode_document, encode_document
from evertick.base.errors import DocumentNotFound, InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, IdMaker, JobId, TenantId, creation_time_ms, table_of
from evertick.base.instants import Instant
from evertick.base.records import Job, JobFilter, JobState
from evertick.store.unit_of_work import UnitOfWork

SYSTEM_JOBS: Final = "_scheduled_functions"


class Unset:
    """The type of `UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""In `patch`: remove the field. In an update of a schedule: lift what was set."""


class Tables(Protocol):
    """The declared tables."""

    def get(self, name: str, /) -> Table | None:
        """The table's declaration, or None where it was not declared."""
        ...


class DatabaseReader:
    """Reading documents: what queries have."""

    if not TYPE_CHECKING:  # to a type checker these attributes do not exist

        def __getattr__(self, name: str) -> Any:
            if name in ("insert", "patch", "replace", "delete"):
                raise AttributeError(f"a query has no ctx.db.{name}: it only reads; make this function a mutation")
            return object.__getattribute__(self, name)  # raises what it raised

    def __init__(self, unit: UnitOfWork, tenant: TenantId, tables: Tables, budget: Budget) -> None:
        self._unit = unit
        self._tenant = tenant
        self._tables = tables
        self._budget = budget

    def get(self, document_id: str) -> Document | None:
        """The document, or None if there is none.

        Raises InvalidArguments if `document_id` is no id of a document.
        """
        _table_of(document_id)
        self._budget.read()
        body = self._unit.get(self._tenant, document_id)
        return None if body is None else _document(document_id, body)

    def query(self, table: str) -> DocumentQuery:
        """The documents of a table; see `DocumentQuery` for how to choose among them."""
        if table.startswith("_"):
            raise Misuse(f"{table!r} is a system table: read it with ctx.db.system.query({table!r})")
        check_name(table)
        return DocumentQuery(_TableSource(self._unit, self._tenant, table, self._tables.get(table), self._budget))

    def normalize_id(self, table: str, value: str) -> str | None:
        """`value` if it is an id of `table`, else None."""
        return value if table_of(value) == table else None

    @property
    def system(self) -> "SystemReader":
        """The system tables."""
        return SystemReader(self._unit, self._tenant, self._budget)


class Database(DatabaseReader):
    """Reading and writing documents: what mutations have."""

    def __init__(
        self, unit: UnitOfWork, tenant: TenantId, tables: Tables, budget: Budget, ids: IdMaker, now: Instant
    ) -> None:
        super().__init__(unit, tenant, tables, budget)
        self._ids = ids
        self._now = now

    def insert(self, table: str, fields: Mapping[str, Any]) -> str:
        """Write a new document; answers its id."""
        check_name(table)
        body = encode_document(fields)
        document_id = self._ids.make(table, self._now)
        self._budget.write()
        self._unit.put(self._tenant, document_id, body)
        for index in self._indexes(table):
            self._unit.put_entry(self._tenant, index.name, index.key(decode_document(body)), document_id)
        return document_id

    def patch(self, document_id: str, fields: Mapping[str, Any]) -> None:
        """Change some fields and keep the others; the value `UNSET` removes a field.

        Raises DocumentNotFound if the document does not exist.
        """
        old = self._existing(document_id, "patch")
        new = {key: value for key, value in {**old, **fields}.items() if value is not UNSET}
        self._rewrite(document_id, old, new)

    def replace(self, document_id: str, fields: Mapping[str, Any]) -> None:
        """Write all fields anew.

        Raises DocumentNotFound if the document does not exist.
        """
        self._rewrite(document_id, self._existing(document_id, "replace"), fields)

    def delete(self, document_id: str) -> None:
        """Remove the document.

        Raises DocumentNotFound if it does not exist.
        """
        old = self._existing(document_id, "delete")
        self._budget.write()
        self._unit.remove(self._tenant, document_id)
        for index in self._indexes(_table_of(document_id)):
            self._unit.remove_entry(self._tenant, index.name, index.key(old), document_id)

    def _existing(self, document_id: str, verb: str) -> Document:
        _table_of(document_id)
        self._budget.read()
        body = self._unit.get(self._tenant, document_id)
        if body is None:
            raise DocumentNotFound(f"{verb} of a document that does not exist: {document_id}")
        return decode_document(body)

    def _rewrite(self, document_id: str, old: Document, fields: Mapping[str, Any]) -> None:
        body = encode_document({key: value for key, value in fields.items() if key not in ("_id", "_creation_time")})
        self._budget.write()
        self._unit.put(self._tenant, document_id, body)
        for index in self._indexes(_table_of(document_id)):
            before, after = index.key(old), index.key(decode_document(body))
            if before != after:
                self._unit.remove_entry(self._tenant, index.name, before, document_id)
                self._unit.put_entry(self._tenant, index.name, after, document_id)

    def _indexes(self, table: str) -> tuple[Index, ...]:
        declared = self._tables.get(table)
        return () if declared is None else tuple(declared.indexes.values())


class SystemReader:
    """`ctx.db.system`: the system tables, read like any other. There is one: `_scheduled_functions`."""

    def __init__(self, unit: UnitOfWork, tenant: TenantId, budget: Budget) -> None:
        self._unit = unit
        self._tenant = tenant
        self._budget = budget

    def get(self, job_id: str) -> Document | None:
        """A scheduled function by the id that scheduling it answered, or None once its retention is over."""
        require_job_id(job_id)
        self._budget.read()
        job = self._unit.touch().get_job(JobId(job_id), tenant=self._tenant)
        return None if job is None else job_document(job)

    def query(self, table: str) -> DocumentQuery:
        """The documents of a system table, in the order of their creation."""
        if table != SYSTEM_JOBS:
            raise Misuse(f"no system table {table!r}; there is {SYSTEM_JOBS!r}")
        return DocumentQuery(_JobSource(self._unit, self._tenant, self._budget))


class _TableSource:
    """The documents of one table."""

    def __init__(self, unit: UnitOfWork, tenant: TenantId, name: str, table: Table | None, budget: Budget) -> None:
        self.name = name
        self._unit = unit
        self._tenant = tenant
        self._table = table
        self._budget = budget

    def index(self, name: str) -> Index:
        declared = {} if self._table is None else self._table.indexes
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none is declared"
            raise Misuse(
                f"table {self.name!r} has no index {name!r} (declared: {known}); "
                f'declare it with app.table("{self.name}", indexes={{"{name}": [...]}})'
            )
        return declared[name]

    def read(
        self, index: Index | None, bounds: tuple[bytes, bytes], after: list[str] | None, descending: bool, page: int
    ) -> Iterator[tuple[list[str], Document]]:
        if index is None:
            start = after[0] if after else None
            for stored in self._unit.scan_table(
                self._tenant, f"{self.name}_", after=start, descending=descending, page=page
            ):
                if table_of(stored.id) == self.name:  # `a_` is also the beginning of ids of a table `a_b`
                    self._budget.read()
                    yield [stored.id], _document(stored.id, stored.body)
            return
        place = (bytes.fromhex(after[0]), after[1]) if after else None
        low, high = bounds
        for key, stored in self._unit.scan_index(
            self._tenant, index.name, low=low, high=high, after=place, descending=descending, page=page
        ):
            self._budget.read()
            yield [key.hex(), stored.id], _document(stored.id, stored.body)


class _JobSource:
    """The scheduled functions of a tenant."""

    name = SYSTEM_JOBS

    def __init__(self, unit: UnitOfWork, tenant: TenantId, budget: Budget) -> None:
        self._unit = unit
        self._tenant = tenant
        self._budget = budget

    def index(self, name: str) -> Index:
        raise Misuse(f"the system table {SYSTEM_JOBS!r} has no index {name!r}: it is read by creation time")

    def read(
        self, index: Index | None, bounds: tuple[bytes, bytes], after: list[str] | None, descending: bool, page: int
    ) -> Iterator[tuple[list[str], Document]]:
        position = after[0] if after else None
        while True:
            jobs = self._unit.touch().list_jobs(
                JobFilter(tenant=self._tenant), limit=page, after=position, newest_first=descending
            )
            for job in jobs:
                self._budget.read()
                yield [job.id], job_document(job)
            if len(jobs) < page:
                return
            position = jobs[-1].id


def job_document(job: Job) -> Document:
    """A job as the system table shows it.

    `scheduled_time` is the time that was asked for and `completed_time` when it ended, in milliseconds since the
    epoch; `state` is `{"kind": ...}`, with the error's text where it failed.
    """
    state: dict[str, Any] = {"kind": job.visible_state.value}
    if job.visible_state is JobState.FAILED and job.error is not None:
        error = json.loads(job.error)
        state["error"] = f"{error['type']}: {error['message']}"
    document: Document = {
        "_id": job.id,
        "_creation_time": creation_time_ms(job.id),
        "name": job.name,
        "args": [json.loads(job.args)],
        "scheduled_time": job.requested_at,
        "state": state,
    }
    if job.completed_at is not None:
        document["completed_time"] = job.completed_at
    return document


def require_job_id(value: str) -> JobId:
    """`value` as the id of a job.

    Raises InvalidArguments if it is none.
    """
    table = table_of(value) if isinstance(value, str) else None
    if table != JOB_PREFIX:
        found = f"an id of table {table!r}" if table else "no id at all"
        raise InvalidArguments(f"the id must be one of the table {SYSTEM_JOBS!r}; {value!r} is {found}")
    return JobId(value)


def _table_of(document_id: str) -> str:
    table = table_of(document_id) if isinstance(document_id, str) else None
    if table is None:
        raise InvalidArguments(f"{document_id!r} is no id of a document")
    if table == JOB_PREFIX:
        raise InvalidArguments(
            f"{document_id!r} is an id of {SYSTEM_JOBS!r}: use ctx.db.system.get, ctx.scheduler.cancel"
        )
    return table


def _document(document_id: str, body: str) -> Document:
    document = decode_document(body)
    document["_id"] = document_id
    document["_creation_time"] = creation_time_ms(document_id)
    return document
