"""`app.db`: documents read and written outside of functions; each call is its own transaction.

It has the methods of `ctx.db`. A chain that begins with `query` is read in one transaction when it ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from evertick.app.documents.database import Database
from evertick.app.documents.queries import DocumentQuery, IndexRange, Predicate
from evertick.app.environment import Environment
from evertick.app.operations import Awaited, Blocking, OperationGroup, reads, writes
from evertick.app.run.run import TransactionRun
from evertick.app.transacting import Work
from evertick.base.ids import TenantId
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import FunctionUnit, UnitOfWork

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class DocumentOperations:
    """Operations on a tenant's documents, as work for a transaction."""

    environment: Environment
    tenant: TenantId

    def within(self, use: Callable[[Database], T]) -> Work[T]:
        """Work that uses the documents like a mutation."""

        def work(transaction: Transaction) -> T:
            e, unit = self.environment, UnitOfWork(transaction)
            now = e.clock.now()
            run = TransactionRun(clock=e.clock, name="app.db", tenant=self.tenant, now=now, unit=FunctionUnit(unit))
            result = use(Database(run, e.tables, e.ids))
            unit.flush()
            return result

        return work


@dataclass(frozen=True, slots=True)
class QueryOperations:
    """A chain on a tenant's documents: the steps that describe the documents to read."""

    documents: DocumentOperations
    begin: Callable[[Database], DocumentQuery]
    steps: tuple[Callable[[DocumentQuery], DocumentQuery], ...] = ()

    def within(self, use: Callable[[DocumentQuery], T]) -> Work[T]:
        """Work that reads the documents of the chain."""

        def read(db: Database) -> T:
            query = self.begin(db)
            for step in self.steps:
                query = step(query)
            return use(query)

        return self.documents.within(read)


def _on(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Work[R]]:
    """A method of `ctx.db`, of its system tables or of a chain, turned into an operation."""

    def operation(operations: Any, /, *args: P.args, **kwargs: P.kwargs) -> Work[R]:
        return operations.within(lambda target: method(target, *args, **kwargs))  # type: ignore[no-any-return]

    shown = signature(method)
    result = Callable[[Transaction], shown.return_annotation]  # type: ignore[name-defined]
    operation.__signature__ = shown.replace(return_annotation=result)  # type: ignore[attr-defined]
    operation.__doc__, operation.__name__ = method.__doc__, method.__name__
    return operation


class _Query(OperationGroup[QueryOperations]):
    """A chain that is read at its end: `first`, `unique`, `take`, `collect` or `paginate`."""

    def with_index(self, name: str, where: Callable[[IndexRange], IndexRange] | None = None, /, **equals: Any) -> Self:
        """Read in the order of an index, like `ctx.db.query(...).with_index`."""
        return self._then(lambda query: query.with_index(name, where, **equals))

    def filter(self, predicate: Predicate) -> Self:
        """Keep only documents for which `predicate(document)` is true."""
        return self._then(lambda query: query.filter(predicate))

    def order(self, direction: str) -> Self:
        """Set the order, `"asc"` (the default) or `"desc"`. It can be set once."""
        return self._then(lambda query: query.order(direction))

    first = reads(_on(DocumentQuery.first))
    unique = reads(_on(DocumentQuery.unique))
    take = reads(_on(DocumentQuery.take))
    collect = reads(_on(DocumentQuery.collect))
    paginate = reads(_on(DocumentQuery.paginate))

    def _then(self, step: Callable[[DocumentQuery], DocumentQuery]) -> Self:
        operations = self.operations
        return self.with_operations(replace(operations, steps=(*operations.steps, step)))


class OutsideQuery(Blocking[QueryOperations], _Query):
    """A chain that blocks until it is read."""


class AsyncQuery(Awaited[QueryOperations], _Query):
    """A chain whose end is awaited."""


class _Documents(OperationGroup[DocumentOperations]):
    """A tenant's documents."""

    get = reads(_on(Database.get))
    insert = writes(_on(Database.insert))
    patch = writes(_on(Database.patch))
    replace = writes(_on(Database.replace))
    delete = writes(_on(Database.delete))

    @staticmethod
    def _begin(table: str) -> Callable[[Database], DocumentQuery]:
        """The begin of a chain: a table of documents, or a system table."""
        system = isinstance(table, str) and table.startswith("_")
        return lambda db: db.system.query(table) if system else db.query(table)


class Documents(Blocking[DocumentOperations], _Documents):
    """`app.db`: documents; each call is its own transaction."""

    def query(self, table: str) -> OutsideQuery:
        """The documents of a table, or of a system table such as `_scheduled_functions`."""
        return OutsideQuery(QueryOperations(self.operations, self._begin(table)), self.read, self.write)


class AsyncDocuments(Awaited[DocumentOperations], _Documents):
    """`app.aio.db`: like `Documents`, but every call is awaited."""

    def query(self, table: str) -> AsyncQuery:
        """The documents of a table, or of a system table such as `_scheduled_functions`."""
        return AsyncQuery(QueryOperations(self.operations, self._begin(table)), self.read, self.write)
