"""The functions that a simulated app runs: small interpreters of a *spec*, a tree that says what a job does.

Every effect carries a tag. A mutation writes one document with its tag, and schedules its children, in its own
transaction; an action calls the outside world under its tag. So the checker can compare what was asked for with what
became of it, job by job. The functions are registered once; each simulated process gets an app of its own with them.
"""

import asyncio
from typing import Any, Final

from evertick.app.app import App
from evertick.app.execution.contexts import ActionCtx, MutationCtx
from evertick.app.functions.options import Retry
from evertick.base.errors import OutcomeUnknown
from tests.simulation.processes import ProcessKilled, current_process
from tests.simulation.world import World

Spec = dict[str, Any]
"""`tag`, `kind` (one of KINDS) and what it does:

fail: the first so many attempts raise · children: specs, each with `delay`, and with `key`, `retry` or `tell` (an
on_complete; `tell_for` are the ends that it is told of) if it shall have one · nested: a spec that is run as a mutation
inside · cancel: cancel any job ·
takes: seconds an action takes · late: an action cancels itself, and asks for these specs before it hears of that
"""


class Planned(Exception):
    """The failure that a spec asked for."""


class Stage:
    """Where the functions find the world they act in: one run at a time in a thread."""

    world: World


FUNCTIONS: Final = App("simulation", database_url="sqlite://")
FUNCTIONS.table("items", indexes={"by_state": ["group", "state"]})


def schedule(scheduler: Any, spec: Spec, **options: Any) -> Any:
    """Schedule a spec as a job, with the options it asks for."""
    if spec.get("key"):
        options |= {"key": spec["key"], "on_conflict": spec.get("on_conflict", "keep")}
    if spec.get("retry"):
        options["retry"] = Retry(spec["retry"], first=spec.get("first", 0.2), cap=1.0)
    if spec.get("tell"):
        options |= {"on_complete": tell, "context": spec["tag"], "on_complete_for": spec.get("tell_for", ())}
    options["limit_key"] = limit_key_of(spec["tag"])
    return scheduler.using(**options).run_after(spec.get("delay", 0), KINDS[spec["kind"]], spec)


def limit_key_of(tag: str) -> str | None:
    """The key of a job, of which the pool may run some at a time; not drawn: recorded seeds stay what they are."""
    number = sum(map(ord, tag)) % 4
    return f"c{number}" if number else None


def retagged(spec: Spec, tag: str) -> Spec:
    """The same under another tag, all that grows on it too: an action that is tried again asks for new jobs."""
    changed = {**spec, "tag": tag}
    if "children" in spec:
        changed["children"] = [retagged(child, f"{tag}.{n}") for n, child in enumerate(spec["children"])]
    if "nested" in spec:
        changed["nested"] = retagged(spec["nested"], f"{tag}.n")
    return changed


@FUNCTIONS.mutation(name="work")
def work(ctx: MutationCtx, spec: Spec) -> str:
    """One effect, and children."""
    tag = spec["tag"]
    ctx.db.insert("effects", {"tag": tag, "job": ctx.job_id})
    if spec.get("count"):
        counter = ctx.db.query("counters").first()
        if counter is None:
            ctx.db.insert("counters", {"value": 1})
        else:
            ctx.db.patch(counter["_id"], {"value": counter["value"] + 1})
    for child in spec.get("children", ()):
        schedule(ctx.scheduler, child)
    if spec.get("nested"):
        try:
            ctx.run_mutation(work, spec["nested"])
        except Planned:
            pass
    if spec.get("cancel"):
        other = Stage.world.some_job()
        if other is not None and other != ctx.job_id:
            ctx.scheduler.cancel(other)
    if ctx.attempt <= spec.get("fail", 0):
        raise Planned(tag)
    return str(tag)


@FUNCTIONS.mutation(name="newer")
def newer(ctx: MutationCtx, spec: Spec) -> str:
    """As `work`, in a version of the program that not every worker runs yet."""
    return work.handler(ctx, spec)  # type: ignore[no-any-return]


@FUNCTIONS.mutation(name="poison")
def poison(ctx: MutationCtx, spec: Spec) -> None:
    """Kills the process that runs it."""
    Stage.world.rare["poison_ran"] += 1
    process = current_process()
    if process.killable:
        Stage.world.loop.kill(process)
        raise ProcessKilled("poison")


