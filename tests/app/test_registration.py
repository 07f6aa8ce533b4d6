"""What can be registered, and what is refused with the reason."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from evertick import ActionCtx, App, EvertickError, MutationCtx, QueryCtx, Step, SyncActionCtx
from evertick.base.errors import DatabaseLocked, InvalidDatabaseUrl, InvalidDelay, Misuse, RegistrationError
from tests.app.conftest import OpenApp


def test_an_async_mutation_or_query_is_refused_with_the_reason() -> None:
    app = App("test")

    async def waits(ctx: Any) -> None: ...

    for decorator in (app.mutation, app.query, app.mutation(internal=True), app.query(name="x")):
        with pytest.raises(RegistrationError, match=r"`async def`.*must not wait.*plain `def`, or make it an action"):
            decorator(waits)


def test_a_function_takes_the_context_of_its_kind() -> None:
    app = App("test")

    async def flow(ctx: MutationCtx) -> None: ...

    def step(ctx: "Step") -> None: ...

    def change(ctx: "evertick.MutationCtx") -> None: ...  # type: ignore[name-defined] # noqa: F821

    def in_thread(ctx: ActionCtx) -> None: ...

    async def awaits(ctx: SyncActionCtx) -> None: ...

    wrong: list[tuple[Any, Any, str]] = [
        (app.workflow, flow, "has the type MutationCtx, but a function under @app.workflow gets Step"),
        (app.mutation, step, "has the type Step, but a function under @app.mutation gets MutationCtx"),
        (app.query(name="q"), change, "has the type MutationCtx, but a function under @app.query gets QueryCtx"),
        (app.action, in_thread, "has the type ActionCtx, but a plain `def` under @app.action gets SyncActionCtx"),
        (app.action, awaits, "has the type SyncActionCtx, but a function under @app.action gets ActionCtx"),
    ]
    for decorator, function, says in wrong:
        with pytest.raises(RegistrationError, match=re.escape(says)):
            decorator(function)
    assert not list(app.functions)

    @app.mutation
    def reads(ctx: QueryCtx) -> None: ...


def test_a_function_without_a_context_is_refused_when_it_is_registered() -> None:
    """Real once: `add(x: int, y: int)` was registered, and calls of it failed with words about arguments."""
    app = App("test")

    def add(x: int, y: int) -> int:
        return x + y

    def total(items: "list[int]") -> int:
        return sum(items)

    class Order(BaseModel):
        id: int

    async def ship(order: Order) -> None: ...

    wrong: list[tuple[Any, Any, str]] = [
        (app.mutation, add, ".add needs a parameter for its context before x: def add(ctx: MutationCtx, x: int, ...)"),
        (app.query, total, "before items: def total(ctx: QueryCtx, items: list[int], ...)"),
        (app.action, ship, "before order: def ship(ctx: ActionCtx, order: Order, ...)"),
        (app.workflow, ship, "before order: def ship(ctx: Step, order: Order, ...)"),
    ]
    for decorator, function, says in wrong:
        with pytest.raises(RegistrationError, match=re.escape(says)):
            decorator(function)
    assert not list(app.functions)


def test_a_name_is_registered_once() -> None:
    app = App("test")

    @app.mutation
    def f(ctx: MutationCtx) -> None: ...

    def g(ctx: Any) -> None: ...

    with pytest.raises(RegistrationError, match=r"'.*\.f' is registered twice: .*test_registration.py:\d+ and .*name="):
        app.query(name=f.name)(g)
    with pytest.raises(RegistrationError, match="already registered as a mutation"):
        app.action(f)
    app.mutation(name="another name")(g)


@pytest.mark.parametrize("handler", [5, "f", None])
def test_what_is_no_function_with_a_context_is_refused(handler: Any) -> None:
    app = App("test")
    with pytest.raises((RegistrationError, TypeError)):
        app.mutation()(handler)


def test_a_function_needs_a_parameter_for_its_context() -> None:
    app = App("test")

    def nothing() -> None: ...
    def keyword_only(*, ctx: Any) -> None: ...

    handlers: list[Any] = [nothing, keyword_only]
    for handler in handlers:
        with pytest.raises(RegistrationError, match=r"needs a first parameter for its context: def \w+\(ctx, \.\.\.\)"):
            app.mutation(handler)


@pytest.mark.parametrize("timeout", [-1, float("nan"), timedelta(seconds=-1), "5"])
def test_a_timeout_that_cannot_be_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidDelay, match="timeout"):
        App("test").mutation(timeout=timeout)


def test_a_function_can_be_called_directly_with_a_context() -> None:
    app = App("test")

    @app.query
    def double(ctx: QueryCtx, n: int) -> int:
        """Twice n."""
        return 2 * n

    assert double(None, 4) == 8
    assert (double.handler.__name__, double.__doc__) == ("double", "Twice n.")
    assert repr(double) == "<query tests.app.test_registration.double>"


def test_a_method_is_no_function_of_an_app() -> None:
    class Shop:
        def buy(self, ctx: MutationCtx) -> None: ...

    with pytest.raises(RegistrationError, match="is a method; register plain functions"):
        App("shop", database_url="sqlite://").mutation(Shop.buy)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "nul\0"])
def test_an_app_is_called_what_a_file_can_be_called(name: str) -> None:
    with pytest.raises(Misuse, match="cannot be an app's name"):
        App(name)


def test_an_app_and_its_functions_show_their_names() -> None:
    app = App("shop", database_url="sqlite://")

    @app.mutation(name="shop.buy")
    def buy(ctx: MutationCtx) -> None: ...

    assert (repr(app), repr(buy)) == ("<App shop>", "<mutation shop.buy>")


def test_what_a_context_has_not_is_an_error_that_says_where_it_is(open_app: OpenApp) -> None:
    app = open_app()

    @app.query
    def read(ctx: Any, what: str) -> None:
        getattr(ctx.db if what == "insert" else ctx, what)

    @app.mutation
    def write(ctx: Any, what: str) -> None:
        getattr(ctx, what)

    @app.action
    def act(ctx: Any, what: str) -> None:
        getattr(ctx, what)

    for function, what, says in [
        (read, "insert", "a query only reads and has no ctx.db.insert; make this function a mutation"),
        (read, "scheduler", "QueryCtx has no 'scheduler': a query only reads"),
        (write, "run_action", "MutationCtx has no 'run_action': a transaction has no side effects; schedule it"),
        (act, "db", "SyncActionCtx has no 'db': an action has no transaction; call a query or a mutation"),
        (write, "nothing", "'MutationCtx' object has no attribute 'nothing'"),
    ]:
        with pytest.raises(AttributeError, match=re.escape(says)):
            app.call(function.name, what)


def test_a_context_calls_only_the_right_kind(open_app: OpenApp) -> None:
    app = open_app()

    @app.mutation
    def write(ctx: MutationCtx) -> None: ...

    @app.query
    def read(ctx: QueryCtx) -> None:
        ctx.run_query(write)  # type: ignore[arg-type]

    @app.mutation
    def mixed(ctx: MutationCtx, what: str) -> None:
        target: Any = {"query": read, "plain": len}[what]
        ctx.run_mutation(target)

    with pytest.raises(Misuse, match="is not a query"):
        app.call(read)
    for what in ("query", "plain"):
        with pytest.raises(Misuse, match="is not a mutation"):
            app.call(mixed, what)


def test_a_table_is_declared_once_and_its_fields_make_sense() -> None:
    app = App("test")
    app.table("t", indexes={"i": ["a"]})

    with pytest.raises(RegistrationError, match="'t' is declared twice"):
        app.table("t")
    for indexes in ({"i": ["a", "a"]}, {"i": ["_id"]}, {"i": ["$x"]}, {"i": "a"}, {"i i": ["a"]}):
        with pytest.raises(RegistrationError):
            app.table("u", indexes=indexes)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no database address"),
        ("chat.db", "no database address"),
        ("mysql://x", "no database of the kind 'mysql'"),
        ("sqlite://relative.db", "no SQLite address"),
        ("sqlite:////", "is a folder"),
    ],
)
def test_an_address_that_is_none_is_refused_with_examples(url: str, says: str) -> None:
    app = App("test", database_url=url or "nonsense")

    with pytest.raises(InvalidDatabaseUrl, match=says):
        app.call(app.query(lambda ctx: None))


def test_the_address_comes_from_the_argument_the_environment_or_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVERTICK_DATABASE_URL", raising=False)
    assert App("chat").database_url == f"sqlite:///{Path.cwd()}/.evertick/chat.db"
    monkeypatch.setenv("EVERTICK_DATABASE_URL", "postgresql://example")
    assert App("chat").database_url == "postgresql://example"
    assert App("chat", database_url="sqlite:///here.db").database_url == f"sqlite:///{Path.cwd()}/here.db"


@pytest.mark.parametrize("module", ["evertick", "evertick.app.app"])
def test_errors_carry_codes_and_hang_in_one_tree(module: str) -> None:
    from evertick.base import errors

    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, EvertickError)]
    codes = [c.code for c in classes]

    assert len(set(codes)) == len(codes)
    assert all(issubclass(c, EvertickError) and c.__doc__ for c in classes)


def test_a_second_engine_on_a_file_is_refused(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    first, second = App("chat", database_url=url), App("chat", database_url=url)
    first.worker()

    with pytest.raises(DatabaseLocked, match=r"already runs the engine on .*chat\.db; stop it"):
        second.worker()
    second.call(second.query(lambda ctx: 1))  # reading and scheduling go on beside it
    first.close()
    second.worker()
    second.close()
