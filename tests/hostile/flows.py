"""Flows: random hostile workflows as data, so that they can be run by a worker and judged without one.

A flow is a tree of steps made from a number alone, as a program is (`tests.hostile.programs`). `Flowing` runs it as the
code of a workflow; `effects_of` says what it leaves behind and how it ends. What a flow has done stays done: a run that
fails later takes nothing back.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from evertick import Retry
from evertick import Step as RunStep
from tests.hostile.programs import ERRORS, FAILING_RESULTS, RESULTS, Step, Steps, error_of, guarded

DISTURBANCES: Final = ("pause", "event", "cancel", "terminate")
HARMLESS: Final = frozenset({"", "pause", "event"})
"""What may happen to a run without any difference to what it does."""
BAD_CALLS: Final = (
    "argument", "function", "progress", "attributes", "executor", "thread", "unordered", "negative", "other run",
)  # fmt: skip
ATTEMPTS: Final = 3
UNENDING: Final = frozenset({"stuck", "endless"})
"""What ends a run from outside of its code: no `except` and no `finally` of it goes on."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A workflow: its steps, what it returns, and what is done to its run from outside."""

    number: int
    steps: Steps
    result: str
    disturbance: str


class Functions(NamedTuple):
    """What flows call: registered functions of the app."""

    keep: Any
    look: Any
    act: Any
    flow: Any
    part: Any


def flow_of(number: int, base: int) -> Flow:
    """The flow of a number: the same one whenever it is asked for."""
    chance = random.Random(f"flow {base}-{number}")
    steps = _steps(chance, 0, Counter())
    if chance.random() < 0.1:
        steps += (Step("again", "", "again"), *_steps(chance, 2, Counter(later=1_000)))
    result = chance.choice(RESULTS) if chance.random() < 0.3 else "number"
    return Flow(number, steps, result, chance.choice(DISTURBANCES) if chance.random() < 0.4 else "")


def _steps(chance: random.Random, depth: int, tags: Counter[str]) -> Steps:
    return tuple(_step(chance, depth, tags) for _ in range(chance.randint(1, 4)))


def _step(chance: random.Random, depth: int, tags: Counter[str]) -> Step:
    kinds = ["keep"] * 6 + ["act", "look", "sleep"]
    kinds += ["raise"] if chance.random() < 0.3 else []
    kinds += ["wait", "bad call", "bad keep", "bad act"] if chance.random() < 0.4 else []
    kinds += ["retry", "late"] if chance.random() < 0.1 else []
    kinds += ["stuck", "endless", "fickle"] if chance.random() < 0.04 else []
    kinds += ["gather", "group", "try", "try", "child"] if depth < 3 else []
    kind = chance.choice(kinds)
    tags[kind] += 1
    tag = f"{kind} {depth}.{tags.total()}"
    if kind in ("gather", "group", "child", "try"):
        guard = chance.choice(("none", "Exception", "BaseException"))
        body = _steps(chance, depth + 1, tags)
        after = _steps(chance, 3, tags) if kind == "try" and chance.random() < 0.5 else ()
        return Step(kind, guard, tag, body, after)
    if kind in ("bad keep", "bad act"):
        return Step(kind, chance.choice((*(f"raise {name}" for name in ERRORS), *sorted(FAILING_RESULTS))), tag)
    names = {"raise": ERRORS, "bad call": BAD_CALLS, "keep": RESULTS, "act": RESULTS}.get(kind, ("",))
    return Step(kind, chance.choice([name for name in names if name not in FAILING_RESULTS]), tag)


# -- doing it


_steps_of_other_runs: list[RunStep] = []
"""What earlier flows were given. It must be of no use to others."""


