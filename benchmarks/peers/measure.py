"""Measure one peer, inside that peer's own environment.

    python -m benchmarks.peers.measure peer_huey --out huey.json        (started by benchmarks.peers.run)
    python -m benchmarks.peers.measure peer_huey --worker drain         (started by the line above)

| measurement | how |
|---|---|
| import | best of 7: `python -c "import x"` less `python -c pass`, in milliseconds |
| enqueue | jobs one by one (one call and one commit each), and in bulk where the peer has a bulk call, a second |
| drain | due no-op jobs, one fresh worker process, from the first job's start until the store says all are final |
| latency | an idle worker, 50 jobs/s: from just before the enqueue call to the job's first line, in milliseconds |
| burst | jobs due at the same future second: start less due time, in milliseconds |
| idle | a worker with nothing to do: CPU %, memory of its processes, transactions/s it causes in PostgreSQL |
| steps | steps a second of workflows of 10 no-op steps, and of one workflow of 1,000; peers with durable steps |

Rates are repeated up to `--runs` times, but no longer than BUDGET_SECONDS, and given as median and best.
Microseconds of CPU a job, of the worker and of PostgreSQL, move less than rates on a machine with neighbours.
"""

import argparse
import asyncio
import importlib
import inspect
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_args

from benchmarks.peers.common import Ground, Mode, Peer
from benchmarks.peers.processes import StartLog, Worker, leave_with_parent, server_cpu_seconds

T = TypeVar("T")
Figures = dict[str, Any]

MEASUREMENTS: Final = ("import", "enqueue", "drain", "latency", "burst", "idle", "steps")
BUDGET_SECONDS: Final = 60.0
DRAIN_SECONDS_MAX: Final = 240.0
WARM_SECONDS: Final = 3.0
STEPS: Final = 10
STEPS_ALONE: Final = 1_000


async def settled(value: Awaitable[T] | T) -> T:
    """The value of a method that may be plain or async."""
    return await value if inspect.isawaitable(value) else value


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread_ms(seconds: list[float]) -> Figures:
    """Percentiles in milliseconds."""
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(1000 * percentile(seconds, share), 2) for name, share in shares.items()}


def rate(values: list[float]) -> Figures:
    """Median, best and all of repeated rates."""
    return {
        "median": round(statistics.median(values)),
        "best": round(max(values)),
        "runs": [round(value) for value in values],
    }


def import_ms(module: str) -> float:
    """Milliseconds that importing takes beyond starting Python."""

    def best(code: str) -> float:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)
            times.append(time.perf_counter() - began)
        return min(times)

    return round(1000 * (best(f"import {module}") - best("pass")), 1)


