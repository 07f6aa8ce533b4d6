"""The programs of a rolling upgrade: a worker, a client and a migration, each of one of three releases.

The releases are this code with further steps of the schema: `b` expands it (a column, a table, an index that is built
beside the workers), `c` contracts what only releases before `b` needed.
"""

import asyncio
import json
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from evertick import App, MutationCtx, Settings
from evertick.base.errors import SchemaMismatch
from evertick.base.ids import JobId
from evertick.store import schema
from evertick.store.schema import Step

KNOWN: Final = schema.steps("postgres")
NOW: Final = KNOWN[-1].number
EXPAND: Final = Step(
    NOW + 1,
    f"{NOW + 1:04}_expand",
    f"-- oldest code: {NOW}\n"
    "alter table jobs add column made_up integer;\n"
    "create table made_up (id text primary key);\n"
    "-- afterwards:\n"
    "create index concurrently jobs_made_up on jobs (made_up, id);\n",
)
CONTRACT: Final = Step(
    NOW + 2,
    f"{NOW + 2:04}_contract",
    f"-- oldest code: {NOW + 1}\ndrop table made_up;\nalter table jobs drop column made_up;\n",
)
RELEASES: Final = {"a": KNOWN, "b": (*KNOWN, EXPAND), "c": (*KNOWN, EXPAND, CONTRACT)}
SETTINGS: Final = Settings(lease=timedelta(seconds=2), drain=timedelta(seconds=2))
TICK_S: Final = 0.02
"""How often a client schedules."""


def app_of(url: str, release: str) -> App:
    """The app, in code of a release."""
    schema.steps = lambda dialect: RELEASES[release]  # type: ignore[assignment]
    app = App("upgrades", database_url=url, settings=SETTINGS)

    @app.mutation(name="mark")
    def mark(ctx: MutationCtx, number: int, asked: float) -> None:
        ctx.db.insert("marks", {"number": number, "release": release, "asked": asked, "ran": time.time()})

    return app


def run_worker(url: str, release: str) -> None:
    """Run jobs until SIGTERM. Ends with exit code 7 if the database is not for this release."""
    app = app_of(url, release)

    async def main() -> None:
        worker = app.worker()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()

    try:
        asyncio.run(main())
    except SchemaMismatch as error:
        raise SystemExit(7) from error


def migrate(url: str, release: str, said: Path) -> None:
    """Migrate as a release does; `said` is where its words go."""
    try:
        said.write_text(json.dumps(app_of(url, release).migrate()))
    except SchemaMismatch as error:
        said.write_text(str(error))
        raise SystemExit(7) from error


def run_client(url: str, release: str, rate: int, first: int, confirmed: Path) -> None:
    """Schedule `rate` jobs a second from number `first` on until SIGTERM; write down what was confirmed."""
    app = app_of(url, release)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    mark = app.functions.resolve("mark")
    app.environment.store.check_schema()  # connect before the first call is timed
    number, slowest, began, jobs = first, 0.0, time.monotonic(), list[JobId]()
    while not stopped:
        due = first + int((time.monotonic() - began) * rate)
        if due > number:
            asked = time.time()
            jobs += app.scheduler.run_after_many(0, [mark.with_args(each, asked) for each in range(number, due)])
            slowest, number = max(slowest, time.time() - asked), due
            confirmed.with_suffix(".begun").touch()
        time.sleep(TICK_S)
    confirmed.write_text(json.dumps({"first": first, "after": number, "jobs": len(jobs), "slowest": slowest}))
    app.close()
