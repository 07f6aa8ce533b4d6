"""`ctx.db`: documents in tables, inside the transaction of the function that asks.

Writes are buffered in the unit of work, and reads see the buffer. The function sees its own writes at once; others see
them after the commit. If the function raises, they are discarded.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from evertick.app.documents.queries import HIGHEST_ID, UNSET, Bounds, Document, DocumentQuery
from evertick.app.documents.tables import (
    BUILT_IN,
    SYSTEM_JOBS,
    Index,
    Table,
    built_in_index,
    check_name,
    decode_document,
    encode_document,
    require_job_id,
    table_named_in,
)
from evertick.app.paging import page_of_jobs
from evertick.app.run.run import TransactionRun
from evertick.base.errors import DocumentNotFound, InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, IdMaker, JobId, creation_time_ms
from evertick.base.records.documents import IndexPart
from evertick.base.records.jobs import Job, JobFilter, JobState


class Tables(Protocol):
    """The declared tables."""

    def get(self, name: str, /) -> Table | None:
        """The table's declaration, or None if it was not declared."""
        ...


class DatabaseReader:
    """Reads documents; the `ctx.db` of queries."""

    if not TYPE_CHECKING:  # to a type checker these attributes do not exist

        def __getattr__(self, name: str) -> Any:
            if name in ("insert", "patch", "replace", "delete"):
                raise AttributeError(f"a query only reads and has no ctx.db.{name}; make this function a mutation")
            return object.__getattribute__(self, name)  # raises what it raised

    def __init__(self, run: TransactionRun, tables: Tables) -> None:
        self._run = run
        self._unit = run.unit
        self._tenant = run.tenant
        self._budget = run.budget
        self._tables = tables

    def get(self, document_id: str) -> Document | None:
        """The document, or None if it does not exist.

        Raises InvalidArguments if `document_id` is not an id of a document.
        """
        _table_of(document_id)
        self._budget.read()
        body = self._unit.get(self._tenant, document_id)
        return None if body is None else _document(document_id, body)

    def query(self, table: str) -> DocumentQuery:
        """The documents of a table; see `DocumentQuery` for how to choose among them."""
        if isinstance(table, str) and table.startswith("_"):
            raise Misuse(f"{table!r} is a system table: read it with ctx.db.system.query({table!r})")
        check_name(table)
        return DocumentQuery(_TableSource(self._run, table, self._tables.get(table)))

    def normalize_id(self, table: str, value: str) -> str | None:
        """`value` if it is an id of `table`, else None. For ids of system tables use `ctx.db.system`."""
        return value if table != JOB_PREFIX and table_named_in(value) == table else None

    @property
    def system(self) -> "SystemReader":
        """The system tables."""
        return SystemReader(self._run)


