"""Mutations called through the HTTP API at a steady rate: how long a reply takes.

    python -m benchmarks.bench_http [--rate 300] [--seconds 60] [--store disk|ram]

One `evertick serve --worker` process, one client process with 50 connections that sends a request every 1/rate seconds,
whether the ones before have been replied to or not. Prints p50, p99 and the longest time of a reply in milliseconds,
and how long the server takes to end at SIGTERM while requests are under way.
"""

import argparse
import asyncio
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import httpx2

from benchmarks.peers.run import ground

APP: Final = """
from evertick import App, MutationCtx

app = App("bench")

@app.mutation
def order(ctx: MutationCtx, item: str) -> str:
    return ctx.db.insert("orders", {"item": item})
"""
CALL: Final = "/api/v1/tenants/default/functions/app.order/call"
CONNECTIONS: Final = 50


async def load(url: str, token: str, rate: int, seconds: float) -> list[float]:
    """The times of the replies, in milliseconds. Raises AssertionError for one that is not good."""
    found: list[float] = []
    limits = httpx2.Limits(max_connections=CONNECTIONS)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:

        async def one() -> None:
            began = time.perf_counter()
            reply = await client.post(CALL, json={"args": {"item": "bread"}})
            assert reply.status_code == 200, reply.text
            found.append((time.perf_counter() - began) * 1000)

        begin = time.perf_counter()
        calls = []
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            calls.append(asyncio.create_task(one()))
        await asyncio.gather(*calls)
    return found


def measure(name: str, database: str, rate: int, seconds: float) -> None:
    """The figures of one database."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APP)
        evertick = [sys.executable, "-m", "evertick.cli.main"]
        subprocess.run([*evertick, "migrate", "--db", database], cwd=folder, check=True, capture_output=True)
        words = [*evertick, "serve", "--worker", "--port", "0", "--db", database]
        server = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert server.stdout is not None and server.stderr is not None
        token = re.findall(r"evt_\w+", server.stdout.readline() + server.stdout.readline())[0]
        [url] = re.findall(r"http://[\d.:]+", server.stderr.readline())
        asyncio.run(load(url, token, rate, 2))
        times = sorted(asyncio.run(load(url, token, rate, seconds)))

        async def end() -> float:
            beside = asyncio.gather(load(url, token, rate, 1), return_exceptions=True)
            await asyncio.sleep(0.5)
            server.send_signal(signal.SIGTERM)
            began = time.perf_counter()
            await asyncio.to_thread(server.wait)
            ended = time.perf_counter() - began
            await beside
            return ended

        ended = asyncio.run(end())
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(
        f"{name:9} {len(times)} replies at {rate}/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {times[-1]:.1f} ms; "
        f"ended {ended:.2f} s after SIGTERM with code {server.returncode}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    options = parser.parse_args()
    with ground(options.store) as (server, folder):
        for name, url in (("sqlite", f"sqlite:///{folder}/bench.db"), ("postgres", server.databases.create())):
            measure(name, url, options.rate, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
