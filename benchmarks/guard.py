"""A guard against regressions: what a piece of work costs here, and at another commit, in turns in one run.

    python -m benchmarks.guard [BASE] [--rounds 5] [--scale 1.0] [--limit 1.15] [--only mutations,bulk] [--again 2]

BASE is checked out into a worktree; without one, it is the commit that `benchmarks/guard_base` names. Each measurement
is a process of its own on a fresh database in memory. Processor time is compared, not wall time: of the program, and
of PostgreSQL's server. A ratio is the median of the pairs of neighbours; one above the limit fails the run.
"""

import argparse
import compileall
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.run import ground
from tests.postgres import PostgresServer

ROOT: Final = Path(__file__).parents[1]
BASE_FILE: Final = ROOT / "benchmarks" / "guard_base"
PROBE: Final = ROOT / "benchmarks" / "guard_probe.py"
CASES: Final = {
    "mutations": 20_000, "actions": 8_000, "enqueue": 3_000, "bulk": 30_000, "steps": 10_000, "schedules": 8_000,
}  # fmt: skip
"""How many pieces of work a measurement has."""
TICK_US: Final = 1e6 / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Microseconds of processor time for each piece of work."""

    client: float
    server: float


def run_git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def checked_out(base: str, folder: Path) -> Iterator[Path]:
    """A worktree with another commit."""
    place = folder / "base"
    run_git("worktree", "add", "--detach", str(place), base)
    try:
        for source in (ROOT, place):  # neither is to compile while it is measured
            compileall.compile_dir(source / "src", quiet=1)
        yield place
    finally:
        run_git("worktree", "remove", "--force", str(place))


def server_us(pid: int) -> float:
    """Processor time that a server has used, with its backends, those that ended included."""
    total = 0.0
    for each in [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]:
        try:
            words = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended, and counts among the server's children
            continue
        total += sum(map(int, words[11:15] if each == pid else words[11:13])) * TICK_US
    return total


def measured(source: Path, case: str, number: int, url: str, server: PostgresServer | None) -> Cost:
    """Run the probe with the code below `source`."""
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(PROBE), case, str(number), url]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as probe:
        assert probe.stdin is not None
        assert probe.stdout is not None
        if probe.stdout.readline() != "ready\n":
            raise SystemExit(f"{case} at {source}: {probe.communicate()[1]}")
        began = 0.0 if server is None else server_us(server.pid)
        probe.stdin.write("\n")
        probe.stdin.flush()
        line = probe.stdout.readline()
        used = 0.0 if server is None else (server_us(server.pid) - began) / number
        errors = probe.communicate("\n")[1]
        if not line:
            raise SystemExit(f"{case} at {source}: {errors}")
    return Cost(json.loads(line)["cpu_us"], used)


class Guard:
    """Compares this code with that of another commit, on databases of one server and in one folder."""

    def __init__(self, base: Path, server: PostgresServer, folder: Path) -> None:
        self._base, self._server, self._folder = base, server, folder
        self._numbers = itertools.count()

    def ratios(self, case: str, number: int, rounds: int, *, on_postgres: bool) -> dict[str, float]:
        """What a case costs here, as a part of what it costs there; by what was measured, which is printed."""
        found: dict[Path, list[Cost]] = {ROOT: [], self._base: []}
        for turn in range(rounds):
            for source in (ROOT, self._base)[:: 1 if turn % 2 else -1]:
                url = self._server.databases.create() if on_postgres else f"sqlite:///{self._folder}/{self._next()}.db"
                found[source].append(measured(source, case, number, url, self._server if on_postgres else None))
        ratios = {}
        for field in Cost._fields if on_postgres else ("client",):
            here, there = ([getattr(cost, field) for cost in found[source]] for source in (ROOT, self._base))
            what = f"{case}, {f'postgres {field}' if on_postgres else 'sqlite'}"
            ratios[what] = statistics.median(a / b for a, b in zip(here, there, strict=True))
            print(f"{what:<34}{min(here):>8.1f}{min(there):>10.1f}{ratios[what]:>8.2f}", flush=True)
        return ratios

    def _next(self) -> int:
        return next(self._numbers)


def main() -> int:
    """Measure and compare; 1 if something costs more than the limit allows."""
    parser = argparse.ArgumentParser(description="What work costs here, and at another commit.")
    parser.add_argument("base", nargs="?", default=BASE_FILE.read_text().strip())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="how much work, as a part of the usual")
    parser.add_argument("--limit", type=float, default=1.15)
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument(
        "--again", type=int, default=0, metavar="TIMES",
        help="measure a case that is above the limit again, each time with twice the work; all of them must be",
    )  # fmt: skip
    options = parser.parse_args()
    cases = options.only.split(",")
    if unknown := [case for case in cases if case not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    above, count = [], 0
    print(f"{'':<24}{'here, µs':>10}{'base, µs':>10}{'ratio':>8}")
    with (
        ground("ram") as (server, folder),
        tempfile.TemporaryDirectory() as name,
        checked_out(options.base, Path(name)) as base,
    ):
        guard = Guard(base, server, Path(folder))
        for case, on_postgres in itertools.product(cases, (False, True)):
            number = max(100, int(CASES[case] * options.scale))
            found = guard.ratios(case, number, options.rounds, on_postgres=on_postgres)
            count += len(found)
            for time in range(1, options.again + 1):
                if max(found.values()) <= options.limit:
                    break
                print(f"{case}: above {options.limit}, measured again with {2**time} times the work")
                again = guard.ratios(case, number * 2**time, options.rounds, on_postgres=on_postgres)
                found = {what: min(ratio, again[what]) for what, ratio in found.items()}
            above += [f"{what} {ratio:.2f}" for what, ratio in found.items() if ratio > options.limit]
    if above:
        print(f"above {options.limit}: {'; '.join(above)}", file=sys.stderr)
    else:
        print(f"{count} costs compared, none above {options.limit} of the base")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