class Database(DatabaseReader):
    """Reads and writes documents; the `ctx.db` of mutations."""

    def __init__(self, run: TransactionRun, tables: Tables, ids: IdMaker) -> None:
        super().__init__(run, tables)
        self._ids = ids

    def insert(self, table: str, fields: Mapping[str, Any]) -> str:
        """Write a new document and return its id.

        Raises InvalidArguments for fields that cannot be stored, ValueTooLarge if the document exceeds the size limit.
        """
        check_name(table)
        body = encode_document(_given(fields))
        entries = self._entries(table, decode_document(body)) if self._indexes(table) else ()
        document_id = self._ids.make(table, self._run.now)
        self._budget.write()
        self._unit.add(self._tenant, document_id, body)
        for name, key in entries:
            self._unit.put_entry(self._tenant, name, key, document_id)
        return document_id

    def patch(self, document_id: str, fields: Mapping[str, Any]) -> None:
        """Change some fields and keep the others; the value `UNSET` removes a field.

        Raises DocumentNotFound if the document does not exist, InvalidArguments if `fields` has another `_id`.
        """
        _check_fields(fields)
        old = self._existing(document_id, "patch")
        self._rewrite(document_id, old, {**old, **fields})

    def replace(self, document_id: str, fields: Mapping[str, Any]) -> None:
        """Replace all fields. `fields` may contain the document's own `_id` and `_creation_time`, as they were read.

        Raises DocumentNotFound if the document does not exist, InvalidArguments if `fields` has another `_id`.
        """
        _check_fields(fields)
        self._rewrite(document_id, self._existing(document_id, "replace"), fields)

    def delete(self, document_id: str) -> None:
        """Remove the document.

        Raises DocumentNotFound if it does not exist.
        """
        old = self._existing(document_id, "delete")
        self._budget.write()
        self._unit.remove(self._tenant, document_id)
        for name, key in self._entries(_table_of(document_id), old):
            self._unit.remove_entry(self._tenant, name, key, document_id)

    def _existing(self, document_id: str, verb: str) -> Document:
        _table_of(document_id)
        self._budget.read()
        body = self._unit.get(self._tenant, document_id)
        if body is None:
            raise DocumentNotFound(f"{verb} of a document that does not exist: {document_id}")
        return decode_document(body)

    def _rewrite(self, document_id: str, old: Document, fields: Mapping[str, Any]) -> None:
        body = encode_document(_given(_own(document_id, fields)))
        table = _table_of(document_id)
        before = self._entries(table, old)
        after = self._entries(table, decode_document(body)) if before else ()
        self._budget.write()
        self._unit.put(self._tenant, document_id, body)
        for (name, old_key), (_, new_key) in zip(before, after, strict=True):
            if old_key != new_key:
                self._unit.remove_entry(self._tenant, name, old_key, document_id)
                self._unit.put_entry(self._tenant, name, new_key, document_id)

    def _entries(self, table: str, document: Document) -> list[tuple[str, bytes]]:
        """The keys of a document in the indexes of its table. Called before anything is written, because it may raise:
        a function that catches the error continues with the document and its entries unchanged.
        """
        return [(index.name, index.key(document)) for index in self._indexes(table)]

    def _indexes(self, table: str) -> tuple[Index, ...]:
        declared = self._tables.get(table)
        return () if declared is None else tuple(declared.indexes.values())


class SystemReader:
    """`ctx.db.system`: the system tables, read like other tables. There is one: `_scheduled_functions`."""

    def __init__(self, run: TransactionRun) -> None:
        self._run = run

    def get(self, job_id: str) -> Document | None:
        """The scheduled function with the id that `run_after` or `run_at` returned; None once its retention is over."""
        require_job_id(job_id)
        self._run.budget.read()
        job = self._run.unit.flush_to_db().get_job(JobId(job_id), tenant=self._run.tenant)
        return None if job is None else job_document(job)

    def query(self, table: str) -> DocumentQuery:
        """The documents of a system table, in the order of creation."""
        if table != SYSTEM_JOBS:
            raise Misuse(f"no system table {table!r}; the only one is {SYSTEM_JOBS!r}")
        return DocumentQuery(_JobSource(self._run))

    def normalize_id(self, table: str, value: str) -> str | None:
        """`value` if it is an id of the system table, else None."""
        return value if table == SYSTEM_JOBS and table_named_in(value) == JOB_PREFIX else None


class _TableSource:
    """A source of the documents of one table."""

    def __init__(self, run: TransactionRun, name: str, table: Table | None) -> None:
        self.name = name
        self._run = run
        self._table = table

    @property
    def id_prefix(self) -> str:
        return self.name

    def index(self, name: str) -> Index:
        built_in = built_in_index(self.name, name)
        if built_in is not None:
            return built_in
        declared = {} if self._table is None else self._table.indexes
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none is declared"
            raise Misuse(
                f"table {self.name!r} has no index {name!r} (declared: {known}); "
                f'declare it with app.table("{self.name}", indexes={{"{name}": [...]}})'
            )
        return declared[name]

    def read(
        self, index: Index | None, bounds: Bounds, after: list[str] | None, descending: bool, page: int
    ) -> Iterator[tuple[list[str], Document]]:
        if index is None or index.built_in:
            start = _start(f"{self.name}_", after, bounds, descending)
            for stored in self._run.unit.scan_table(
                self._run.tenant, f"{self.name}_", after=start, descending=descending, page=page
            ):
                if _is_beyond(stored.id, bounds, descending):
                    return
                self._run.budget.read()
                yield [stored.id], _document(stored.id, stored.body)
            return
        place = (bytes.fromhex(after[0]), after[1]) if after else None
        if place is None and bounds != Bounds(low=bounds.low, high=bounds.high):
            # Creation time can be bounded only after all fields are given, so the range is one key.
            place = (bounds.low, bounds.below if descending else bounds.above)
        part = IndexPart(self._run.tenant, index.name, bounds.low, bounds.high, descending)
        for key, stored in self._run.unit.scan_index(part, after=place, page=page):
            if _is_beyond(stored.id, bounds, descending):
                return
            self._run.budget.read()
            yield [key.hex(), stored.id], _document(stored.id, stored.body)


