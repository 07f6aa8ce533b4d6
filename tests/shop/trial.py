"""A day of the shop, on a real database with real processes.

Customers place orders at a steady rate. A worker is killed. The database restarts. A deploy renames an argument,
renames a function under an alias and removes another one. What fails is found and repaired with `evertick` alone. At
the end every order has exactly one reminder, whichever release it was placed with.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.cli.programs import Done, Program, environment, evertick
from tests.postgres import PostgresServer, free_port
from tests.shop.customers import Customers
from tests.shop.releases import write_releases

PYTHON: Final = (sys.executable, "-m")
JOBS: Final = "shop/jobs.py"
REMIND: Final = "shop.jobs.remind"
REVIEW: Final = "shop.jobs.ask_for_review"
REMIND_AFTER_S: Final = "1"
PATIENCE_S: Final = 120.0
PAUSE_S: Final = 0.5
"""Between looks, most of which start a command: shorter ones would take the cores from what is waited for."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the orders."""

    orders: int
    tried_again: int
    lost: int
    without_reminder: int
    reminded_twice: int
    repaired: int
    canceled: int
    seconds: float

    @property
    def holds(self) -> bool:
        """No order is lost, each has its reminder, and none has two."""
        return self.lost == self.without_reminder == self.reminded_twice == 0

    def __str__(self) -> str:
        return (
            f"{self.orders:,} orders, {self.lost} lost, {self.without_reminder} without a reminder, "
            f"{self.reminded_twice} reminded twice; {self.tried_again:,} requests were tried again, "
            f"{self.repaired:,} jobs repaired, {self.canceled:,} canceled; {self.seconds:.0f} s"
        )


