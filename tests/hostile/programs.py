"""Programs: random user functions as data, so that they can be run by a worker and replayed without one.

A program is a tree of steps made from a number alone. `perform` runs it inside a mutation; `replay` says what it should
have left behind if nothing interrupts it. Both read the same steps, so a difference is a fault of the engine.
"""

import asyncio
import gc
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from evertick import MutationCtx

Steps = tuple["Step", ...]

ERRORS: Final[tuple[str, ...]] = (
    "plain", "nul", "surrogate", "huge", "deep cause", "base", "canceled", "exit", "stop", "recursion", "unprintable",
)  # fmt: skip
RESULTS: Final[tuple[str, ...]] = (
    "none",
    "number",
    "huge number",
    "nan",
    "surrogate",
    "object",
    "nul",
    "bytes",
    "loop",
    "deep",
)
FAILING_RESULTS: Final = frozenset({"object", "loop", "surrogate", "huge number", "deep", "bytes"})
"""Results that cannot be kept, or do not read back as they are: the job fails and leaves nothing behind."""


BAD_SQL: Final = (
    "syntax", "unique", "commit", "rollback", "cursor commit", "connection commit", "cursor's connection", "pragma",
    "prepare", "hiding", "notifies",
)  # fmt: skip
SESSION: Final[tuple[str, ...]] = ("settings", "temporary table", "lock")
"""What a function may leave in the session of its connection, and no other function may meet."""

EARLY: Final = "early"
"""Marks what a garbage collection during the function itself has written: it may be there or not."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a function does. `name` says which; `tag` marks what it leaves behind."""

    kind: str
    name: str = ""
    tag: str = ""
    body: Steps = ()
    after: Steps = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A function: its steps, what it returns, and whether its own limit may strike."""

    number: int
    steps: Steps
    result: str
    hurried: bool


class Unprintable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Own(BaseException):
    """What `except Exception` does not catch."""


def program_of(number: int, base: int) -> Program:
    """The program of a number: the same one whenever it is asked for."""
    chance = random.Random(f"{base}-{number}")
    hurried = chance.random() < 0.25
    steps = _steps(chance, depth=0, hurried=hurried, tags=Counter())
    result = chance.choice(RESULTS) if chance.random() < 0.3 else "number"
    return Program(number, steps, result, hurried)


def _steps(chance: random.Random, *, depth: int, hurried: bool, tags: Counter[str]) -> Steps:
    return tuple(_step(chance, depth=depth, hurried=hurried, tags=tags) for _ in range(chance.randint(1, 4)))


def _step(chance: random.Random, *, depth: int, hurried: bool, tags: Counter[str]) -> Step:
    kinds = ["insert"] * 5 + ["child"] * 2 + ["read", "own sql", "own sql", "generator", "manager", "delete"]
    kinds += ["raise"] if chance.random() < 0.4 else []
    kinds += ["spin", "spin", "nap"] if hurried else []
    kinds += ["session"] if chance.random() < 0.3 else []
    kinds += ["bad sql", "late sql"] if chance.random() < 0.15 else []
    kinds += ["nested", "nested", "try"] if depth < 3 else []
    kind = chance.choice(kinds)
    tags[kind] += 1
    tag = f"{kind} {depth}.{tags.total()}"
    if kind in ("nested", "try"):
        name = chance.choice(("none", "Exception", "BaseException"))
        body = _steps(chance, depth=depth + 1, hurried=hurried, tags=tags)
        after = _steps(chance, depth=3, hurried=hurried, tags=tags) if kind == "try" and chance.random() < 0.5 else ()
        return Step(kind, name, tag, body, after)
    if kind == "raise":
        return Step(kind, chance.choice(ERRORS), tag)
    if kind == "session":
        return Step(kind, chance.choice(SESSION), tag)
    if kind in ("spin", "nap"):
        return Step(kind, str(chance.choice((1, 5, 15, 25, 40))), tag)
    if kind == "bad sql":
        return Step(kind, chance.choice(BAD_SQL), tag)
    return Step(kind, "", tag)


def at(steps: Steps, path: list[int]) -> Steps:
    """The steps of what is called at a place of a program's steps."""
    for index in path:
        steps = _both(steps[index])
    return steps


def _both(step: Step) -> Steps:
    return step.body + step.after


# -- doing it