class Flowing:
    """The code of a run that does what a flow says."""

    def __init__(self, step: RunStep, flow: Flow, functions: Functions, generation: int) -> None:
        self._step = step
        self._flow = flow
        self._functions = functions
        self._generation = generation

    async def perform(self, steps: Steps, path: list[int], first: int = 0) -> None:
        """Run steps, which are at `path` in the flow."""
        for index, step in enumerate(steps, first):
            await self._one(step, [*path, index])

    async def _one(self, step: Step, path: list[int]) -> None:
        run, functions, number = self._step, self._functions, self._flow.number
        tag = f"{step.tag} {self._generation}"
        match step.kind:
            case "keep" | "bad keep":
                await run.run(functions.keep, number, tag, step.name)
            case "act" | "bad act":
                await run.run(functions.act, number, tag, step.name)
            case "retry":
                await run.using(retry=Retry(ATTEMPTS, first=0.001)).run(functions.act, number, tag, "raise plain")
            case "late":
                await run.using(timeout=0.01).run(functions.act, number, tag, "slow")
            case "look":
                await run.run(functions.look)
            case "fickle":
                name = f"look {random.random()}"  # another name in each replay
                await run.using(name=name).run(functions.look)
            case "sleep":
                await run.sleep(0.002)
            case "wait":
                await run.wait_for("what never comes", timeout=0.002)
            case "raise":
                raise error_of(step.name)
            case "bad call":
                await self._call_badly(step.name, tag)
            case "stuck":
                await asyncio.get_running_loop().create_future()
            case "endless":
                while True:
                    await asyncio.sleep(0)
            case "again":
                if not self._generation:
                    run.continue_as_new(number, 1)
            case _:
                await self._around(step, path)

    async def _around(self, step: Step, path: list[int]) -> None:
        """A step that holds others."""
        try:
            with guarded(step.name):
                if step.kind == "gather":
                    await asyncio.gather(*self._parts(step, path), return_exceptions=True)
                elif step.kind == "group":
                    async with asyncio.TaskGroup() as group:
                        for part in self._parts(step, path):
                            group.create_task(part)
                elif step.kind == "child":
                    await self._step.workflow(self._functions.part, self._flow.number, self._generation, path)
                else:
                    await self.perform(step.body, path)
        finally:
            await self.perform(step.after, path, len(step.body))

    def _parts(self, step: Step, path: list[int]) -> list[Coroutine[Any, Any, None]]:
        return [self._one(each, [*path, index]) for index, each in enumerate(step.body)]

    async def _call_badly(self, name: str, tag: str) -> None:
        run, keep, number = self._step, self._functions.keep, self._flow.number
        loop = asyncio.get_running_loop()
        match name:
            case "argument":
                await run.run(keep, number, tag, object())
            case "function":
                await run.run(print, number)  # type: ignore[arg-type]
            case "progress":
                run.progress(object())
            case "attributes":
                run.set_attributes(stage=1.5)  # type: ignore[arg-type]
            case "executor":
                await loop.run_in_executor(None, print)
            case "thread":
                raise _raised_in_a_thread(run, keep, number, tag)
            case "unordered":
                coroutines = [run.run(keep, number, tag, "") for _ in range(2)]
                try:
                    next(asyncio.as_completed(coroutines))
                finally:
                    for coroutine in coroutines:
                        coroutine.close()
            case "negative":
                await run.sleep(-1)
            case _:
                other = _steps_of_other_runs[0] if _steps_of_other_runs[0].id != run.id else run.using(timeout=-1)
                await other.run(keep, number, tag, "")


def remember(step: RunStep) -> None:
    """Keep what one run was given, for others to misuse."""
    if not _steps_of_other_runs:
        _steps_of_other_runs.append(step)


def _raised_in_a_thread(run: RunStep, keep: Any, number: int, tag: str) -> BaseException:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            asyncio.run(run.run(keep, number, tag, ""))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return raised[0] if raised else KeyError("a step ran in a thread")


# -- saying what it leaves behind


@dataclass(slots=True)
class Effects:
    """What a flow leaves behind, and how it ends."""

    things: Counter[str]
    fails: bool = False
    is_certain: bool = True
    """Whether it depends on nothing but the flow."""
    is_fickle: bool = False
    """Whether its code can differ from its journal, so that it may never end by itself."""


class _Raised(Exception):
    def __init__(self, is_exception: bool) -> None:
        self.is_exception = is_exception  # whether `except Exception` catches it


def effects_of(flow: Flow) -> Effects:
    """What the flow leaves behind if it is certain; else what it may leave at most."""
    kinds = {step.kind for step in _all(flow.steps)}
    if flow.disturbance not in HARMLESS or kinds & {*UNENDING, "late", "fickle"} or _may_cut_off(flow.steps):
        most = Counter(tag for step in _all(flow.steps) for generation in (0, 1) for tag in _tags(step, generation))
        return Effects(most, is_certain=False, is_fickle="fickle" in kinds)
    effects = Effects(Counter())
    try:
        _Model(effects, 0).all(flow.steps)
    except _Again:
        try:
            _Model(effects, 1).all(flow.steps)
        except _Raised:
            effects.fails = True
    except _Raised:
        effects.fails = True
    effects.fails = effects.fails or flow.result in FAILING_RESULTS
    return effects


def _all(steps: Steps) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from _all(step.body)
        yield from _all(step.after)


def _may_cut_off(steps: Steps) -> bool:
    """Whether a group has parts that may fail, so that others are canceled wherever they are."""
    calm = {"keep", "act", "look", "sleep"}
    return any(step.kind == "group" and any(each.kind not in calm for each in step.body) for step in _all(steps))


def _tags(step: Step, generation: int) -> list[str]:
    tag = f"{step.tag} {generation}"
    if step.kind in ("keep", "act", "bad act", "retry", "late"):
        return [f"{tag} {attempt}" for attempt in range(1, 1 + (ATTEMPTS if step.kind == "retry" else 1))]
    return []


class _Again(BaseException):
    """The run goes on with its second generation."""


class _Model:
    """Does what steps do, to counters."""

    def __init__(self, effects: Effects, generation: int) -> None:
        self._effects = effects
        self._generation = generation

    def all(self, steps: Steps) -> None:
        """Steps one after the other."""
        for step in steps:
            self._one(step)

    def _one(self, step: Step) -> None:
        self._effects.things.update(_tags(step, self._generation))
        match step.kind:
            case "bad keep" | "bad act" | "retry" | "wait" | "bad call":
                raise _Raised(True)
            case "raise":
                raise _Raised(step.name not in ("base", "canceled", "exit"))
            case "again" if not self._generation:
                raise _Again
            case "gather":
                for each in step.body:
                    try:
                        self._one(each)
                    except _Raised:
                        pass
            case "group":
                self.all(step.body)
            case "child" | "try":
                try:
                    try:
                        self.all(step.body)
                    except _Raised as raised:
                        is_caught = step.kind == "child" or raised.is_exception  # a child's end is a StepFailed
                        if step.name == "none" or (step.name == "Exception" and not is_caught):
                            raise _Raised(is_caught) from None
                finally:
                    self.all(step.after)