@FUNCTIONS.action(name="poison_act")
async def poison_act(ctx: ActionCtx, spec: Spec) -> None:
    """Kills the process that runs it, after a while."""
    Stage.world.rare["poison_acted"] += 1
    with Stage.world.acts(str(ctx.job_id)):
        await asyncio.sleep(spec["takes"])
    process = current_process()
    if process.killable:
        Stage.world.loop.kill(process)
        raise ProcessKilled("poison_act")


@FUNCTIONS.mutation(name="push")
def push(ctx: MutationCtx, spec: Spec) -> None:
    """Put an item where `sweep` finds it, and see to it that there is a `sweep`: the lost wake-up, if anything is."""
    ctx.db.insert("effects", {"tag": spec["tag"], "job": ctx.job_id})
    group = spec.get("group", "")
    ctx.db.insert("items", {"tag": spec["tag"], "group": group, "state": "new"})
    ctx.scheduler.using(key=f"sweep {group}").run_after(0, sweep, group)


@FUNCTIONS.mutation(name="sweep")
def sweep(ctx: MutationCtx, group: str) -> None:
    """Take every item of a group that waits."""
    for item in ctx.db.query("items").with_index("by_state", group=group, state="new").collect():
        ctx.db.patch(item["_id"], {"state": "swept"})


@FUNCTIONS.mutation(name="renew_self")
def renew_self(ctx: MutationCtx, spec: Spec) -> None:
    """Tries to replace itself under its own key, which is refused: that job ends failed."""
    again = {"tag": spec["tag"] + "~", "kind": "mutation", "key": spec["key"], "on_conflict": "replace"}
    schedule(ctx.scheduler, again)


@FUNCTIONS.mutation(name="tell")
def tell(ctx: MutationCtx, job_id: str, context: str, result: dict[str, Any]) -> None:
    """An `on_complete`: notes that it was told."""
    ctx.db.insert("told", {"job": job_id, "context": context, "kind": result["kind"]})


@FUNCTIONS.action(name="act")
async def act(ctx: ActionCtx, spec: Spec) -> str:
    """Calls outside, takes its time, schedules and calls mutations on the way."""
    with Stage.world.acts(str(ctx.job_id)):
        return await _act(ctx, spec)


async def _act(ctx: ActionCtx, spec: Spec) -> str:
    world = Stage.world
    tag = f"{spec['tag']}@{ctx.attempt}"
    world.call_outside(str(ctx.job_id), ctx.attempt, spec["tag"])
    for number, child in enumerate(spec.get("children", ())):
        await asyncio.sleep(spec.get("takes", 0) / 4)
        await _ask_for(ctx, retagged(child, f"{tag}.{number}"))
    await asyncio.sleep(spec.get("takes", 0) / 2)
    if spec.get("cancel"):
        await _cancel(ctx, world.some_job())
    if spec.get("late"):
        await _cancel(ctx, ctx.job_id)
        for number, child in enumerate(spec["late"]):
            await _ask_for(ctx, retagged(child, f"{tag}.late{number}"))
    if ctx.attempt <= spec.get("fail", 0):
        raise Planned(tag)
    return tag


async def _ask_for(ctx: ActionCtx, spec: Spec) -> None:
    """Schedule a spec, or call it."""
    world = Stage.world
    world.note(spec["tag"])
    if not spec.get("call"):
        world.acknowledged.add(await schedule(ctx.scheduler, spec))
        return
    try:
        await ctx.run_mutation(work, spec)
    except Planned:
        world.note(spec["tag"], most=0)
    else:
        world.note(spec["tag"], least=1)


async def _cancel(ctx: ActionCtx, job_id: str | None) -> None:
    if job_id is None:
        return
    try:
        await ctx.scheduler.cancel(job_id)
    except OutcomeUnknown:
        Stage.world.rare["cancel_unknown"] += 1
    else:
        Stage.world.note_cancel(job_id, str(ctx.tenant))


KINDS: Final = {
    "mutation": work,
    "newer": newer,
    "poison": poison,
    "poison_act": poison_act,
    "push": push,
    "renew_self": renew_self,
    "action": act,
}
