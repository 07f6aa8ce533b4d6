"""Simulated workflows: one interpreter of *flow specs*, the steps it makes, and the drawing of specs from a seed.

A flow spec is `{"tag": ..., "items": [...]}` and what is done with the run: `cleanup` (a step that runs when it is
canceled), `rounds` (how often it continues as new), `boom` (it fails at its end). Its items, each with a tag:

    write   a mutation step with one effect; `fail` makes it fail, `retry` makes it a job of its own
    act     an action step; `fail` its first so many attempts, `retry` how often it is tried, `takes` seconds
    chance  a mutation step whose arguments come from `step.random` and `step.uuid`
    sleep   `seconds`
    wait    for an `event`, for ever or for `seconds`
    poke    a mutation step that sends an `event` to the run of the flow `to`, if that has not ended
    child   a `flow` as a child workflow; `seconds`: given up after them
    all     `items` at the same time
    stop    a mutation step with one effect that ends the run itself: `how` is cancel or terminate; never the last item

The outcome of an item is what its step returned, or "failed", "unknown" or "timeout".
"""

import asyncio
import random
from typing import Any, Final

from evertick.app.app import App
from evertick.app.execution.contexts import ActionCtx, MutationCtx
from evertick.app.functions.options import Retry
from evertick.base.errors import JobNotFound, Misuse, RunNotOpen, StepFailed, StepOutcomeUnknown
from evertick.rules.workflows.step import Step
from tests.simulation.functions import Planned, Spec, Stage

FLOWS: Final = App("simulation", database_url="sqlite://")


@FLOWS.mutation(name="flow_write")
def flow_write(ctx: MutationCtx, spec: Spec) -> str:
    """One effect."""
    ctx.db.insert("effects", {"tag": spec["tag"], "job": ctx.job_id})
    if spec.get("fail"):
        raise Planned(spec["tag"])
    return str(spec["tag"])


@FLOWS.mutation(name="flow_chance")
def flow_chance(ctx: MutationCtx, spec: Spec, number: float, uuid: str) -> str:
    """One effect, of arguments that another replay must not draw anew."""
    ctx.db.insert("effects", {"tag": spec["tag"], "job": ctx.job_id})
    return str(spec["tag"])


@FLOWS.mutation(name="flow_poke")
def flow_poke(ctx: MutationCtx, spec: Spec) -> str:
    """An event for another run, in the transaction of this one."""
    Stage.world.sent[spec["event"]].append(spec["tag"])
    try:
        ctx.workflows.signal(f"flow {spec['to']}", spec["event"], spec["tag"])
    except (JobNotFound, RunNotOpen):
        return "nobody"
    Stage.world.rare["flow_poked"] += 1
    return str(spec["tag"])


@FLOWS.mutation(name="flow_take_back")
def flow_take_back(ctx: MutationCtx, spec: Spec) -> str:
    """An event that another run was poked with is withdrawn; returns `took` and its value."""
    try:
        found = ctx.workflows.get(f"flow {spec['to']}")
    except JobNotFound:
        return "nobody"
    pokes = [each for each in found.waiting_events if each.key is None]  # clients may send theirs again
    if not pokes:
        return "nothing"
    try:
        taken = ctx.workflows.withdraw(found.id, pokes[0].name, id=pokes[0].id)
    except Misuse:
        return "its own run"
    Stage.world.rare["flow_withdrawn"] += 1
    return f"took {taken.value}"


@FLOWS.mutation(name="flow_stop")
def flow_stop(ctx: MutationCtx, spec: Spec, run_id: str) -> str:
    """One effect, and the end of the run of which this is a step."""
    ctx.db.insert("effects", {"tag": spec["tag"], "job": ctx.job_id})
    Stage.world.asked_to_end.add(run_id)
    if spec["how"] == "cancel":
        ctx.workflows.cancel(run_id)
    else:
        Stage.world.terminated.add(run_id)
        ctx.workflows.terminate(run_id)
    return str(spec["tag"])


@FLOWS.action(name="flow_act")
async def flow_act(ctx: ActionCtx, spec: Spec) -> str:
    """A call to the outside."""
    with Stage.world.acts(str(ctx.job_id)):
        Stage.world.call_outside(str(ctx.job_id), ctx.attempt, spec["tag"])
        await asyncio.sleep(spec.get("takes", 0))
        if ctx.attempt <= spec.get("fail", 0):
            raise Planned(spec["tag"])
        return str(spec["tag"])