class Trial:
    """The processes of the shop, as a process manager and an operator handle them. `server` is None on SQLite."""

    def __init__(self, folder: Path, server: PostgresServer | None) -> None:
        self._server = server
        if server is None:
            self.url = f"sqlite:///{folder}/shop.db"
        else:
            self.url = server.databases.create()
        self._first, self._second = write_releases(folder)
        self._programs: list[Program] = []

    def run(self, orders: int, rate: float) -> Report:
        """The whole day, with at least `orders` orders, `rate` a second.

        Raises AssertionError where something is not as it must be.
        """
        began = time.monotonic()
        self._install()
        workers = [self._worker(self._first) for _ in range(1 if self._server is None else 2)]
        web, port = self._web(self._first)
        running(*workers)
        customers = Customers(port, rate)
        try:
            customers.wait_for(orders // 5)
            workers[0] = self._replace_killed(workers[0])
            if self._server is not None:
                customers.wait_for(orders * 2 // 5)
                self._server.restart("immediate")
            customers.wait_for(orders * 3 // 5)
            self._check_new_code()
            workers = self._deploy(workers)
            until("a reminder has failed", lambda: bool(self._failed()))  # the web server still has the old release
            old, (web, customers.port) = web, self._web(self._second)
            stop(old)
            customers.wait_for(max(orders, len(customers.placed) + orders // 5))
        finally:
            customers.leave()
        repaired, canceled = self._repair()
        until("all jobs have ended", self._nothing_waits)
        self._cli("doctor", JOBS)
        stop(web, *workers)
        return self._report(customers, repaired, canceled, time.monotonic() - began)

    def close(self) -> None:
        """Leave no process behind."""
        for program in self._programs:
            program.close()

    # -- processes

    def _install(self) -> None:
        """Make the tables: the shop's own and Evertick's."""
        changes = environment(EVERTICK_DATABASE_URL=self.url)
        subprocess.run([*PYTHON, "alembic", "upgrade", "head"], cwd=self._first, env=changes, check=True)
        self._cli("migrate")

    def _worker(self, release: Path) -> Program:
        """A worker that is starting; see `running`."""
        self._programs.append(Program(release, "worker", JOBS, EVERTICK_DATABASE_URL=self.url))
        return self._programs[-1]

    def _web(self, release: Path) -> tuple[Program, int]:
        port = free_port()
        changes = {"EVERTICK_DATABASE_URL": self.url, "SHOP_REMIND_AFTER_SECONDS": REMIND_AFTER_S}
        words = ("uvicorn", "shop.web:api", "--port", str(port), "--no-access-log")
        self._programs.append(Program(release, *words, command=PYTHON, **changes))
        self._programs[-1].wait_for("Uvicorn running on")
        return self._programs[-1], port

    def _replace_killed(self, worker: Program) -> Program:
        """Kill a worker and start another one. On PostgreSQL the list of workers shows that it is dead."""
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        if self._server is not None:
            until("the killed worker is not alive", lambda: worker.process.pid not in self._living())
        fresh = self._worker(self._first)
        running(fresh)
        if self._server is not None:  # which is about to restart; a worker that only begins would end
            until("the new worker is alive", lambda: fresh.process.pid in self._living())
        return fresh

    def _living(self) -> set[int]:
        return {each["pid"] for each in self._json("worker", "list") if each["alive"]}

    def _deploy(self, workers: list[Program]) -> list[Program]:
        """Replace the workers: on PostgreSQL the new ones run beside the old ones, on SQLite there is one at a time."""
        if self._server is None:
            stop(*workers)
        fresh = [self._worker(self._second) for _ in workers]
        running(*fresh)
        if self._server is not None:
            stop(*workers)
        return fresh

    # -- what the command line shows, and what it repairs

    def _cli(self, *words: str, code: int = 0) -> Done:
        """A command of an operator, beside the second release. Raises AssertionError for another exit code."""
        done = evertick(self._second, *words, EVERTICK_DATABASE_URL=self.url)
        assert done.code == code, f"evertick {' '.join(words)} ended with {done.code}:\n{done.out}{done.err}"
        return done

    def _json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self._cli(*words, "-o", "json", code=code).out)

    def _check_new_code(self) -> None:
        """The doctor finds what does not fit the second release, and nothing else."""
        report = self._json("doctor", JOBS, code=8)
        found = {each["function"]: each for each in report["findings"]}
        assert set(found) == {REMIND, REVIEW}, found
        retry = f"evertick job retry --function {REMIND} --state pending --rename email=address"
        assert found[REMIND]["fix"] == f"{retry} --app {JOBS}"
        assert found[REVIEW]["problem"] == "removed"

    def _failed(self) -> list[dict[str, Any]]:
        """The jobs that failed and were not retried. A pending job can fail just before a command replaces it."""
        found: list[dict[str, Any]] = self._json("job", "list", "--state", "failed", "--limit", "100000")
        return [job for job in found if job["retried_as"] is None]

    def _queue(self, function: str) -> Counter[str]:
        """How many jobs of a function are due, run, wait for their time, and are blocked."""
        [queue] = [each for each in self._json("status")["queues"] if each["function"] == function] or [{}]
        return Counter({name: queue.get(name, 0) for name in ("due", "running", "later", "blocked")})

    def _repair(self) -> tuple[int, int]:
        """Let all reminders run that do not fit the code, and cancel the jobs of the function that is gone.

        Returns how many reminders were repaired and how many other jobs were canceled.
        """
        renamed = ("job", "retry", "--function", REMIND, "--rename", "email=address", "--yes")
        repaired = self._repair_pending(*renamed, "--state", "pending", "-o", "json")
        until("all reminders have ended", lambda: not self._queue(REMIND).total())
        failed = self._failed()
        for job in failed:
            assert job["function"] == REMIND, job
            assert "address: field required" in job["error"]["message"], job
        first = failed[0]
        args = {"order_id": first["args"]["order_id"], "address": first["args"]["email"]}
        self._cli("job", "retry", first["id"], "--args", json.dumps(args), "--app", JOBS)
        assert len(self._json(*renamed)) == len(failed) - 1

        until("the jobs of the function that is gone are blocked", lambda: self._queue(REVIEW)["blocked"] > 0)
        canceled = self._cli("job", "cancel-all", "--function", REVIEW, "--yes").err
        return repaired + len(failed), int(canceled.split()[1].replace(",", ""))

    def _repair_pending(self, *words: str) -> int:
        """How many jobs were replaced. Those that begin to run before their turn are left, which the command says."""
        done = evertick(self._second, *words, EVERTICK_DATABASE_URL=self.url)
        errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
        assert done.code == (6 if errors else 0), f"{done.code}:\n{done.out}{done.err}"
        assert all(line.endswith(" is running; stop it first, or wait for its end") for line in errors), done.err
        return len(json.loads(done.out))

    def _nothing_waits(self) -> bool:
        queues = self._json("status")["queues"]
        return not any(each[name] for each in queues for name in ("due", "running", "later"))

    # -- the truth

    def _report(self, customers: Customers, repaired: int, canceled: int, seconds: float) -> Report:
        orders = {number for (number,) in self._query("select id from orders")}
        reminders = Counter(number for (number,) in self._query("select order_id from reminders"))
        return Report(
            orders=len(orders),
            tried_again=customers.tried_again,
            lost=len(set(customers.placed) - orders),
            without_reminder=len(orders - reminders.keys()),
            reminded_twice=sum(count > 1 for count in reminders.values()),
            repaired=repaired,
            canceled=canceled,
            seconds=seconds,
        )

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        plain = self.url.partition("?")[0]
        if self._server is not None:
            with psycopg.connect(plain) as connection:
                return connection.execute(text.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(plain.removeprefix("sqlite:///"))) as file:
            return file.execute(text).fetchall()


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds. Raises AssertionError if that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"after {PATIENCE_S:.0f} s it is not so that {what}"
        time.sleep(PAUSE_S)


def running(*workers: Program) -> None:
    """Wait until workers say that they run."""
    for worker in workers:
        worker.wait_for("runs the jobs of shop")


def stop(*programs: Program) -> None:
    """Let programs end as a process manager does."""
    for program in programs:
        program.send(signal.SIGTERM)
    for program in programs:
        assert program.end() in {0, -signal.SIGTERM}, program.text[-2000:]  # uvicorn repeats the signal at its end
