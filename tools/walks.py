"""How far a call walks through the house: `python -m tools.walks [--functions]`.

Two walks on SQLite, in a simulated world (one thread, no waiting), each after a warm-up, so that imports and first-time
caches do not count:

* **a scheduled call**: `app.call(mutation)`, which schedules another one with `run_after(0)`, until that one is done;
* **a creation**: `app.schedules.create(...)` with a spec that was not seen before.

For each it prints how many functions of `evertick` were called, in how many files, and how often the path passed from
one file to another (of them by returning). Few files make a path that a reader can follow. The simulated world itself
(`evertick.testing`) does not count, nor what it asks to find out whether all is done, nor the engine's other loops,
which look for work of theirs meanwhile: a world wakes all of them after each commit.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import evertick
from evertick import App, MutationCtx, every
from evertick.engine.runtime.loop import Loop
from evertick.testing import World
from evertick.testing.engine import SimulatedEngine

IS_DRAINED = SimulatedEngine._is_drained.__code__

HOUSE = str(Path(evertick.__file__).parent) + "/"

FILES_OF_A_CALL_MAX = 37
FILES_OF_A_CREATION_MAX = 40
"""What both passed when they were measured last. They should shrink, towards 22 and 30."""


@dataclass
class Walk:
    """What one walk passed."""

    calls: int = 0
    changes: int = 0
    returns: int = 0
    functions: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        """The files it passed."""
        return {file for file, _ in self.functions}

    def __str__(self) -> str:
        files = len(self.files)
        return f"{self.calls} calls in {files} files, {self.changes} changes of file ({self.returns} by returning)"


def walk(work: Callable[[], object]) -> Walk:
    """Run `work` and follow every call in this thread."""
    found = Walk()
    place = ""

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal place
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(HOUSE) or code.co_name.startswith("<"):
            return
        file = code.co_filename.removeprefix(HOUSE)
        if file.startswith("testing/") or _of_the_world(frame) or _other_loop(frame):
            return
        if event == "call":
            found.calls += 1
            found.functions[file, code.co_name] = found.functions.get((file, code.co_name), 0) + 1
        if place not in ("", file):
            found.changes += 1
            found.returns += event == "return"
        place = file

    sys.setprofile(follow)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def _of_the_world(frame: FrameType) -> bool:
    """Whether the world asks this, to see whether all is done."""
    at: FrameType | None = frame
    while at is not None and at.f_code is not IS_DRAINED:
        at = at.f_back
    return at is not None


def _other_loop(frame: FrameType) -> bool:
    """Whether this is one of the engine's loops that a mutation does not need, or wakes one."""
    loop = frame.f_locals.get("self")
    if isinstance(loop, Loop) and loop.name != "mutations":
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.get_name().startswith("loop ") and task.get_name() != "loop mutations"


def walks() -> dict[str, Walk]:
    """Both walks, by name."""
    app = App("walks")

    @app.mutation
    def receive(ctx: MutationCtx, number: int) -> None:
        ctx.db.insert("numbers", {"number": number})

    @app.mutation
    def send(ctx: MutationCtx, number: int) -> None:
        ctx.scheduler.run_after(0, receive, number)

    def scheduled_call() -> None:
        world.call(send, 1)
        world.drain()

    def creation(minute: int) -> None:
        app.schedules.create(f"report {minute}", when=every(minutes=minute), do=receive.args(minute))

    with World(app) as world:
        scheduled_call()
        call = walk(scheduled_call)
        creation(11)
        return {"a scheduled call": call, "a creation": walk(lambda: creation(12))}


def main() -> None:
    """Print the walks; with `--functions`, every function on them."""
    for name, found in walks().items():
        print(f"{name}: {found}")
        if "--functions" in sys.argv[1:]:
            for (file, function), count in sorted(found.functions.items()):
                print(f"  {count:5} {file} {function}")


if __name__ == "__main__":
    main()