class Performance:
    """One run of a program's steps by a mutation. `inner` runs nested bodies, `child` is what steps schedule."""

    def __init__(self, ctx: MutationCtx, program: Program, inner: Any, child: Any) -> None:
        self._ctx = ctx
        self._program = program
        self._inner = inner
        self._child = child
        self._is_over = False

    def perform(self, steps: Steps, path: list[int]) -> None:
        """Run steps, whatever they raise; afterwards everything that still writes through `ctx` is late."""
        try:
            self._all(steps, path)
        finally:
            self._is_over = True

    def _all(self, steps: Steps, path: list[int], first: int = 0) -> None:
        for index, step in enumerate(steps, first):
            self._one(step, [*path, index])

    def _one(self, step: Step, path: list[int]) -> None:
        match step.kind:
            case "insert":
                self._insert(step.tag)
            case "delete":
                self._ctx.db.delete(self._insert(step.tag))
            case "child":
                self._ctx.scheduler.run_after(0, self._child, self._program.number, step.tag)
            case "read":
                list(self._ctx.db.query("things").take(3))
            case "generator":
                self._abandon(step.tag)
            case "manager":
                with self._inserting(step.tag):
                    self._insert(step.tag)
            case "own sql" | "bad sql" | "late sql":
                self._sql(step)
            case "session":
                leave_in_session(self._ctx.connection, step.name)
            case "spin":
                end = time.monotonic() + int(step.name) / 1000
                while time.monotonic() < end:
                    pass
            case "nap":
                time.sleep(int(step.name) / 1000)
            case "raise":
                raise error_of(step.name)
            case "nested":
                with guarded(step.name):
                    self._ctx.run_mutation(self._inner, self._program.number, path)
            case "try":
                try:
                    with guarded(step.name):
                        self._all(step.body, path)
                finally:
                    self._all(step.after, path, len(step.body))

    def _insert(self, tag: str) -> str:
        return self._ctx.db.insert("things", {"job": self._program.number, "tag": tag})

    @contextmanager
    def _inserting(self, tag: str) -> Iterator[None]:
        try:
            yield
        finally:
            self._insert(f"{tag} end")

    def _abandon(self, tag: str) -> None:
        """A generator that writes when the garbage collector ends it, usually long after its function."""

        def lines() -> Iterator[int]:
            try:
                yield 1
            finally:
                self._insert(f"{tag} {'late' if self._is_over else EARLY}")

        held: list[Any] = [lines()]
        next(held[0])
        held.append(held)  # a cycle: only the collector finds it

    def _sql(self, step: Step) -> None:
        connection, number = self._ctx.connection, self._program.number
        if step.kind == "late sql":  # refused only at the commit
            connection.execute(f"insert into late_notes (job, missing) values ({number}, -1)")
            return
        match step.name:
            case "":
                connection.execute(f"insert into notes (job, tag) values ({number}, '{step.tag}')")
            case "syntax":
                connection.execute("insert into")
            case "unique":
                connection.execute(f"insert into uniques values ({number})")
                connection.execute(f"insert into uniques values ({number})")
            case "cursor commit":
                connection.cursor().execute("commit")
            case "connection commit":
                connection.commit()
            case "cursor's connection":
                connection.cursor().connection.commit()
            case "pragma":
                connection.execute("pragma query_only = on")
            case "prepare":
                connection.execute("prepare p as select 1")
            case "hiding":
                connection.execute("create temp table jobs (id text)")
            case "notifies":
                list(connection.notifies(timeout=60))
            case word:
                connection.execute(word)