@FLOWS.workflow(name="flow")
async def flow(step: Step, spec: Spec, rounds: int = 0) -> list[Any]:
    """Do what a spec says; returns the outcomes of its items."""
    try:
        outcomes = []
        for item in in_round(spec, rounds):
            outcomes.append(await _do(step, item))
            step.progress(len(outcomes))
    except asyncio.CancelledError:
        if spec.get("cleanup"):
            await step.run(flow_write, spec["cleanup"])
        raise
    if rounds < spec.get("rounds", 0):
        step.continue_as_new(spec, rounds + 1)
    if spec.get("boom"):
        raise Planned(spec["tag"])
    return outcomes


def in_round(spec: Spec, number: int) -> list[Spec]:
    """The items of a round, whose tags are unlike those of any other."""
    end = f"/{len(spec['tag'])}:{number}"  # those of its children end otherwise
    return spec["items"] if not number else [_renamed(item, end) for item in spec["items"]]


def _renamed(item: Spec, end: str) -> Spec:
    renamed = {**item, "tag": item["tag"] + end}
    if "items" in item:
        renamed["items"] = [_renamed(each, end) for each in item["items"]]
    if "cleanup" in item:
        renamed["cleanup"] = _renamed(item["cleanup"], end)
    if "flow" in item:
        renamed["flow"] = _renamed(item["flow"], end)
    return renamed


async def _do(step: Step, item: Spec) -> Any:
    try:
        return await _DO[item["do"]](step, item)
    except StepOutcomeUnknown:
        return "unknown"
    except StepFailed:
        return "failed"
    except TimeoutError:
        return "timeout"


async def _write(step: Step, item: Spec) -> str:
    return await _tried(step, item).run(flow_write, item)


async def _act(step: Step, item: Spec) -> str:
    return await _tried(step, item).run(flow_act, item)


async def _chance(step: Step, item: Spec) -> str:
    return await step.run(flow_chance, item, step.random(), str(step.uuid()))


async def _sleep(step: Step, item: Spec) -> str:
    await step.sleep(item["seconds"])
    return "slept"


async def _wait(step: Step, item: Spec) -> Any:
    return await step.wait_for(item["event"], timeout=item.get("seconds"))


async def _poke(step: Step, item: Spec) -> str:
    return await step.run(flow_poke, item)


async def _take_back(step: Step, item: Spec) -> str:
    return await step.run(flow_take_back, item)


async def _stop(step: Step, item: Spec) -> str:
    return await step.run(flow_stop, item, step.id)


async def _child(step: Step, item: Spec) -> Any:
    async with asyncio.timeout(item.get("seconds")):
        return await step.workflow(flow, item["flow"])


async def _all(step: Step, item: Spec) -> list[Any]:
    return list(await asyncio.gather(*(_do(step, each) for each in item["items"])))


def _tried(step: Step, item: Spec) -> Step:
    return step.using(retry=Retry(item["retry"], first=0.2, cap=1.0)) if item.get("retry") else step


_DO: Final = {
    "write": _write,
    "act": _act,
    "chance": _chance,
    "sleep": _sleep,
    "wait": _wait,
    "poke": _poke,
    "child": _child,
    "all": _all,
    "stop": _stop,
    "take back": _take_back,
}


