"""Staging: what one run of a script has written and read so far.

A script runs outside of transactions, possibly for seconds. Its reads are short transactions in which it sees its own
writes. Its writes are buffered until `write`, called in the transaction that ends its job. Documents and values
that the run has read and now changes must be unchanged by then (`is_current`); otherwise the script runs again.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from evertick.app.environment import Environment
from evertick.app.execution.contexts import MutationCtx
from evertick.app.run.run import Budget, TransactionRun
from evertick.base.errors import Conflict, EvertickError, Unavailable
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.base.scheduled_run import ScheduledRun
from evertick.engine.runtime.executors import retry_conflicts
from evertick.sandbox.protocol import NOWHERE, HostError, Json, Outcome, Place, StopRun
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import FunctionUnit, UnitOfWork

T = TypeVar("T")


class _Watching:
    """A transaction that records a fingerprint of each document when it is first read."""

    def __init__(self, transaction: Transaction, seen: dict[str, int]) -> None:
        self._inner = transaction
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_document(self, document_id: str, *, tenant: TenantId) -> str | None:
        body = self._inner.get_document(document_id, tenant=tenant)
        self._seen.setdefault(document_id, hash(body))
        return body

    def scan_documents(self, tenant: TenantId, **where: Any) -> list[StoredDocument]:
        found = self._inner.scan_documents(tenant, **where)
        for document in found:
            self._seen.setdefault(document.id, hash(document.body))
        return found

    def scan_index(self, part: IndexPart, *, after: IndexPosition, limit: int) -> list[tuple[bytes, StoredDocument]]:
        found = self._inner.scan_index(part, after=after, limit=limit)
        for _, document in found:
            self._seen.setdefault(document.id, hash(document.body))
        return found


class _StagedUnit(UnitOfWork):
    """A unit of work that is never flushed: it is an overlay over one reading transaction after another."""

    def __init__(self) -> None:
        super().__init__(cast("Transaction", None))
        self.seen: dict[str, int] = {}

    def read_from(self, transaction: Transaction) -> None:
        self._transaction = cast("Transaction", _Watching(transaction, self.seen))

    def flush_to_db(self) -> Transaction:
        """The database without the staged writes: direct queries (SQL, schedules) see only committed data."""
        return self._transaction

    def _shrink_overlay(self) -> None:
        """Do nothing: the plan limits what is staged."""

    def is_current(self, transaction: Transaction) -> bool:
        changed = [key for key in self._documents if key[1] in self.seen]
        return all(
            hash(transaction.get_document(document_id, tenant=tenant)) == self.seen[document_id]
            for tenant, document_id in changed
        )

    def write_to(self, unit: UnitOfWork) -> None:
        for (tenant, document_id), body in self._documents.items():
            if body is None:
                unit.remove(tenant, document_id)
            else:
                unit.put(tenant, document_id, body)
        for (tenant, index_name, key, document_id), present in self._entries.items():
            change = unit.put_entry if present else unit.remove_entry
            change(tenant, index_name, key, document_id)


class _Budget(Budget):
    """Counts what a run reads and writes; a run that exceeds its plan is ended."""

    __slots__ = ("_reads_max", "_writes_max")

    def __init__(self, reads: int, writes: int) -> None:
        super().__init__()
        self._reads_max = reads
        self._writes_max = writes

    def read(self) -> None:
        self._reads += 1
        if self._reads > self._reads_max:
            raise StopRun(Outcome.LIMIT, "reads", f"the script read more than {self._reads_max:,} documents")

    def write(self) -> None:
        self._writes += 1
        if self._writes > self._writes_max:
            raise StopRun(Outcome.LIMIT, "writes", f"the script wrote more than {self._writes_max:,} times")


class EffectFailed(Exception):
    """A staged effect cannot be carried out: a mutation has raised, or a quota is used up. The cause has the reason."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name)
        self.place = place
        """Where the script called the function."""


