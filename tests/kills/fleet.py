"""A fleet on one PostgreSQL: `evertick serve` and `evertick worker` as real processes, and clients over HTTP.

Each client sends a call of a mutation, or a new job, with an `Idempotency-Key`, and sends it again, to one server after
the other, until it is acknowledged. `judge` compares what was acknowledged with what is there: each effect exactly
once, each call to the outside at most once, each second of the schedule once.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg

from evertick import MutationCtx, every
from evertick.app.app import App
from tests.kills import fleet_app
from tests.postgres import free_port

COMMAND: Final = (sys.executable, "-P", "-m", "evertick.cli.main")
HOME: Final = "/api/v1/tenants/default"
CLIENTS: Final = 4
PAUSE_S: Final = 0.08
"""Between two calls of a client, on average."""
REPLY_S: Final = 10.0
REST_S: Final = 90.0
START_S: Final = 120.0
END_S: Final = 60.0
CONNECT_S: Final = 30
"""A machine that is busy with other tests takes long to start processes, to end them, and to let somebody in."""
UNFINISHED: Final = "select count(*) from evertick.jobs where state in ('pending', 'in_progress')"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A call that a server has confirmed."""

    tag: str
    server: str
    at: float
    """By `time.time`."""
    took_s: float
    """From when it was sent first."""


@dataclass(slots=True)
class Verdict:
    """What is there in the end."""

    acknowledged: int = 0
    effects: int = 0
    actions: int = 0
    ticks: int = 0
    lost_actions: int = 0
    """Actions whose worker was lost, or was taken for lost."""
    wrong: list[str] = field(default_factory=list)


