"""Alarms: a request schedules one, a worker rings. `uvicorn app:api` serves; `evertick worker app.py` runs the jobs."""

import os

from litestar import Litestar, Request, asgi, delete, post
from litestar.datastructures import State

from evertick import ActionCtx, App
from evertick.integrations.asgi import lifespan, router

app = App("alarms", database_url=os.environ.get("ALARMS_DATABASE_URL", "sqlite:///alarms.db"))


@app.action
async def ring(ctx: ActionCtx, text: str) -> None:
    """Ring. A real one would send a message."""
    ctx.log.info("ring: %s", text)


@post("/alarms")
async def set_alarm(request: Request[None, None, State]) -> dict[str, str]:
    """Set an alarm: what it says, and in how many seconds; returns its id."""
    alarm = await request.json()
    return {"id": await app.aio.scheduler.run_after(alarm["after"], ring, alarm["text"])}


@delete("/alarms/{alarm_id:str}")
async def stop_alarm(request: Request[None, None, State]) -> None:
    """Stop an alarm before it rings."""
    await app.aio.scheduler.cancel(request.path_params["alarm_id"])


# Programs with a token of Evertick's (`evertick token create`) reach its HTTP API below /jobs.
jobs = asgi("/jobs", is_mount=True, copy_scope=True)(router(app, tokens=True))

api = Litestar([set_alarm, stop_alarm, jobs], lifespan=[lifespan(app)])