class Measurement:
    """The measurements of one peer; each is a method that returns figures."""

    def __init__(self, module: str, peer: Peer, ground: Ground, options: argparse.Namespace) -> None:
        self.module = module
        self.peer = peer
        self.ground = ground
        self.options = options

    def worker(self, mode: Mode, log: StartLog) -> Worker:
        """A fresh worker process."""
        return Worker(self.module, mode, log, self.ground.directory)

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Look every 10 ms whether the condition holds; False if it did not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    async def imports(self) -> Figures:
        """How long the import takes."""
        return {"import_ms": import_ms(self.peer.module)}

    async def enqueue(self) -> Figures:
        """Rates of putting jobs in."""
        found = {"enqueue_one_per_s": await self._enqueue_rate(self.peer.enqueue_one, self.options.n_one)}
        if hasattr(self.peer, "enqueue_bulk"):
            found["enqueue_bulk_per_s"] = await self._enqueue_rate(self.peer.enqueue_bulk, self.options.n)
        return found

    async def _enqueue_rate(self, put: Callable[[int], Awaitable[None] | None], n: int) -> Figures:
        rates: list[float] = []
        client: list[float] = []
        server: list[float] = []
        began = time.monotonic()
        while len(rates) < self.options.runs and (not rates or time.monotonic() - began < BUDGET_SECONDS):
            await settled(self.peer.reset())
            await settled(put(max(10, n // 20)))  # warm
            wall, own, theirs = time.perf_counter(), time.process_time(), server_cpu_seconds()
            await settled(put(n))
            rates.append(n / (time.perf_counter() - wall))
            client.append((time.process_time() - own) / n * 1e6)
            server.append((server_cpu_seconds() - theirs) / n * 1e6)
        return {**rate(rates), "client_cpu_us": median(client), "server_cpu_us": median(server)}

    async def drain(self) -> Figures:
        """Rate of working off due jobs."""
        n = min(self.options.n, getattr(self.peer, "drain_max", self.options.n))
        put = getattr(self.peer, "enqueue_bulk", self.peer.enqueue_one)
        return {"drain_per_s": await self._work_off("drain", lambda: put(n), n)}

    async def steps(self) -> Figures:
        """Rate of durable steps: of many workflows, and of one alone. Nothing for a peer that has none."""
        put = getattr(self.peer, "enqueue_steps", None)
        if put is None:
            return {}
        runs = min(self.options.workflows, getattr(self.peer, "workflows_max", self.options.workflows))
        alone = min(STEPS_ALONE, self.options.workflows * STEPS)
        return {
            "steps_per_s": await self._work_off("steps", lambda: put(runs, STEPS), runs * STEPS),
            "steps_alone_per_s": await self._work_off("steps", lambda: put(1, alone), alone),
        }

    async def _work_off(self, mode: Mode, put: Callable[[], Awaitable[None] | None], n: int) -> Figures:
        """Rate of a fresh worker, from the first of `n` records until the store says that all is final."""
        rates: list[float] = []
        worker_us: list[float] = []
        server_us: list[float] = []
        began = time.monotonic()
        while len(rates) < self.options.runs and (not rates or time.monotonic() - began < BUDGET_SECONDS):
            await settled(self.peer.reset())
            await settled(put())
            log = StartLog(self.ground.directory)
            theirs = server_cpu_seconds()
            worker = self.worker(mode, log)
            try:
                if not await self.until(lambda log=log: log.count() >= n, DRAIN_SECONDS_MAX):  # type: ignore[misc]
                    raise TimeoutError(f"{log.count()} of {n} started in {DRAIN_SECONDS_MAX:.0f} s")
                deadline = time.monotonic() + DRAIN_SECONDS_MAX
                while left := await settled(self.peer.pending()):
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{left} are not final {DRAIN_SECONDS_MAX:.0f} s after the last start")
                    await asyncio.sleep(0.01)
                seconds = time.time() - min(start for _, start in log.rows())
                worker_us.append(worker.cpu_seconds() / n * 1e6)
                server_us.append((server_cpu_seconds() - theirs) / n * 1e6)
                rates.append(n / seconds)
            finally:
                worker.stop()
        return {**rate(rates), "n": n, "worker_cpu_us": median(worker_us), "server_cpu_us": median(server_us)}

    async def latency(self) -> Figures:
        """From just before the enqueue call to the job's first line."""
        n = int(self.options.rate * self.options.seconds)
        await settled(self.peer.reset())
        log = StartLog(self.ground.directory)
        worker = self.worker("latency", log)
        try:
            await asyncio.sleep(WARM_SECONDS)
            began = time.time()
            for number in range(n):
                await asyncio.sleep(max(0.0, began + number / self.options.rate - time.time()))
                await settled(self.peer.enqueue_ts(time.time()))
            await self.until(lambda: log.count() >= n, 30)
            cpu = worker.cpu_seconds() / (time.time() - began + WARM_SECONDS)
        finally:
            worker.stop()
        late = self._lateness(log, n)
        return {"latency_ms": {**spread_ms(late), "n": len(late), "worker_cpu_pct": round(100 * cpu, 1)}}

    async def burst(self) -> Figures:
        """How late jobs start that are all due in the same second."""
        n, ahead = self.options.burst, self.options.burst_in
        await settled(self.peer.reset())
        log = StartLog(self.ground.directory)
        worker = self.worker("burst", log)
        try:
            await asyncio.sleep(WARM_SECONDS)
            due = float(int(time.time()) + ahead)
            await settled(self.peer.enqueue_at(n, due))
            spare = due - time.time()
            await self.until(lambda: log.count() >= n, ahead + 60)
        finally:
            worker.stop()
        late = self._lateness(log, n)
        return {"burst_ms": {**spread_ms(late), "n": len(late), "put_before_due_s": round(spare, 2)}}

    def _lateness(self, log: StartLog, n: int) -> list[float]:
        rows = log.rows()
        if len(rows) != n:
            raise RuntimeError(f"{len(rows)} jobs started, {n} were put in")
        return [start - due for due, start in rows]

    async def idle(self) -> Figures:
        """What a worker costs that has nothing to do."""
        await settled(self.peer.reset())
        worker = self.worker("idle", StartLog(self.ground.directory))
        on_postgres = self.ground.database == "postgres"
        try:
            await asyncio.sleep(WARM_SECONDS + 2)
            cpu, began = worker.cpu_seconds(), time.time()
            transactions = self.ground.transactions() if on_postgres else 0
            await asyncio.sleep(self.options.idle)
            seconds = time.time() - began
            figures = {
                "cpu_pct": round(100 * (worker.cpu_seconds() - cpu) / seconds, 2),
                "rss_mb": round(worker.memory_mb(), 1),
                "processes": len(worker.processes()),
            }
            if on_postgres:
                await asyncio.sleep(1.2)  # PostgreSQL publishes its counters once a second
                per_second = (self.ground.transactions() - transactions) / (time.time() - began)
                figures["transactions_per_s"] = round(per_second, 1)
        finally:
            worker.stop()
        return {"idle": figures}


def median(values: list[float]) -> int:
    """The median, to whole numbers."""
    return round(statistics.median(values))


async def measure(module: str, peer: Peer, options: argparse.Namespace) -> Figures:
    """All measurements that were asked for; one that fails is reported in its place and the others go on."""
    ground = Ground.of_this_run()
    subject = Measurement(module, peer, ground, options)
    found: Figures = {
        "peer": peer.name,
        "database": ground.database,
        "version": peer.version,
        "python": platform.python_version(),
        "settings": peer.settings,
        "promise": peer.promise,
        "load1": round(os.getloadavg()[0], 2),
        "errors": {},
    }
    methods = {"import": subject.imports} | {name: getattr(subject, name) for name in MEASUREMENTS[1:]}
    for name in options.only:
        try:
            figures = await methods[name]()
        except Exception as error:
            found["errors"][name] = f"{type(error).__name__}: {error}"
            print(f"{peer.name} {name}: FAILED: {found['errors'][name]}", flush=True)
            continue
        found |= figures
        print(f"{peer.name} {name}: {json.dumps(figures)}", flush=True)
    await settled(peer.close())
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much to measure; shared with `benchmarks.peers.run`, which hands them on."""
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=MEASUREMENTS, help="these alone")
    parser.add_argument("--n", type=int, default=20_000, help="jobs to drain and to put in in bulk")
    parser.add_argument("--n-one", type=int, default=2_000, help="jobs to put in one by one")
    parser.add_argument("--runs", type=int, default=3, help="repetitions of rates, at most")
    parser.add_argument("--rate", type=float, default=50.0, help="jobs a second while latency is measured")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long latency is measured")
    parser.add_argument("--burst", type=int, default=1_000, help="jobs due in the same second")
    parser.add_argument("--burst-in", type=int, default=8, help="how many seconds ahead they are put in")
    parser.add_argument("--workflows", type=int, default=1_000, help=f"workflows of {STEPS} steps")
    parser.add_argument("--idle", type=float, default=15.0, help="how long an idle worker is watched")


def option_arguments(options: argparse.Namespace) -> list[str]:
    """The options as arguments again, for the process that measures."""
    words = ["--only", *options.only]
    for name in ("n", "n_one", "runs", "rate", "seconds", "burst", "burst_in", "workflows", "idle"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return words


def main() -> None:
    """Measure, or be the worker of a measurement."""
    parser = argparse.ArgumentParser(description="Measure one peer in its own environment.")
    parser.add_argument("module", help="peer_<name>, a module beside this one")
    parser.add_argument("--worker", choices=get_args(Mode), help="run the worker instead")
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    add_options(parser)
    options = parser.parse_args()
    leave_with_parent()
    peer = cast(Peer, importlib.import_module(f"benchmarks.peers.{options.module}").PEER())
    if options.worker:
        working = peer.worker(options.worker)
        if inspect.isawaitable(working):
            asyncio.run(cast(Any, working))
        return
    found = asyncio.run(measure(options.module, peer, options))
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.flush()
    os._exit(0)  # some peers leave threads behind that would keep the process


if __name__ == "__main__":
    main()