class _JobSource:
    """A source of the scheduled functions of a tenant."""

    name = SYSTEM_JOBS
    id_prefix = JOB_PREFIX

    def __init__(self, run: TransactionRun) -> None:
        self._run = run

    def index(self, name: str) -> Index:
        built_in = built_in_index(SYSTEM_JOBS, name)
        if built_in is None:
            known = " and ".join(BUILT_IN)
            raise Misuse(f"the system table {SYSTEM_JOBS!r} has no index {name!r}; it has {known}")
        return built_in

    def read(
        self, index: Index | None, bounds: Bounds, after: list[str] | None, descending: bool, page: int
    ) -> Iterator[tuple[list[str], Document]]:
        position: str | None = _start(f"{JOB_PREFIX}_", after, bounds, descending)
        while True:
            transaction, where = self._run.unit.flush_to_db(), JobFilter(tenant=self._run.tenant)
            jobs, position = page_of_jobs(transaction, where, limit=page, after=position, newest_first=descending)
            for job in jobs:
                if _is_beyond(job.id, bounds, descending):
                    return
                self._run.budget.read()
                yield [job.id], job_document(job)
            if position is None:
                return


def _start(prefix: str, after: list[str] | None, bounds: Bounds, descending: bool) -> str:
    """The id after which to read: that of the cursor or of the range, within the table."""
    if descending:
        return min(prefix + HIGHEST_ID, bounds.below, after[0] if after else HIGHEST_ID)
    return max(prefix, bounds.above, after[0] if after else "")


def _is_beyond(row_id: str, bounds: Bounds, descending: bool) -> bool:
    """Whether this id lies beyond the end of the range."""
    return row_id <= bounds.above if descending else row_id >= bounds.below


def job_document(job: Job) -> Document:
    """A job as the system table shows it.

    `scheduled_time` is the requested time and `completed_time` when it ended, in milliseconds since the epoch. `state`
    is `{"kind": ...}`. If it failed, the state has the error's text, and the data of an ApplicationError.
    """
    state: dict[str, Any] = {"kind": job.visible_state.value}
    if job.visible_state is JobState.FAILED and job.error is not None:
        error = job.error.value
        state["error"] = error.text
        if error.data is not None:
            state["error_data"] = json.loads(error.data)
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


def _check_fields(fields: Mapping[str, Any]) -> None:
    if not isinstance(fields, Mapping):
        raise InvalidArguments(f"the fields of a document must be a dict, not {type(fields).__name__}")


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    _check_fields(fields)
    return {key: value for key, value in fields.items() if value is not UNSET}


def _own(document_id: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields without `_id` and `_creation_time`. Raises InvalidArguments if these are not the document's own."""
    for key, kept in (("_id", document_id), ("_creation_time", creation_time_ms(document_id))):
        if key in fields and fields[key] != kept:
            raise InvalidArguments(f"{key} of {document_id} cannot be changed to {fields[key]!r}; leave it out")
    return {key: value for key, value in fields.items() if key not in ("_id", "_creation_time")}


def _table_of(document_id: str) -> str:
    table = table_named_in(document_id)
    if table is None:
        raise InvalidArguments(f"{document_id!r} is not an id of a document")
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
