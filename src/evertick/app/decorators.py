"""Decorators: `@app.query`, `@app.mutation` and `@app.action`, which register functions."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, overload

from evertick.app.execution.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx
from evertick.app.functions.events import declared_events
from evertick.app.functions.function import Action, Function, Mutation, Query, Workflow
from evertick.app.limits.declared import DeclaredPools, Pool, PoolDeclaration, limits_of
from evertick.app.registry import Registry
from evertick.base.errors import RegistrationError
from evertick.base.ids import DEFAULT_POOL, check_pool, full_pool
from evertick.base.instants import HORIZON_MS
from evertick.base.options import FLAG, Rule, check_names, check_options, duration_within, shows, some, takes, text
from evertick.base.records.limits import PoolLimits

if TYPE_CHECKING:
    from evertick.rules.workflows.step import Step

NAME_CHARS_MAX: Final = 500
P = ParamSpec("P")
R = TypeVar("R")

NAME: Final = text(NAME_CHARS_MAX, printable=True)
RULES: Final[Mapping[str, Rule]] = {
    "name": NAME,
    "internal": FLAG,
    "aliases": Rule(
        "a list of names, such as ['app.old_name']",
        lambda value: isinstance(value, list | tuple | set | frozenset) and all(map(NAME.fits, value)),
    ),
}
"""The rules for the options of functions, except the timeout, the pool and the events."""
_CONTEXTS: Final = {"query": "QueryCtx", "mutation": "MutationCtx", "action": "ActionCtx", "workflow": "Step"}
_OF_THREADS: Final = "SyncActionCtx"
_OF_ARGUMENTS: Final = frozenset({
    "bool", "bytes", "date", "datetime", "Decimal", "dict", "float", "frozenset", "int", "list", "set", "str",
    "timedelta", "tuple", "UUID",
})  # fmt: skip
"""Types of arguments: a first parameter of such a type is not a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """The options of `@app.query(...)`, `@app.mutation(...)` and `@app.action(...)`; `app.query` documents them."""

    name: str | None = None
    """The name under which jobs and schedules know the function; the default is `module.function`."""
    internal: bool = False
    """Whether it is not meant to be called from outside the app."""
    timeout: float | timedelta | None = None
    """Time one run may take, in seconds or as a timedelta; the default is in the app's `Settings`."""
    cpu_limit: float | timedelta | None = None
    """Processor time one run may use, not for actions; if only `timeout` is given, all of it."""
    pool: str = DEFAULT_POOL
    """The pool of the function's jobs, the default is `default`. A worker serves all pools by default."""
    aliases: Sequence[str] = ()
    """Former names of the function: jobs and schedules that were written under one of them run it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOptions(FunctionOptions):
    """The options of `@app.workflow(...)`; `app.query` and `app.workflow` document them."""

    events: Mapping[str, Any] | None = None
    """The events that it waits for, with the types of their values; it then accepts no other events."""


class _ActionDecorator(Protocol):
    """The result of `@app.action(...)`: a decorator for both kinds of actions."""

    @overload
    def __call__(self, handler: Callable[Concatenate[ActionCtx, P], Awaitable[R]], /) -> Action[P, R]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[SyncActionCtx, P], R], /) -> Action[P, R]: ...


class Decorators:
    """The decorators of an app, and the functions that they registered."""

    def __init__(self, name: str, aliases: Iterable[str] = ()) -> None:
        self.name = name
        self.aliases = tuple(aliases)
        self.functions = Registry()
        self.declared_pools = DeclaredPools()

    @takes(PoolDeclaration, "a pool")
    def pool(self, pool: PoolDeclaration) -> Pool:
        """Declare a pool with its limits, before the functions in it: `mail = app.pool("mail", running=5)`.

            mail = app.pool("mail", running=5, starts_per_minute=600, retry=Retry(3))

            @app.action(pool=mail)
            async def send(ctx: ActionCtx, address: str) -> None: ...

        - `running`, `per_tenant`, `per_key`, `starts_per_minute`: the same limits as in `app.pools.set`.
        - `retry`: the retry policy of actions in the pool, unless their caller sets one. Mutations need none: they are
          retried when the database requires it, and their effects are exactly once.

        A worker writes the limits at its start if the declaration is new or has changed. A change at run time, by
        `app.pools.set` or `evertick pool set`, stays until the declaration changes again. If a declaration is removed
        from the code, the limits stay; remove them with `evertick pool delete`.

        Raises Misuse for a limit that is not a number, RegistrationError for a pool that is declared twice, or with
        `retry` after functions in it.
        """
        full = full_pool(self.name, pool.name)
        in_use = [each.name for each in self.functions if each.pool == full]
        if self._has_worker():
            import logging  # here, because the import of an app goes without it

            logging.getLogger("evertick.jobs").warning(
                "pool %s is declared after the worker of this program has started: its limits are written by "
                "app.sync_pools(), or at the next start of a worker", pool.name,
            )  # fmt: skip
        return self.declared_pools.add(Pool(pool.name, PoolLimits(**limits_of(pool)), pool.retry), in_use)

    def _has_worker(self) -> bool:
        """Whether a worker of this program runs, which has read the declarations."""
        return False

    @overload
    def query(self, handler: Callable[Concatenate[QueryCtx, P], R], /) -> Query[P, R]: ...
    @overload
    def query(
        self,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
        cpu_limit: float | timedelta | None = None,
        pool: str = DEFAULT_POOL,
        aliases: Sequence[str] = (),
    ) -> Callable[[Callable[Concatenate[QueryCtx, P], R]], Query[P, R]]: ...
    @shows(FunctionOptions)
    def query(self, handler: Any = None, /, **options: Any) -> Any:
        """Register a function that reads the database and changes nothing.

        It must be a plain `def` whose first parameter is a `QueryCtx`: a transaction does not wait for the network.

            @app.query
            def count(ctx: QueryCtx, author: str) -> int:
                return len(ctx.db.query("messages").with_index("by_author", author=author).collect())

        Options, as in `@app.query(timeout=2)`:

        - `name`: the name under which jobs and schedules know the function; by default `module.function`.
        - `internal=True`: the function is not meant to be called from outside the app.
        - `timeout`: the time that one run may take, including waits, in seconds or as a timedelta; by default
          `Settings.mutation_timeout`.
        - `cpu_limit`: the processor time that one run may use; by default `Settings.mutation_cpu_limit`, or all of
          `timeout` if only that is given.
        - `pool`, for mutations and actions: the pool of its jobs. `evertick worker --pool NAME` runs the jobs of one
          pool.
        - `aliases`: former names, such as `["app.old_name"]`. Jobs that were scheduled under a former name run this
          function, and runs of workflows that called it under that name continue.

        Raises RegistrationError for a function that cannot be registered, InvalidDelay for a timeout that is not a
        positive duration, Misuse for a pool that is not a name.
        """
        return self._decorate(Query, handler, options)

    @overload
    def mutation(self, handler: Callable[Concatenate[MutationCtx, P], R], /) -> Mutation[P, R]: ...
    @overload
    def mutation(
        self,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
        cpu_limit: float | timedelta | None = None,
        pool: str = DEFAULT_POOL,
        aliases: Sequence[str] = (),
    ) -> Callable[[Callable[Concatenate[MutationCtx, P], R]], Mutation[P, R]]: ...
    @shows(FunctionOptions)
    def mutation(self, handler: Any = None, /, **options: Any) -> Any:
        """Register a function that reads and writes the database, and schedules, all in one transaction.

        It must be a plain `def` whose first parameter is a `MutationCtx`. If it raises, all its changes are undone. If
        it conflicts with another transaction, it runs again, so it must have no other effects.

            @app.mutation
            def send(ctx: MutationCtx, body: str) -> str:
                message_id = ctx.db.insert("messages", {"body": body})
                ctx.scheduler.run_after(5, destruct, message_id)
                return message_id

        Takes the options of `query`, and raises the same errors.
        """
        return self._decorate(Mutation, handler, options)

    @overload
    def action(self, handler: Callable[Concatenate[ActionCtx, P], Awaitable[R]], /) -> Action[P, R]: ...
    @overload
    def action(self, handler: Callable[Concatenate[SyncActionCtx, P], R], /) -> Action[P, R]: ...
    @overload
    def action(
        self,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
        cpu_limit: float | timedelta | None = None,
        pool: str = DEFAULT_POOL,
        aliases: Sequence[str] = (),
    ) -> _ActionDecorator: ...
    @shows(FunctionOptions)
    def action(self, handler: Any = None, /, **options: Any) -> Any:
        """Register a function with side effects, such as a request to another service.

        An `async def` takes an `ActionCtx` and runs on the event loop; a plain `def` takes a `SyncActionCtx` and runs
        in a thread. An action that was started is started again only if a retry policy says so.

        Takes the options of `query` except `cpu_limit` (`timeout` defaults to `Settings.action_timeout`), and raises
        the same errors.
        """
        return self._decorate(Action, handler, options)

    @overload
    def workflow(self, handler: "Callable[Concatenate[Step, P], Awaitable[R]]", /) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
        cpu_limit: float | timedelta | None = None,
        pool: str = DEFAULT_POOL,
        aliases: Sequence[str] = (),
        events: Mapping[str, Any] | None = None,
    ) -> "Callable[[Callable[Concatenate[Step, P], Awaitable[R]]], Workflow[P, R]]": ...
    @shows(WorkflowOptions)
    def workflow(self, handler: Any = None, /, **options: Any) -> Any:
        """Register a function that runs step by step, across restarts and weeks of waiting.

        It must be an `async def` whose first parameter is a `Step`. All its effects go through steps. Between them its
        code must be deterministic, because after a restart it runs again up to the step where it was.

            @app.workflow
            async def onboard(step: Step, user: str) -> None:
                await step.run(create_account, user)
                await step.sleep(timedelta(days=3))
                await step.run(send_reminder, user)

        Takes the options of `query` (`timeout` and `cpu_limit` apply to the code between two steps), and raises the
        same errors. It also takes `events={"decision": Decision}`: the events that it waits for, with the types of
        their values, which are checked when they are sent and taken; it then accepts no other events.
        """
        return self._decorate(Workflow, handler, options)

    def _decorate(self, kind: type[Function[..., Any]], handler: Any, options: Mapping[str, Any]) -> Any:
        known = FunctionOptions if kind is not Workflow else WorkflowOptions
        check_names([each.name for each in fields(known)], options, f"@app.{kind.kind.value}")
        check_options(RULES, some(options), f"@app.{kind.kind.value}: ")
        timeout, pool = options.get("timeout"), options.get("pool", DEFAULT_POOL)
        timeout_ms, cpu_limit_ms = (
            None if limit is None else duration_within(limit, name, 1, HORIZON_MS)
            for name, limit in (("timeout", timeout), ("cpu_limit", options.get("cpu_limit")))
        )
        if cpu_limit_ms is not None and kind is Action:
            raise RegistrationError("an action has no limit of processor time; use timeout= instead of cpu_limit=")
        check_pool(pool)
        aliases = tuple(dict.fromkeys(options.get("aliases") or ()))
        if pool != DEFAULT_POOL and kind is Query:
            raise RegistrationError("a query is never a job, so it has no pool; remove pool=")

        def register(handler: Any) -> Function[..., Any]:
            if isinstance(handler, Function):
                article = "an" if isinstance(handler, Action) else "a"
                raise RegistrationError(f"{handler.name} is already registered as {article} {handler.kind.value}")
            if not callable(handler):
                raise RegistrationError(f"@app.{kind.kind.value} must decorate a function, not {handler!r}")
            name, internal = options.get("name"), options.get("internal", False)
            function = kind(
                handler,
                name=name,
                internal=internal,
                timeout_ms=timeout_ms,
                cpu_limit_ms=cpu_limit_ms,
                app_name=self.name,
            )
            function.pool, function.aliases = full_pool(self.name, pool), aliases
            if isinstance(function, Action):
                function.retry = self.declared_pools.retry_of(pool)
            if isinstance(function, Workflow):
                function.events = declared_events(function.name, options.get("events"))
            if isinstance(function, Workflow) and not function.is_async:
                raise RegistrationError(
                    f"{function.name} is a workflow; write it as an `async def` that awaits its steps"
                )
            if function.is_async and not isinstance(function, Action | Workflow):
                raise RegistrationError(
                    f"{function.name} is an `async def` {kind.kind.value}: a transaction must not wait for the "
                    "network, so write it as a plain `def`, or make it an action"
                )
            _check_context(function)
            self.functions.add(function)
            return function

        return register if handler is None else register(handler)


def _check_context(function: Function[..., Any]) -> None:
    """Raise RegistrationError if the first parameter is an argument, or the context of another kind of function."""
    first = next(iter(inspect.signature(function.handler).parameters.values()))
    annotation = first.annotation
    # Compared by name: with `from __future__ import annotations` the type may be imported only for type checkers.
    given = annotation.rpartition(".")[2] if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    in_thread = isinstance(function, Action) and not function.is_async
    wanted = _OF_THREADS if in_thread else _CONTEXTS[function.kind.value]
    fits = (wanted, "QueryCtx") if isinstance(function, Mutation) else (wanted,)
    if given.partition("[")[0] in _OF_ARGUMENTS or hasattr(annotation, "model_fields"):
        short = function.name.rpartition(".")[2]
        raise RegistrationError(
            f"{function.name} needs a parameter for its context before {first.name}: "
            f"def {short}(ctx: {wanted}, {first.name}: {given}, ...)"
        )
    if given in (*_CONTEXTS.values(), _OF_THREADS) and given not in fits:
        plain = "plain `def`" if in_thread else "function"
        raise RegistrationError(
            f"the context of {function.name} has the type {given}, but a {plain} under "
            f"@app.{function.kind.value} gets {wanted}"
        )
