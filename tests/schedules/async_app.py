"""An app whose action manages schedules."""

from evertick import ActionCtx, App, MutationCtx, every

async_app = App("async")


@async_app.mutation
def tick(ctx: MutationCtx) -> None:
    ctx.db.insert("ticks", {})


@async_app.action
async def manage(ctx: ActionCtx) -> list[str]:
    said = []
    created = await ctx.schedules.create("s", when=every(minutes=1), do=tick)
    said.append(f"created {created.sentence}")
    paused = await ctx.schedules.pause("s", "night")
    said.append(f"paused {paused.note}")
    triggered = await ctx.schedules.trigger("s")
    said.append(f"triggered {triggered.fate}")
    page = await ctx.schedules.list()
    said.append(f"listed {len(page.schedules)}")
    said.append(f"deleted {await ctx.schedules.delete_all()}")
    return said
