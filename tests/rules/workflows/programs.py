"""Random workflows: a tree that one coroutine interprets, with everything that asyncio offers for waiting."""

import asyncio
import copy
import random
from typing import Any, TypeAlias

from evertick.base.errors import StepFailed
from evertick.base.records.jobs import RetryPolicy
from evertick.rules.workflows.step import Step
from tests.rules.workflows.driving import ACTION, CHILD, MUTATION, QUERY

Tree: TypeAlias = list[Any]
"""[kind, number, children or a time, time]."""

LEAVES = ("mutation", "query", "action", "retried", "limited", "sleep", "asleep", "event")
KINDS = (
    ("mutation",) * 4 + ("action",) * 3 + ("sequence",) * 2 + LEAVES
    + ("child", "gather", "group", "timeout", "race", "give up", "shield", "queue", "chance", "patch", "loop")
    + ("semaphore", "as completed", "condition")
)  # fmt: skip
DEPTH_MAX = 4


class TreeMaker:
    """Makes trees whose nodes are numbered."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._number = 0

    def make(self, depth: int = 0) -> Tree:
        """A random tree."""
        self._number += 1
        number, rng = self._number, self._rng
        kind = "sequence" if depth == 0 else rng.choice(KINDS if depth < DEPTH_MAX else LEAVES)
        if kind in ("sequence", "gather", "group", "race", "semaphore", "as completed", "condition"):
            return [kind, number, [self.make(depth + 1) for _ in range(rng.randint(2, 5))]]
        if kind in ("timeout", "give up", "shield", "loop"):
            return [kind, number, [self.make(depth + 1) for _ in range(rng.randint(1, 2))], rng.randint(1, 40) / 10]
        return [kind, number, rng.choice([0, 0.5, 1, 2, 5])]


async def program(step: Step, tree: Tree) -> list[str]:
    """Interpret a tree. A last step runs however it ends, also when the run is canceled."""
    out: list[Any] = []
    try:
        await Interpreter(step, out).play(tree)
    finally:
        await step.run(MUTATION, "last")
    return [str(each) for each in out]


class Interpreter:
    """Interprets one tree in one run."""

    def __init__(self, step: Step, out: list[Any]) -> None:
        self.step = step
        self.out = out

    async def play(self, tree: Tree) -> None:
        """Interpret a node. Errors of steps end in it."""
        kind, number, rest = tree[0], tree[1], tree[2:]
        try:
            await getattr(self, kind.replace(" ", "_"))(f"{kind}{number}", number, *rest)
        except (StepFailed, TimeoutError) as error:
            self.out.append(type(error).__name__)
        except ExceptionGroup as group:
            self.out.append(len(group.exceptions))

    # -- leaves

    async def mutation(self, name: str, number: int, _: float) -> None:
        self.out.append(await self.step.using(name=name).run(MUTATION, number))

    async def query(self, name: str, number: int, _: float) -> None:
        self.out.append(await self.step.using(name=name).run(QUERY, number))

    async def action(self, name: str, number: int, _: float) -> None:
        self.out.append(await self.step.using(name=name).run(ACTION, number))

    async def retried(self, name: str, number: int, _: float) -> None:
        self.out.append(await self.step.using(name=name, retry=RetryPolicy(3)).run(ACTION, number))

    async def limited(self, name: str, number: int, seconds: float) -> None:
        await self.step.using(name=name, timeout=seconds or None).run(ACTION, number)

    async def sleep(self, name: str, number: int, seconds: float) -> None:
        await self.step.sleep(seconds)
        self.out.append(self.step.now())

    async def asleep(self, name: str, number: int, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def event(self, name: str, number: int, seconds: float) -> None:
        self.out.append(await self.step.wait_for(f"event{number % 3}", timeout=seconds or None))

    async def child(self, name: str, number: int, _: float) -> None:
        self.out.append(await self.step.using(name=name).workflow(CHILD, number))

    async def chance(self, name: str, number: int, _: float) -> None:
        await self.step.run(MUTATION, f"{self.step.random()} {self.step.uuid()}")

    async def patch(self, name: str, number: int, _: float) -> None:
        if self.step.patched(name):
            await self.step.using(name=name).run(MUTATION)

    # -- nodes

    async def sequence(self, name: str, number: int, children: list[Tree]) -> None:
        for child in children:
            await self.play(child)

    async def loop(self, name: str, number: int, children: list[Tree], _: float) -> None:
        for _ in range(3):
            for child in children:
                await self.play(child)

    async def gather(self, name: str, number: int, children: list[Tree]) -> None:
        await asyncio.gather(*(self.play(child) for child in children), return_exceptions=number % 2 == 0)

    async def semaphore(self, name: str, number: int, children: list[Tree]) -> None:
        places = asyncio.Semaphore(2)

        async def one(child: Tree) -> None:
            async with places:
                await self.play(child)

        await asyncio.gather(*(one(child) for child in children))

    async def group(self, name: str, number: int, children: list[Tree]) -> None:
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(self._with_clean_up(child))
            if number % 2:
                group.create_task(self._failing(name))

    async def timeout(self, name: str, number: int, children: list[Tree], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            for child in children:
                await self.play(child)

    async def race(self, name: str, number: int, children: list[Tree]) -> None:
        tasks = [asyncio.ensure_future(self.play(child)) for child in children]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        winners = [tasks.index(task) for task in done]
        await self.step.using(name=f"won{winners}").run(MUTATION, winners)
        for task in waiting:  # in the order of the set
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def as_completed(self, name: str, number: int, children: list[Tree]) -> None:
        for each in asyncio.as_completed([asyncio.ensure_future(self.play(child)) for child in children]):
            await each
            await self.step.run(ACTION, name)

    async def give_up(self, name: str, number: int, children: list[Tree], seconds: float) -> None:
        await asyncio.wait_for(self.sequence(name, number, children), seconds)

    async def shield(self, name: str, number: int, children: list[Tree], seconds: float) -> None:
        work = asyncio.ensure_future(self.sequence(name, number, children))
        await asyncio.wait_for(asyncio.shield(work), seconds)

    async def queue(self, name: str, number: int, _: float) -> None:
        queue: asyncio.Queue[int | None] = asyncio.Queue()

        async def consume(consumer: int) -> None:
            while (item := await queue.get()) is not None:
                await self.step.using(name=f"{name} {consumer}").run(ACTION, item)

        consumers = [asyncio.create_task(consume(each)) for each in range(2)]
        for item in [*range(5), None, None]:
            queue.put_nowait(item)
        try:
            await asyncio.gather(*consumers)
        finally:
            for consumer in consumers:
                consumer.cancel()

    async def condition(self, name: str, number: int, children: list[Tree]) -> None:
        condition, event = asyncio.Condition(), asyncio.Event()

        async def one(child: Tree) -> None:
            await event.wait()
            async with condition:
                await self.play(child)
                condition.notify_all()

        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(one(child))
            await self.step.using(name=f"{name} opens").run(MUTATION)
            event.set()

    async def _with_clean_up(self, child: Tree) -> None:
        try:
            await self.play(child)
        except asyncio.CancelledError:
            await self.step.using(name=f"undo{child[1]}").run(MUTATION, child[1])
            raise

    async def _failing(self, name: str) -> None:
        await self.step.using(name=f"{name} fails").run(ACTION)
        raise StepFailed(name, "Boom", "planned")


EDITS = ("insert", "remove", "replace", "swap", "wrap")


def edited(tree: Tree, edit: str, rng: random.Random) -> Tree:
    """The tree after an edit at a random place: other code than the journal was written by."""
    changed = copy.deepcopy(tree)
    siblings = rng.choice(_lists_of_children(changed))
    at = rng.randrange(len(siblings))
    if edit == "insert":
        siblings.insert(at, ["mutation", 9999, 0])
    elif edit == "remove":
        siblings.pop(at)
    elif edit == "replace":
        siblings[at] = ["action" if siblings[at][0] == "mutation" else "mutation", 8888, 0]
    elif edit == "swap":
        siblings[at], siblings[at - 1] = siblings[at - 1], siblings[at]
    else:
        siblings[at] = ["timeout", 7777, [siblings[at]], 50.0]
    return changed


def _lists_of_children(tree: Tree) -> list[list[Tree]]:
    found = []
    for part in tree:
        if isinstance(part, list) and part:
            if all(isinstance(each, list) for each in part):
                found.append(part)
            for each in part:
                if isinstance(each, list):
                    found.extend(_lists_of_children(each))
    return found
