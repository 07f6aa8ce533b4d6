"""Runs: hostile workflows on a real worker, and what must hold for each.

* Every run ends. Only code that differs from its journal may stay, says so, and can be ended.
* A run that nothing cuts off left exactly what its flow says, and ended as it says: whether its worker had it in memory
  or replayed it, and whether it was paused and sent events meanwhile or not.
* Whatever else happened to a run, none of its mutations and none of its actions' attempts was made twice.
* The code replays the journal of a run that succeeded to the same result.
"""

import asyncio
import random
import time
from collections import Counter
from typing import Any, Final

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Settings, Step
from evertick.errors import EvertickError
from evertick.testing import replay
from tests.hostile.flows import Effects, Flow, Flowing, Functions, effects_of, flow_of, remember
from tests.hostile.programs import at, error_of, result_of

CALM_S: Final = 30
"""More than a busy machine ever takes: no limit may strike."""
STUCK_S: Final = 60.0
SLOW_S: Final = 0.03
FEW_IN_MEMORY: Final = 3
REPLAYED_EVERY: Final = 5
SPREAD_S: Final = 0.01
DIFFERS: Final = frozenset({"ReplayMismatch", "NotDeterministic"})


def run_flows(url: str, count: int, base: int) -> tuple[list[str], Counter[str]]:
    """Run `count` flows, half of them on a worker that keeps few runs in memory; returns the faults, and the ends."""
    faults: list[str] = []
    ends: Counter[str] = Counter()
    for first, in_memory in ((0, 1_000), (count // 2, FEW_IN_MEMORY)):
        app = App("hostile flows", database_url=url, settings=Settings(runs_in_memory=in_memory))
        functions = _register(app, base)
        flows = [flow_of(number, base) for number in range(first, min(count, first + (count + 1) // 2))]
        faults += _run(app, functions, flows, random.Random(f"flows {base} {first}"))
        found = _things(app)
        for flow in flows:
            ended = app.workflows.get(_key(flow))
            ends[ended.state] += 1
            fault = _fault(ended, found.get(flow.number, Counter()), effects_of(flow))
            is_certain = effects_of(flow).is_certain
            if not fault and is_certain and ended.state == "success" and flow.number % REPLAYED_EVERY == 0:
                fault = _fault_of_replay(app, functions, flow, ended.id)
            if fault:
                faults.append(f"flow {flow.number} ({ended.state}): {fault}; error {ended.error}")
        app.close()
    return faults, ends


def _key(flow: Flow) -> str:
    return f"flow-{flow.number}"


def _register(app: App, base: int) -> Functions:
    @app.mutation(name="keep", timeout=CALM_S)
    def keep(ctx: MutationCtx, number: int, tag: str, how: str) -> Any:
        ctx.db.insert("flows", {"flow": number, "tag": f"{tag} 1"})
        return _come_to(how, number)

    @app.mutation(name="note", timeout=CALM_S)
    def note(ctx: MutationCtx, number: int, tag: str) -> None:
        ctx.db.insert("flows", {"flow": number, "tag": tag})

    @app.query(name="look", timeout=CALM_S)
    def look(ctx: QueryCtx) -> int:
        return len(list(ctx.db.query("flows").take(3)))

    @app.action(name="act", timeout=CALM_S)
    async def act(ctx: ActionCtx, number: int, tag: str, how: str) -> Any:
        await ctx.run_mutation(note, number, f"{tag} {ctx.attempt}")
        if how == "slow":
            await asyncio.sleep(SLOW_S)
        return _come_to(how, number)

    @app.workflow(name="flow", timeout=CALM_S)
    async def flow(step: Step, number: int, generation: int = 0) -> Any:
        remember(step)
        flowing = flow_of(number, base)
        await Flowing(step, flowing, functions, generation).perform(flowing.steps, [])
        return result_of(flowing.result, number)

    @app.workflow(name="part", timeout=CALM_S)
    async def part(step: Step, number: int, generation: int, path: list[int]) -> None:
        flowing = flow_of(number, base)
        await Flowing(step, flowing, functions, generation).perform(at(flowing.steps, path), path)

    @app.query(name="all_of_flows", timeout=600)
    def all_of_flows(ctx: QueryCtx) -> list[list[Any]]:
        return [[each["flow"], each["tag"]] for each in ctx.db.query("flows")]

    functions = Functions(keep, look, act, flow, part)
    return functions


def _come_to(how: str, number: int) -> Any:
    """What a function returns or raises."""
    if how in ("slow", ""):
        return None
    if how.startswith("raise "):
        raise error_of(how.removeprefix("raise "))
    return result_of(how, number)


def _run(app: App, functions: Functions, flows: list[Flow], chance: random.Random) -> list[str]:
    for flow in flows:
        app.workflows.using(key=_key(flow)).start(functions.flow, flow.number)
    paused = []
    with app.running():
        for flow in chance.sample(flows, len(flows)):
            if flow.disturbance:
                time.sleep(chance.random() * SPREAD_S)
                _disturb(app, flow)
                paused += [flow] if flow.disturbance == "pause" else []
        for flow in paused:
            app.workflows.resume(_key(flow))
        return _wait(app, {app.workflows.get(_key(flow)).id: flow for flow in flows})


def _disturb(app: App, flow: Flow) -> None:
    try:
        if flow.disturbance == "event":
            app.workflows.signal(_key(flow), "what none waits for", [flow.number])
        else:
            getattr(app.workflows, flow.disturbance)(_key(flow))
    except EvertickError:
        if app.workflows.get(_key(flow)).state in ("pending", "running", "paused"):
            raise


def _wait(app: App, flows: dict[str, Flow]) -> list[str]:
    """Until every run has ended, those that differ from their journals by force."""
    left, since = -1, time.monotonic()
    while True:
        running = [run for state in ("pending", "running", "paused") for run in _listed(app, state)]
        if not running:
            return []
        if len(running) != left:
            left, since = len(running), time.monotonic()
        for run in running:
            flow = flows.get(run.id)
            is_fickle = flow is not None and effects_of(flow).is_fickle
            if run.error is not None and run.error["type"] in DIFFERS and (is_fickle or flow is None):
                app.workflows.terminate(run.id)
        if time.monotonic() - since > STUCK_S:
            return [f"flow {getattr(flows.get(run.id), 'number', run.id)} is stuck: {run.state}" for run in running]
        time.sleep(0.05)


def _listed(app: App, state: Any) -> list[Any]:
    return list(app.workflows.list(state=state, limit=200).runs)


def _things(app: App) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for number, tag in app.call("all_of_flows"):
        found.setdefault(number, Counter())[tag] += 1
    return found


def _fault(run: Any, found: Counter[str], wanted: Effects) -> str | None:
    if not wanted.is_certain:
        return f"it left {found - wanted.things} too much" if found - wanted.things else None
    if found != wanted.things:
        return f"it left {found}, not {wanted.things}"
    if run.state != ("failed" if wanted.fails else "success"):
        return f"it must end with {'an error' if wanted.fails else 'success'}"
    return None


def _fault_of_replay(app: App, functions: Functions, flow: Flow, run_id: str) -> str | None:
    """What is wrong with a replay of its history, or None."""
    try:
        again = replay(functions.flow, app.workflows.history(run_id))
    except Exception as error:
        return f"its history replays to {type(error).__name__}: {error}"
    result = app.workflows.result(run_id)
    return None if repr(again) == repr(result) else f"its history replays to {again!r}, not {result!r}"