class Staging:
    """The staged writes of one try of a run. All of them belong to the run's tenant."""

    def __init__(
        self, environment: Environment, *, tenant: TenantId, job_id: JobId, now: Instant, attempt: int,
        schedule: ScheduledRun | None, reads: int, writes: int, keys: int,
    ) -> None:  # fmt: skip
        self.environment = environment
        self.tenant = tenant
        self._unit = _StagedUnit()
        self.run = TransactionRun(
            clock=environment.clock, name=SCRIPT_FUNCTION, tenant=tenant, now=now, job_id=job_id, attempt=attempt,
            schedule=schedule, unit=FunctionUnit(self._unit), _budget=_Budget(reads, writes),
        )  # fmt: skip
        self._keys_max = keys
        self._values: dict[str, str | None] = {}
        self._seen_values: dict[str, str | None] = {}
        self._values_place = NOWHERE
        self._effects: list[tuple[str, Callable[[MutationCtx], object], Place]] = []
        self.is_unavailable = False
        """Whether the database did not respond to a read; the run is then repeated."""

    @property
    def writes(self) -> int:
        """The number of staged writes."""
        return self.run.budget.writes

    def described(self) -> list[dict[str, Any]]:
        """The staged writes as JSON, for the result of a test."""
        found: list[dict[str, Any]] = []
        for (_, document_id), body in self._unit._documents.items():
            kind = "delete" if body is None else "update" if document_id in self._unit.seen else "insert"
            found.append({"kind": kind, "id": document_id, "document": None if body is None else json.loads(body)})
        found += [
            {"kind": "kv.delete" if text is None else "kv.set", "key": key, "value": json.loads(text or "null")}
            for key, text in self._values.items()
        ]
        return found + [{"kind": name} for name, *_ in self._effects]

    # -- reading

    def read(self, question: Callable[[Transaction], T]) -> T:
        """Read in a transaction, with the staged writes as an overlay. Raises StopRun if the database is down."""

        def work(transaction: Transaction) -> T:
            self._unit.read_from(transaction)
            return question(transaction)

        e = self.environment
        try:
            return retry_conflicts(lambda: e.store.read(work), e.entropy, sleep=e.sleep)
        except (Conflict, Unavailable) as error:
            self.is_unavailable = True
            raise StopRun(Outcome.INTERNAL, None, f"the database could not be read: {error}") from error

    def value(self, key: str) -> str | None:
        """A value by its key, as JSON text; None if there is none."""
        if key in self._values:
            return self._values[key]
        found = self.read(lambda transaction: transaction.get_script_value(key, tenant=self.tenant))
        self._seen_values.setdefault(key, found)
        return found

    # -- writing

    def put_value(self, key: str, text: str | None, place: Place) -> None:
        """Stage a value, or with None its removal."""
        self.run.budget.write()
        self._values_place = place
        self._values[key] = text

    def add(self, name: str, effect: Callable[[MutationCtx], object], place: Place) -> None:
        """Stage an effect, which gets a mutation's context after documents and values were written."""
        self.run.budget.write()
        self._effects.append((name, effect, place))

    def is_current(self, transaction: Transaction) -> bool:
        """Whether the data that the run has read and now changes is still the same in the database. Values that it only
        wrote are not compared.
        """
        return self._unit.is_current(transaction) and all(
            transaction.get_script_value(key, tenant=self.tenant) == seen
            for key, seen in self._seen_values.items()
            if key in self._values
        )

    def write(self, transaction: Transaction) -> None:
        """Write everything. Raises EffectFailed, and errors of the database; the caller then rolls back."""
        unit = UnitOfWork(transaction)
        self._unit.write_to(unit)
        now = self.run.now
        self._write_values(transaction)
        for name, effect, place in self._effects:
            run = TransactionRun(
                clock=self.environment.clock, name=SCRIPT_FUNCTION, tenant=self.tenant, now=now,
                job_id=self.run.job_id, attempt=self.run.attempt, schedule=self.run.schedule, unit=FunctionUnit(unit),
            )  # fmt: skip
            try:
                effect(MutationCtx(self.environment, run))
            except Exception as error:
                internal = unit.explain(error)
                if internal is not None:
                    raise internal from error
                raise EffectFailed(name, place) from error
            finally:
                run.unit.close()
        unit.flush()

    def _write_values(self, transaction: Transaction) -> None:
        kept = [key for key, text in self._values.items() if text is not None]
        is_more = any(transaction.get_script_value(key, tenant=self.tenant) is None for key in kept)
        for key, text in self._values.items():
            transaction.put_script_value(key, text, tenant=self.tenant, now=self.run.now)
        if is_more and transaction.count_script_values(self.tenant) > self._keys_max:
            message = f"ctx.kv stores up to {self._keys_max:,} keys of a tenant; delete some first"
            raise EffectFailed("kv.set", self._values_place) from StopRun(Outcome.LIMIT, "keys", message)


def plain(value: Any) -> Json:
    """A document or another value as JSON; a datetime becomes text."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")


def as_host_error(error: EvertickError) -> HostError:
    """The error of a host call, which the script may catch."""
    return HostError(str(error), error.code)
