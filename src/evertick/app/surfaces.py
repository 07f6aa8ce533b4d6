"""Surfaces: one list of operations for both blocking and `async` code.

An operation is a function `(operations, ...) -> Work`: it returns work for a transaction. A surface lists each of them
once, as a descriptor. On a blocking surface it is a function that returns the result. On an awaited surface it is a
function that returns a coroutine. Type checkers see the operation's own parameters in both. If the operations are a
class, they are marked there: on the operations themselves each is a plain function, and a surface inherits from the
class.
"""

import re
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import Parameter, formatannotation, signature
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, overload

from evertick.app.transacting import Page, Transact, TransactAsync, Work, in_pages, in_pages_async
from evertick.base.errors import NotDeterministic
from evertick.base.escaping import Verbatim
from evertick.rules.workflows.event_loop import DeterministicLoop, running_loop

O = TypeVar("O")
P = ParamSpec("P")
T = TypeVar("T")


class InThread(Generic[P, T]):
    """A method of a blocking object that its awaited counterpart calls in a thread; the counterpart has both as
    `blocking` and `executors`.
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
    """The common part of all surfaces: the operations, and how they run."""

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
        """The same surface; its operations on many things report how many are done so far, after each page.

            app.jobs.with_progress(print).cancel_all(function=send)

        An exception that `progress` raises ends the operation; what is done remains done.
        """
        copy = self._copy()
        copy._progress = progress
        return copy

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy


class Blocking(Surface[O]):
    """Operations that return when they are done. `read` runs reads, `write` runs changes."""

    def __init__(self, operations: O, read: Transact, write: Transact) -> None:
        super().__init__(operations)
        self.read: Transact = read
        self.write: Transact = write

    def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the total count."""
        return in_pages(self.write, page, self._progress)


class Awaited(Surface[O]):
    """Operations that are awaited."""

    def __init__(self, operations: O, read: TransactAsync, write: TransactAsync) -> None:
        super().__init__(operations)
        self.read: TransactAsync = read
        self.write: TransactAsync = write

    async def write_pages(self, page: Callable[[str], Work[Page]]) -> int:
        """Run a change page by page; returns the total count."""
        return await in_pages_async(self.write, page, self._progress)


class Operation(Generic[P, T]):
    """An operation of a surface. `run` is the name of the method that runs it: `read`, `write` or `write_pages`."""

    def __init__(self, operation: Callable[..., Any], run: str) -> None:
        self._operation = operation
        self._run = run
        self.__doc__ = operation.__doc__
        # The parameters that surfaces fill in: the operations, and the id after which a page begins.
        own = 2 if run == "write_pages" else 1
        shown = signature(operation)
        result = int if own == 2 else get_args(shown.return_annotation)[1]  # the result of the work in `Work[...]`
        parameters = [each for one in list(shown.parameters.values())[own:] for each in spread(one)]
        self._signature = shown.replace(parameters=parameters, return_annotation=shown_kind(result))

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
                f"{self._name}() reads the database, which may differ in every replay: put the call into a "
                "query, a mutation or an action, and call step.run(...)"
            )
        run, operations = getattr(surface, self._run), surface.operations
        if self._run == "write_pages":
            return run(lambda after: self._operation(operations, after, *args, **kwargs))
        return run(self._operation(operations, *args, **kwargs))


def reads(question: Callable[Concatenate[O, P], Work[T]]) -> Operation[P, T]:
    """Mark an operation that only reads."""
    return Operation(question, "read")


def writes(operation: Callable[Concatenate[O, P], Work[T]]) -> Operation[P, T]:
    """Mark an operation that changes data in one transaction."""
    return Operation(operation, "write")


def writes_pages(operation: Callable[Concatenate[O, str, P], Work[Page]]) -> Operation[P, int]:
    """Mark an operation that changes data in pages, each its own transaction; it returns the total count."""
    return Operation(operation, "write_pages")


def spread(parameter: Parameter) -> list[Parameter]:
    """A parameter as `help()` shows it; `**options` becomes the names of the options, explained in the docstring."""
    if parameter.kind is not Parameter.VAR_KEYWORD:
        return [parameter.replace(annotation=shown_kind(parameter.annotation))]
    names = get_args(parameter.annotation)[0].__annotations__
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=Verbatim("...")) for name in names]


def shown_kind(annotation: Any) -> Verbatim:
    """A type without its modules: `datetime | None`."""
    return Verbatim(re.sub(r"\b[a-z_]+\.", "", formatannotation(annotation)))
