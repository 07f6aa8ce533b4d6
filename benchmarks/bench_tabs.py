"""What open pages of the dashboard cost the worker: the drain of many jobs, with no page open and with fifty.

    python -m benchmarks.bench_tabs [--jobs 60000] [--tabs 50] [--rounds 3] [--store disk|ram]

A worker and `evertick serve` in processes of their own. A tab is what `dash.js` does: it holds the stream of hints, and
after each hint reads its page again, half a second later at first and more and more seldom while hints go on. With and
without tabs in turns; prints the drain rates, how many pages were read, and the ratio.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx2

from benchmarks.peers.run import ground
from evertick import App, MutationCtx
from evertick.dashboard.page import LIVE_HEADER, PAUSE_HEADER

BULK: Final = 1_000
READ_FIRST_S: Final = 0.5
READ_MAX_S: Final = 10.0
PAGES: Final = ("schedules", "functions", "")
PATIENCE_S: Final = 300.0

app = App("bench", database_url="sqlite://")


@app.mutation(name="change")
def change(ctx: MutationCtx) -> None: ...


@contextmanager
def process(what: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """A worker or a server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_tabs", "--be", what, url]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.terminate()
        running.wait()


class Tabs:
    """Open pages, for as long as the block lasts."""

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self._count = count
        self.reads = 0

    async def run(self, end: asyncio.Event) -> None:
        """Hold all tabs open until the end."""
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=self._address, timeout=60, limits=limits) as client:
            tabs = [asyncio.create_task(self._tab(client, PAGES[n % len(PAGES)])) for n in range(self._count)]
            await end.wait()
            for tab in tabs:
                tab.cancel()
            await asyncio.gather(*tabs, return_exceptions=True)

    async def _tab(self, client: httpx2.AsyncClient, page: str) -> None:
        hinted = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, hinted))
        wait_s = READ_FIRST_S
        try:
            while True:
                if not hinted.is_set():
                    await hinted.wait()
                    await asyncio.sleep(READ_FIRST_S)
                hinted.clear()
                reply = await client.get(f"/t/default/{page}".rstrip("/"), headers={LIVE_HEADER: "1"})
                reply.raise_for_status()
                self.reads += 1
                wait_s = max(min(wait_s * 2, READ_MAX_S), int(reply.headers[PAUSE_HEADER]) / 1000)
                await asyncio.sleep(wait_s)
                if not hinted.is_set():
                    wait_s = READ_FIRST_S
        finally:
            listening.cancel()

    async def _listen(self, client: httpx2.AsyncClient, hinted: asyncio.Event) -> None:
        async with client.stream("GET", "/t/default/events", timeout=None) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: jobs"):
                    hinted.set()


def drain(url: str, jobs: int) -> float:
    """Jobs a second of a worker that is started now."""
    for _ in range(jobs // BULK):
        app.scheduler.run_after_many(0, [change.with_args()] * BULK)
    with process("worker", url):
        done = app.jobs.counts()["success"]
        while app.jobs.counts()["success"] == done:  # it starts
            time.sleep(0.02)
        began, deadline = time.monotonic(), time.monotonic() + PATIENCE_S
        while app.jobs.list(state="pending", limit=1).jobs:
            if time.monotonic() > deadline:
                raise TimeoutError("the jobs were not drained")
            time.sleep(0.05)
        return jobs / (time.monotonic() - began)


def measure(name: str, url: str, jobs: int, tabs: int, rounds: int) -> None:
    """All figures of one database."""
    app._database_url = url
    app.migrate()
    alone, beside, reads = [], [], 0
    with process("server", url) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        for _ in range(rounds):
            alone.append(drain(url, jobs))
            rate, read = asyncio.run(_beside(address, url, jobs, tabs))
            beside.append(rate)
            reads += read
    app.close()
    ratio = statistics.median(beside) / statistics.median(alone)
    print(
        f"{name}: {statistics.median(alone):,.0f} jobs/s alone, {statistics.median(beside):,.0f} beside {tabs} tabs "
        f"({reads} pages read): {ratio:.2f}"
    )


async def _beside(address: str, url: str, jobs: int, count: int) -> tuple[float, int]:
    tabs, end = Tabs(address, count), asyncio.Event()
    running = asyncio.create_task(tabs.run(end))
    await asyncio.sleep(1)
    rate = await asyncio.to_thread(drain, url, jobs)
    end.set()
    await running
    return rate, tabs.reads


def be(what: str, url: str) -> None:
    """The process of a worker, or of a server without tokens, which prints its address."""
    app._database_url = url
    if what == "worker":
        app.run()
        return
    from evertick.dashboard.application import Dashboard
    from evertick.server.application import Server
    from evertick.server.process import listen, uvicorn_of

    app.open()
    server, listening = Server(app, asks_tokens=False), listen("127.0.0.1", 0)
    server.show(Dashboard())
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    asyncio.run(uvicorn_of(server).serve(sockets=[listening]))


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=60_000)
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    parser.add_argument("--be", nargs=2, metavar=("WHAT", "URL"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.be is not None:
        be(*asked.be)
        return 0
    with ground(asked.store) as (server, folder):
        for name, url in (("sqlite", f"sqlite:///{folder}/bench.db"), ("postgres", server.databases.create())):
            measure(name, url, asked.jobs, asked.tabs, asked.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
