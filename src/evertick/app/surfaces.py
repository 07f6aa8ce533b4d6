"""Surfaces: one list of operations, called from blocking and from `async` code.

An operation is a function `(operations, ...) -> Work`: given what it needs, it returns work for a transaction. A
surface lists each of them once, as a descriptor: read from a blocking surface it is a function that returns the
result, read from an awaited one it is a function that returns a coroutine. Type checkers see the operation's own
parameters in both. Where the operations are a class of their own, they are marked there: read from the operations, one
is the plain function, and a surface has the class among its bases.
"""

import re
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import Parameter, formatannotation, signature
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, overload

from evertick.app.transacting import Page, Transact, TransactAsync, Work, in_pages, in_pages_async
from evertick.base.errors import NotDeterministic
from evertick.base.escaping import Verbatim
from evertick.base.options import spread
from evertick.rules.workflows.event_loop import DeterministicLoop, running_loop

O = TypeVar("O")
P = ParamSpec("P")
T = TypeVar("T")


class InThread(Generic[P, T]):
    """A method of a blocking object that its awaited twin calls in a thread; the twin has both as `blocking` and
    `executors`.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, twin: Any, owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(self._method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            found: T = await twin.executors.call(lambda: self._method(twin.blocking, *args, **kwargs))
            return found

        return call


class Surface(Generic[O]):
    """What all surfaces share: the operations, and where they run."""

    read: Any
    write: Any
    _progress: Callable[[int], object] | None = None

    def __init__(self, operations: O) -> None:
        self.operations = operations
        """The operations as plain functions that return work for a transaction."""

    def with_operations(self, operations: O) -> Self:
        """The same surface over other operations."""
        copy = self._copy()
        copy.operations = operations
        return copy

    def with_progress(self, progress: Callable[[int], object]) -> Self:
        """The same surface, whose operations on many tell how many are done so far, after each page of them.

            app.jobs.with_progress(print).cancel_all(function=send)

        An exception that `progress` raises ends the operation; what is done stays done.
        """
        copy = self._copy()
        copy._progress = progress
        return copy

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy


class Blocking(Surface[O]):
    """Operations that return when they are done. `read` runs questions, `write` changes."""

    def __init__(self, operations: O, read: Transact, write: Transact) -> None:
        super().__init__(operations)
        self.read: Transact = read
        self.write: Transact = write

    def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the sum of the counts."""
        return in_pages(self.write, page, self._progress)


class Awaited(Surface[O]):
    """Operations that are awaited."""

    def __init__(self, operations: O, read: TransactAsync, write: TransactAsync) -> None:
        super().__init__(operations)
        self.read: TransactAsync = read
        self.write: TransactAsync = write

    async def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the sum of the counts."""
        return await in_pages_async(self.write, page, self._progress)


class Operation(Generic[P, T]):
    """An operation of a surface. `run` is where the surface runs it: `read`, `write` or `write_pages`."""

    def __init__(self, operation: Callable[..., Any], run: str) -> None:
        self._operation = operation
        self._run = run
        self.__doc__ = operation.__doc__
        # What surfaces fill in themselves: the operations, and the id after which a page begins.
        own = 2 if run == "write_pages" else 1
        given = signature(operation)
        result = int if own == 2 else get_args(given.return_annotation)[1]  # of `Work`, what the work returns
        parameters = [each for one in list(given.parameters.values())[own:] for each in shown(one)]
        self._signature = given.replace(parameters=parameters, return_annotation=shown_kind(result))

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, surface: Blocking[Any], owner: type, /) -> Callable[P, T]: ...
    @overload
    def __get__(self, surface: Awaited[Any], owner: type, /) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, surface: None, owner: type, /) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, surface: object, owner: type, /) -> Callable[P, Work[T]]: ...

    def __get__(self, surface: object, owner: type, /) -> Any:
        if surface is not None and not isinstance(surface, Surface):
            return partial(self._operation, surface)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(*args, **kwargs) if surface is None else self._call(surface, *args, **kwargs)

        wraps(self._operation)(call).__signature__ = self._signature  # type: ignore[attr-defined]
        call.__name__ = call.__qualname__ = self._name
        return call

    def _call(self, surface: Surface[Any], /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(running_loop(), DeterministicLoop):
            raise NotDeterministic(
                f"{self._name}() asks the database, which has another answer in every replay: put the call into a "
                "query, a mutation or an action, and call step.run(...)"
            )
        run, operations = getattr(surface, self._run), surface.operations
        if self._run == "write_pages":
            return run(lambda after: self._operation(operations, after, *args, **kwargs))
        return run(self._operation(operations, *args, **kwargs))


def reads(question: Callable[Concatenate[O, P], Work[T]]) -> Operation[P, T]:
    """A question."""
    return Operation(question, "read")


def writes(operation: Callable[Concatenate[O, P], Work[T]]) -> Operation[P, T]:
    """A change, in one transaction."""
    return Operation(operation, "write")


def writes_pages(operation: Callable[Concatenate[O, str, P], Work[Page]]) -> Operation[P, int]:
    """A change in pages, each a transaction; returns the sum of their counts."""
    return Operation(operation, "write_pages")


def shown(parameter: Parameter) -> list[Parameter]:
    """A parameter as `help()` shows it; `**where` as the names of the filters."""
    return [each.replace(annotation=shown_kind(each.annotation)) for each in spread(parameter)]


def shown_kind(annotation: Any) -> Verbatim:
    """A type without its modules: `datetime | None`."""
    return Verbatim(re.sub(r"\b[a-z_]+\.", "", formatannotation(annotation)))
