"""A rolling upgrade across two versions of the schema, while jobs are scheduled and run.

    python -m tests.upgrades.run --rate 1000 --seconds 8

Workers and a client of release `a` run; `b` migrates and its workers join; the step of `c` is refused as long as
workers of `a` run; they drain, `c` migrates, its workers join, those of `b` drain; a worker of `a` that starts then is
refused. In the end every job that was confirmed has run once, and the report says how long any of it stood still.
"""

import json
import multiprocessing
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import click
import psycopg

from evertick.store.open import open_store
from tests.postgres import PostgresServer
from tests.upgrades.program import RELEASES, migrate, run_client, run_worker

PATIENCE_S: Final = 60.0


@dataclass(slots=True)
class Report:
    """What became of the jobs."""

    confirmed: int = 0
    lost: int = 0
    doubled: int = 0
    longest_pause_s: float = 0.0
    """Between two jobs that were run one after the other."""
    slowest_call_s: float = 0.0
    """To schedule jobs."""
    ran_by: dict[str, int] = field(default_factory=dict)
    migrations_s: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    exit_codes: list[int | None] = field(default_factory=list)
    """Of workers that were told to stop."""

    def __str__(self) -> str:
        return (
            f"{self.confirmed} jobs confirmed, {self.lost} lost, {self.doubled} doubled; longest pause "
            f"{self.longest_pause_s:.2f} s, slowest call {self.slowest_call_s:.2f} s; run by {self.ran_by}; "
            f"migrations took {', '.join(f'{each:.1f} s' for each in self.migrations_s)}"
        )


class Upgrade:
    """One database and the processes on it."""

    def __init__(self, url: str, folder: Path, *, rate: int, workers: int) -> None:
        self.url = url
        self.report = Report()
        self._folder = folder
        self._rate = rate
        self._workers = workers
        self._context = multiprocessing.get_context("spawn")
        self._first = 0
        self._started: list[BaseProcess] = []

    def run(self, seconds: float) -> Report:
        """Each phase takes so long."""
        store = open_store(self.url)
        store.migrate()
        store.close()
        old, client = self._start_workers("a"), self._start_client("a")
        time.sleep(seconds)
        self._migrate("b")
        middle = self._start_workers("b")
        time.sleep(seconds)
        self._migrate("c", refused=True)
        second = self._start_client("b")
        self._stop([client, *old])
        self._migrate("c")
        new = self._start_workers("c")
        time.sleep(seconds)
        self._stop(middle)
        self._refuse_worker("a")
        time.sleep(seconds)
        self._stop([second])
        self._wait_for("select not exists (select from jobs where state in ('pending', 'in_progress'))")
        self._stop(new)
        self._judge()
        return self.report

    def kill(self) -> None:
        """End what still runs, at once."""
        for process in self._started:
            process.kill()

    # -- helpers

    def _start_workers(self, release: str) -> list[BaseProcess]:
        """Workers that are ready: the old ones are not stopped earlier."""
        code = RELEASES[release][-1].number
        started = [self._start(run_worker, release) for _ in range(self._workers)]
        self._wait_for(f"select count(*) = {self._workers} from workers where code = {code}")
        return started

    def _start_client(self, release: str) -> BaseProcess:
        self._first += 10_000_000
        confirmed = self._folder / f"client{self._first}.json"
        process = self._start(run_client, release, self._rate, self._first, confirmed)
        deadline = time.monotonic() + PATIENCE_S
        while not confirmed.with_suffix(".begun").exists():
            assert time.monotonic() < deadline, "the client does not begin"
            time.sleep(0.05)
        return process

    def _start(self, target: object, release: str, *args: object) -> BaseProcess:
        process = self._context.Process(target=target, args=(self.url, release, *args), daemon=True)  # type: ignore[arg-type]
        process.start()
        self._started.append(process)
        return process

    def _stop(self, processes: list[BaseProcess]) -> None:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(PATIENCE_S)
            self.report.exit_codes.append(process.exitcode)

    def _migrate(self, release: str, *, refused: bool = False) -> None:
        began, said = time.monotonic(), self._folder / f"migration-{release}-{refused}.json"
        process = self._start(migrate, release, said)
        process.join(PATIENCE_S)
        assert process.exitcode == (7 if refused else 0), said.read_text()
        if refused:
            self.report.refusals.append(said.read_text())
        else:
            self.report.migrations_s.append(time.monotonic() - began)

    def _refuse_worker(self, release: str) -> None:
        process = self._start(run_worker, release)
        process.join(PATIENCE_S)
        assert process.exitcode == 7, f"a worker of release {release} ended with {process.exitcode}"

    def _wait_for(self, question: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with psycopg.connect(self.url, autocommit=True) as connection:
            while connection.execute(question.encode()).fetchone() != (True,):
                if time.monotonic() > deadline:
                    raise TimeoutError(question)
                time.sleep(0.05)

    def _judge(self) -> None:
        report = self.report
        with psycopg.connect(self.url) as connection:
            marks = [
                json.loads(body)
                for (body,) in connection.execute("select body from documents where id like 'marks%'").fetchall()
            ]
        wanted: set[int] = set()
        for file in self._folder.glob("client*.json"):
            said = json.loads(file.read_text())
            wanted.update(range(said["first"], said["after"]))
            report.slowest_call_s = max(report.slowest_call_s, said["slowest"])
        numbers = [mark["number"] for mark in marks]
        report.confirmed = len(wanted)
        report.lost = len(wanted - set(numbers))
        report.doubled = len(numbers) - len(set(numbers))
        times = sorted(mark["ran"] for mark in marks)
        report.longest_pause_s = max((after - before for before, after in pairwise(times)), default=0)
        for mark in marks:
            report.ran_by[mark["release"]] = report.ran_by.get(mark["release"], 0) + 1


def upgrade(url: str, folder: Path, *, rate: int, seconds: float, workers: int = 2) -> Report:
    """Run a rolling upgrade on an empty database."""
    one = Upgrade(url, folder, rate=rate, workers=workers)
    try:
        return one.run(seconds)
    finally:
        one.kill()


@click.command()
@click.option("--rate", default=1_000, show_default=True, help="Jobs scheduled per second.")
@click.option("--seconds", default=8.0, show_default=True, help="Of each of the four phases.")
@click.option("--workers", default=2, show_default=True, help="Of each release.")
def main(rate: int, seconds: float, workers: int) -> None:
    """Upgrade a fleet under load."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer(fsync=True) as server:
        report = upgrade(server.url(), Path(folder), rate=rate, seconds=seconds, workers=workers)
    click.echo(report)
    if report.lost or report.doubled or max(report.longest_pause_s, report.slowest_call_s) > 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