class FlowWorkload:
    """Draws flow specs, and what clients do with the runs."""

    def __init__(self, chance: random.Random, flows: int, stops: random.Random, takes: random.Random) -> None:
        self._chance = chance
        self._stops, self._takes = stops, takes
        """Chances of their own, so that the other flows of a seed stay what they were."""
        self._flows = flows

    def requests(self) -> list[Spec]:
        """What clients ask for, in order: each has `how` and the `tag` of a flow."""
        chance = self._chance
        asked: list[Spec] = []
        for number in range(self._flows):
            tag = f"f{number}"
            spec = self._flow(tag, depth=2)
            if self._stops.random() < 0.1:
                stop = {"do": "stop", "tag": f"{tag}.stop", "how": self._stops.choice(("cancel", "terminate"))}
                spec["items"].insert(self._stops.randrange(len(spec["items"])), stop)
            for n in range(self._takes.choice((0, 0, 1, 2))):
                take = {"do": "take back", "tag": f"{tag}.t{n}", "to": f"f{self._takes.randrange(self._flows)}"}
                spec["items"].insert(self._takes.randrange(len(spec["items"]) + 1), take)
            asked.append({"how": "start", "tag": tag, "flow": spec})
            later = [
                {"how": "signal", "tag": tag, "event": item["event"], "value": f"{tag} {n}"}
                for n, item in enumerate(waits(spec))
                if "seconds" not in item or chance.random() < 0.5
            ]
            if chance.random() < 0.2:
                later.append({"how": chance.choice(("cancel", "cancel", "terminate")), "tag": tag})
            if chance.random() < 0.2:
                later.append({"how": "pause", "tag": tag})
                if chance.random() < 0.5:
                    later.append({"how": "resume", "tag": tag})
            for each in later:
                asked.insert(chance.randrange(len(asked) - 1, len(asked)) + 1, each)
        return asked

    def _flow(self, tag: str, depth: int) -> Spec:
        chance = self._chance
        spec: Spec = {"tag": tag, "items": self._items(tag, chance.choice((1, 2, 4, 7)), depth)}
        if chance.random() < 0.5:
            spec["cleanup"] = {"tag": f"{tag}.cleanup"}
        if chance.random() < 0.1:
            spec["rounds"] = chance.choice((1, 2))
        if chance.random() < 0.1:
            spec["boom"] = True
        return spec

    def _items(self, tag: str, count: int, depth: int) -> list[Spec]:
        return [self._item(f"{tag}.{n}", depth) for n in range(count)]

    def _item(self, tag: str, depth: int) -> Spec:
        chance = self._chance
        kinds = ["write"] * 6 + ["chance", "act", "act", "sleep", "poke", "poke", "wait"]
        kind = chance.choice(kinds + (["child", "all", "all"] if depth else []))
        item: Spec = {"do": kind, "tag": tag}
        if depth and chance.random() < 0.2:
            return self._family(tag)
        if kind in ("write", "act"):
            if chance.random() < 0.3:
                item["retry"] = chance.choice((2, 3))
            if chance.random() < 0.15:
                item["fail"] = chance.choice((1, 99))
        if kind == "act":
            item["takes"] = chance.choice((0, 0.1, 1.0, 4.0))
        elif kind == "sleep":
            item["seconds"] = chance.choice((0, 0.05, 0.5, 3.0, 9.0))
        elif kind == "wait":
            # Only runs that clients know wait for ever: they are sent what they wait for.
            item["event"] = chance.choice(("go", "go", "stop"))
            if "/" in tag or tag.count(".") > 1 or chance.random() < 0.6:
                item["seconds"] = chance.choice((0, 0.3, 2.0, 8.0))
        elif kind == "poke":
            item |= {"to": f"f{chance.randrange(self._flows)}", "event": chance.choice(("go", "stop"))}
        elif kind == "child":
            item["flow"] = self._flow(f"{tag}.c", depth - 1)
            if chance.random() < 0.3:
                item["seconds"] = chance.choice((0, 0.4, 3.0))
        elif kind == "all":
            item["items"] = self._items(tag, chance.choice((2, 3, 5)), depth - 1)
        return item

    def _family(self, tag: str) -> Spec:
        """Children that end at almost the same time: so one ends in the batch in which its parent hears of another."""
        items: list[Spec] = []
        for number in range(self._chance.choice((3, 6))):
            name = f"{tag}.{number}"
            work = {"do": "write", "tag": f"{name}.c.0"}
            items.append({"do": "child", "tag": name, "flow": {"tag": f"{name}.c", "items": [work]}})
        return {"do": "all", "tag": tag, "items": items}


def waits(spec: Spec) -> list[Spec]:
    """The items of a flow, not of its children, that wait for an event, in every round."""
    found: list[Spec] = []

    def look(items: list[Spec]) -> None:
        for item in items:
            if item["do"] == "wait":
                found.append(item)
            look(item.get("items", []))

    for number in range(spec.get("rounds", 0) + 1):
        look(in_round(spec, number))
    return found
