"""Staging: what one run of a script has written so far, and what it has read.

A script runs outside of any transaction, for seconds maybe. Its reads are short transactions, in which it sees its own
writes; its writes wait here until `write`, which is called in the transaction that ends its job. Documents and values
that the run has read and now changes must be what they were then (`is_current`); otherwise the script runs again.
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
    """A transaction that remembers how documents looked when they were read first, as a fingerprint of each."""

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
    """A unit of work that is never written down itself: it lies over one reading transaction after the other."""

    def __init__(self) -> None:
        super().__init__(cast("Transaction", None))
        self.seen: dict[str, int] = {}

    def read_from(self, transaction: Transaction) -> None:
        self._transaction = cast("Transaction", _Watching(transaction, self.seen))

    def flush_to_db(self) -> Transaction:
        """The database without what is staged: what asks it directly (SQL, schedules) sees the last commit."""
        return self._transaction

    def _shrink_overlay(self) -> None:
        """What is staged is bounded by the plan."""

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
    """Counts what a run reads and writes; beyond its plan the run is ended."""

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
    """What a script has staged cannot be done: a mutation has raised, a quota is used up. The cause says what."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name)
        self.place = place
        """Where the script has called the function."""


class Staging:
    """What one try of a run has staged. All of it concerns the run's tenant."""

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
        """Whether the database did not respond to a read; then the run is repeated."""

    @property
    def writes(self) -> int:
        """How much is staged."""
        return self.run.budget.writes

    def described(self) -> list[dict[str, Any]]:
        """What is staged, for people: a test shows it."""
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
        """Ask the database in a transaction, over which what is staged lies. Raises StopRun if it does not respond."""

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
        """A value by its key, as JSON text."""
        if key in self._values:
            return self._values[key]
        found = self.read(lambda transaction: transaction.get_script_value(key, tenant=self.tenant))
        self._seen_values.setdefault(key, found)
        return found

    # -- writing

    def put_value(self, key: str, text: str | None, place: Place) -> None:
        """Keep a value, or remove it."""
        self.run.budget.write()
        self._values_place = place
        self._values[key] = text

    def add(self, name: str, effect: Callable[[MutationCtx], object], place: Place) -> None:
        """Do something with the context of a mutation, after the documents and values were written."""
        self.run.budget.write()
        self._effects.append((name, effect, place))

    def is_current(self, transaction: Transaction) -> bool:
        """Whether what the run read and changes is still as it was read. A value that it only wrote need not be."""
        return self._unit.is_current(transaction) and all(
            transaction.get_script_value(key, tenant=self.tenant) == seen
            for key, seen in self._seen_values.items()
            if key in self._values
        )

    def write(self, transaction: Transaction) -> None:
        """Write everything down. Raises EffectFailed, and errors of the database, after which nothing is kept."""
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
            message = f"ctx.kv keeps {self._keys_max:,} keys of a tenant; delete some first"
            raise EffectFailed("kv.set", self._values_place) from StopRun(Outcome.LIMIT, "keys", message)


def plain(value: Any) -> Json:
    """A document or another value as JSON has it: a datetime is text."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")


def as_host_error(error: EvertickError) -> HostError:
    """An error of a call, which the script may catch."""
    return HostError(str(error), error.code)