def leave_in_session(connection: Any, name: str) -> None:
    """Change the session of the connection, as far as its database has one."""
    is_sqlite = type(connection.cursor()).__module__.startswith("evertick.app")
    if name == "temporary table":
        connection.execute("create temp table if not exists scratch (n integer)")
    elif name == "settings" and not is_sqlite:
        connection.execute("set default_transaction_read_only = on")
    elif name == "lock" and not is_sqlite:
        connection.execute("select pg_advisory_lock(1)")


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Catch what `except NAME` catches; nothing for "none"."""
    caught: tuple[type[BaseException], ...] = {
        "none": (),
        "Exception": (Exception,),
        "BaseException": (BaseException,),
    }[name]
    try:
        yield
    except caught:
        pass


def error_of(name: str) -> BaseException:
    """An error to be raised."""
    match name:
        case "nul":
            return ValueError("a\x00b")
        case "surrogate":
            return ValueError("a\udc80b")
        case "huge":
            return ValueError("x" * 3_000_000)
        case "deep cause":
            error = ValueError("outermost")
            inner: BaseException = error
            for depth in range(200):
                inner.__cause__ = inner = ValueError(f"cause {depth}")
            return error
        case "base":
            return Own("a BaseException")
        case "canceled":
            return asyncio.CancelledError("raised by the function")
        case "exit":
            return SystemExit(3)
        case "stop":
            return StopIteration("raised by the function")
        case "recursion":
            return RecursionError("too deep")
        case "unprintable":
            return Unprintable()
        case _:
            return ValueError("plain")


def result_of(name: str, number: int) -> Any:
    """What a function returns."""
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(220):
        deep = [deep]
    return {
        "none": None,
        "number": number,
        "huge number": 10**5000,
        "nan": float("nan"),
        "surrogate": "\udc80",
        "object": object(),
        "nul": "a\x00b",
        "bytes": b"\xff\x00",
        "loop": loop,
        "deep": deep,
    }[name]


# -- saying what it should leave behind


@dataclass(slots=True)
class Left:
    """What a program leaves behind: documents, rows of its own SQL, scheduled children; by tag."""

    things: Counter[str]
    notes: Counter[str]
    children: Counter[str]
    spoiled: bool = False
    """It did what may rightly end it: a statement failed, or a constraint waits for the commit."""

    def copy(self) -> "Left":
        return Left(Counter(self.things), Counter(self.notes), Counter(self.children), self.spoiled)


class _Raised(Exception):
    def __init__(self, exception: bool) -> None:
        self.exception = exception  # whether `except Exception` catches it


def replay(program: Program, *, aborts: bool) -> Left | None:
    """What the program leaves behind, or None if it must fail.

    `aborts`: as on PostgreSQL, a mutation in which a statement failed can go on to use its connection only to fail, and
    fails at its end, even if it caught the error. On SQLite a failed statement is undone alone.
    """
    left = Left(Counter(), Counter(), Counter())
    try:
        _Replay(left, aborts=aborts).mutation(program.steps)
    except _Raised:
        return None
    return left if program.result not in FAILING_RESULTS else None


class _Replay:
    """Says what steps leave behind in `left`."""

    def __init__(self, left: Left, *, aborts: bool) -> None:
        self._left = left
        self._aborts = aborts
        self._is_aborted = False

    def mutation(self, steps: Steps) -> None:
        """The steps of one mutation."""
        outer, self._is_aborted = self._is_aborted, False
        try:
            self._all(steps)
            if self._is_aborted:
                raise _Raised(True)
        finally:
            self._is_aborted = outer  # what failed in a mutation that was called is undone with it

    def _all(self, steps: Steps) -> None:
        for step in steps:
            self._one(step)

    def _one(self, step: Step) -> None:
        left = self._left
        if self._is_aborted and step.kind in ("own sql", "late sql", "bad sql", "read", "nested"):
            raise _Raised(True)
        match step.kind:
            case "insert":
                left.things[step.tag] += 1
            case "manager":
                left.things[step.tag] += 1
                left.things[f"{step.tag} end"] += 1
            case "child":
                left.children[step.tag] += 1
            case "own sql":
                left.notes[step.tag] += 1
            case "late sql":
                left.spoiled = True
            case "bad sql":
                left.spoiled = True
                self._is_aborted = self._aborts and step.name in ("syntax", "unique")
                raise _Raised(True)
            case "raise":
                raise _Raised(step.name not in ("base", "canceled", "exit"))
            case "nested":
                before = left.copy()
                try:
                    self.mutation(step.body)
                except _Raised as raised:
                    left.things, left.notes, left.children = before.things, before.notes, before.children
                    _pass_on(step.name, raised)
            case "try":
                try:
                    try:
                        self._all(step.body)
                    except _Raised as raised:
                        _pass_on(step.name, raised)
                finally:
                    self._all(step.after)


def _pass_on(guard: str, raised: _Raised) -> None:
    if guard == "none" or (guard == "Exception" and not raised.exception):
        raise raised


def collect() -> None:
    """Let the garbage collector end what functions have left behind."""
    gc.collect()