class Fleet:
    """Servers, workers and clients of one database."""

    def __init__(self, url: str, folder: Path, *, servers: int = 2, workers: int = 2, pause_s: float = PAUSE_S) -> None:
        self.url = url
        self._pause_s = pause_s
        self.acknowledged: list[Acknowledged] = []
        self.refused: list[str] = []
        """Replies that no client expects."""
        self._folder = folder
        self._ports = {f"server{n}": free_port() for n in range(servers)}
        self.roles = [*self._ports, *(f"worker{n}" for n in range(workers))]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._silent: dict[str, int] = {}
        """How long the log of each process was when it was started."""
        self.pids: dict[int, str] = {}
        """The role of every process that there ever was."""
        self._token = ""
        self._ending = threading.Event()
        self._clients: list[threading.Thread] = []

    def begin(self) -> None:
        """Migrate, start everything, and wait until each server is ready and a worker has run a job."""
        app = App("fleet", database_url=self.url, settings=fleet_app.SETTINGS)
        app.migrate()
        self._token = app.tokens.create("fleet", scope="admin").secret
        tick = app.mutation(name="tick")(_tick)
        app.schedules.create("seconds", when=every(seconds=1), do=tick.with_args(), overlap="allow_all")
        app.close()
        for role in self.roles:
            self.start(role)
        self._clients = [threading.Thread(target=self._call_again_and_again, args=(n,)) for n in range(CLIENTS)]
        for client in self._clients:
            client.start()
        deadline = time.monotonic() + START_S
        while len({each.server for each in self.acknowledged}) < len(self._ports) or self.worker_times(0) == {}:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the fleet did not start; see {self._folder}")
            time.sleep(0.05)

    def start(self, role: str) -> None:
        """Start the process of a role."""
        words = ["worker"] if role.startswith("worker") else ["serve"]
        port = [] if role.startswith("worker") else ["--port", str(self._ports[role])]
        root = Path(__file__).parents[2]
        environment = os.environ | {
            "EVERTICK_DATABASE_URL": self.url,
            "FLEET_CALLS": str(self._folder / "calls"),
            "PYTHONPATH": f"{root / 'src'}:{root}",
        }
        environment.pop("PGCONNECT_TIMEOUT", None)  # which a slow machine's tests may need, and a failover may not
        with (self._folder / role).open("ab") as log:
            self._silent[role] = log.tell()
            process = subprocess.Popen(
                [*COMMAND, *words, str(Path(fleet_app.__file__)), *port],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self._folder,
            )  # fmt: skip
        self.processes[role] = process
        self.pids[process.pid] = role

    def rest(self) -> bool:
        """End the clients when each of their calls is acknowledged, and pause the schedule; whether all jobs ended."""
        self._ending.set()
        for client in self._clients:
            client.join(REST_S)
        deadline = time.monotonic() + REST_S
        while not self._pause():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        while time.monotonic() < deadline:
            if self.query(UNFINISHED) == [(0,)]:
                return not any(client.is_alive() for client in self._clients)
            time.sleep(0.1)
        return False

    def _pause(self) -> bool:
        """Pause the schedule, through a server that may just be starting; whether it did."""
        where = f"http://127.0.0.1:{self._ports['server0']}{HOME}/schedules/seconds/pause"
        try:
            reply = httpx2.post(where, json={"note": "the end"}, headers={"Authorization": f"Bearer {self._token}"})
        except httpx2.HTTPError:
            return False
        return reply.is_success

    def stop(self) -> list[str]:
        """End every process by SIGTERM; returns which did not end in order."""
        self._ending.set()
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        found = []
        for role, process in self.processes.items():
            try:
                code = process.wait(END_S)
                only_began = (self._folder / role).stat().st_size == self._silent[role]  # and knew no signals yet
                if code and not (code == -signal.SIGTERM and only_began):
                    found.append(f"{role} ended with {process.returncode}")
            except subprocess.TimeoutExpired:
                found.append(f"{role} did not end")
                process.kill()
                process.wait()
        return found

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Ask the primary."""
        with psycopg.connect(self.url, target_session_attrs="read-write", connect_timeout=CONNECT_S) as connection:
            return connection.execute(text.encode()).fetchall()

    def worker_times(self, after: float) -> dict[str, float]:
        """When each worker ran its first job after a time."""
        asked = (
            "select body::json ->> 'pid', min((body::json ->> 'at')::float) from evertick.documents "
            f"where (body::json ->> 'at')::float > {after} group by 1"
        )
        roles = {self.pids.get(int(pid), "nobody"): float(at) for pid, at in self.query(asked)}
        return {role: at for role, at in roles.items() if role.startswith("worker")}

    def server_times(self, after: float) -> dict[str, float]:
        """When each server acknowledged its first call after a time."""
        times: dict[str, float] = {}
        for each in [each for each in self.acknowledged if each.at > after]:
            times[each.server] = min(each.at, times.get(each.server, each.at))
        return times

    def judge(self) -> Verdict:
        """Compare everything with everything."""
        verdict = Verdict(acknowledged=len(self.acknowledged), wrong=list(self.refused))
        effects = Counter(json.loads(body)["tag"] for (body,) in self.query("select body from evertick.documents"))
        states = {
            json.loads(args).get("tag"): (state, error or "")
            for args, state, error in self.query(
                "select args, state, error from evertick.history where name in ('leaf', 'call_out')"
            )
        }
        path = self._folder / "calls"
        calls = Counter(line.split()[0] for line in path.read_text().splitlines()) if path.exists() else Counter[str]()
        verdict.effects, verdict.actions = effects.total(), calls.total()
        verdict.lost_actions = sum("LostWorker" in error for _, error in states.values())
        verdict.wrong += [f"{tag} has {count} effects" for tag, count in effects.items() if count > 1]
        verdict.wrong += [f"{tag} called out {count} times" for tag, count in calls.items() if count > 1]
        for tag in [each.tag for each in self.acknowledged]:
            if not effects[tag]:
                verdict.wrong.append(f"the acknowledged {tag} has no effect")
            if not effects[f"{tag}.m"]:
                verdict.wrong.append(f"{tag}.m has no effect")
            state, error = states.get(f"{tag}.a", ("none", ""))
            if state == "success" and not calls[f"{tag}.a"]:
                verdict.wrong.append(f"{tag}.a is a success and never called out")
            elif state != "success" and "LostWorker" not in error:
                verdict.wrong.append(f"{tag}.a is {state} {error}")
        verdict.wrong += self._judge_schedule(verdict, effects)
        return verdict

    def _judge_schedule(self, verdict: Verdict, effects: Counter[str]) -> Iterator[str]:
        rows = self.query("select nominal_at, fate from evertick.occurrences order by 1")
        times = [nominal_at for nominal_at, _ in rows]
        verdict.ticks = len(times)
        if times != list(range(times[0], times[-1] + 1, 1000)):
            yield f"of {(times[-1] - times[0]) // 1000 + 1} seconds {len(times)} are in the ledger"
        started = sum(fate == "started" for _, fate in rows)
        ran = sum(tag.startswith("tick ") for tag in effects)
        if started != ran:
            yield f"{started} occurrences were started, {ran} ran"

    def _call_again_and_again(self, number: int) -> None:
        chance = random.Random(number)
        with httpx2.Client(headers={"Authorization": f"Bearer {self._token}"}, timeout=REPLY_S) as http:
            count = 0
            while not self._ending.is_set():
                count += 1
                self._until_acknowledged(http, f"c{number}-{count}", count)
                time.sleep(chance.uniform(0, 2 * self._pause_s))

    def _until_acknowledged(self, http: httpx2.Client, tag: str, count: int) -> None:
        """Send a call to one server after the other, with the same key, until one of them confirms it."""
        began, tries, servers = time.time(), count, list(self._ports)
        deadline = time.monotonic() + REST_S
        while time.monotonic() < deadline:
            server = servers[tries % len(servers)]
            where = f"http://127.0.0.1:{self._ports[server]}{HOME}"
            tries += 1
            try:
                if count % 2:
                    reply = http.post(
                        f"{where}/functions/pay/call", json={"args": {"tag": tag}}, headers={"Idempotency-Key": tag}
                    )
                else:
                    body = {"function": "pay", "args": {"tag": tag}}
                    reply = http.post(f"{where}/jobs", json=body, headers={"Idempotency-Key": tag})
            except httpx2.HTTPError:
                time.sleep(0.05)
                continue
            if reply.status_code in (200, 201):
                at = time.time()
                self.acknowledged.append(Acknowledged(tag, server, at, at - began))
                return
            if reply.status_code not in (409, 503, 504):
                self.refused.append(f"{tag} was replied to with {reply.status_code}: {reply.text[:200]}")
                return
            time.sleep(0.05)
        self.refused.append(f"{tag} was not acknowledged in {REST_S:.0f} s")


def _tick(ctx: MutationCtx) -> None:
    """What the schedule calls, by its name."""
