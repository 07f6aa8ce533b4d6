"""Measure evertick and its peers side by side: one machine, one run, one PostgreSQL server, one disk.

    python -m benchmarks.peers.run                      every peer, on disk, with fsync (about half an hour)
    python -m benchmarks.peers.run huey pgqueuer        some of them
    python -m benchmarks.peers.run --store ram          data in memory, where fsync costs nothing
    python -m benchmarks.peers.run --quick              small numbers: does everything work?

Figures go to `benchmarks/results/peers-<store>/<peer>-<database>.json` and into a table; where evertick was
measured too, a second table sets it against the best peer on the same database. Compare figures of one run
only: a shared disk gives 10,000 fsyncs a second in one minute and 300 in the next. `--store ram` keeps the
disk out of it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import measure, table
from benchmarks.peers.common import Database
from benchmarks.peers.environments import ENVIRONMENTS, ROOT, Environment, NoEnvironment, python_of
from tests.postgres import PostgresServer
from tests.postgres_programs import wheel_programs

RESULTS: Final = ROOT / "benchmarks" / "results"
MEMORY: Final = Path("/dev/shm")  # where Linux keeps files in memory
PEER_SECONDS: Final = 1_500

# As PostgreSQL comes, but for the number of connections.
STOCK_SETTINGS: Final = {
    "autovacuum_naptime": "1min",
    "io_method": "worker",
    "max_connections": "200",
    "max_wal_senders": "10",
    "shared_buffers": "128MB",
    "wal_level": "replica",
}
QUICK: Final = {
    "n": 300,
    "n_one": 100,
    "runs": 1,
    "seconds": 2.0,
    "burst": 50,
    "burst_in": 4,
    "workflows": 20,
    "idle": 2.0,
}


@contextmanager
def ground(store: str) -> Iterator[tuple[PostgresServer, Path]]:
    """A PostgreSQL server, and a folder for SQLite files on the same disk."""
    base = MEMORY if store == "ram" else Path(tempfile.gettempdir())
    if not base.is_dir():
        raise SystemExit(f"--store ram needs {base}, which this machine does not have")
    with tempfile.TemporaryDirectory(prefix="evertick-bench-", dir=base) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server may run as another user, below this folder
        with PostgresServer(folder / "postgres", fsync=True, settings=STOCK_SETTINGS) as server:
            yield server, folder


def fsyncs_per_second(folder: Path) -> int:
    """How fast the disk below `folder` is at this moment: one page written and synced after the other."""
    path = folder / "probe"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.3:
        os.write(descriptor, b"x" * 8192)
        os.fsync(descriptor)
        count += 1
    seconds = time.perf_counter() - began
    os.close(descriptor)
    path.unlink()
    return round(count / seconds)


def measured(
    environment: Environment, database: Database, server: PostgresServer, folder: Path, arguments: list[str], out: Path
) -> dict[str, Any]:
    """Measure one peer on one database in its own environment; what went wrong is in "errors"."""
    base = {"peer": environment.name, "database": database, "errors": {}}
    try:
        python = python_of(environment)
    except NoEnvironment as reason:
        print(f"{environment.name} on {database}: NOT MEASURED: {reason}", flush=True)
        return base | {"errors": {"environment": str(reason)}}
    scratch = folder / f"{environment.name}-{database}"
    scratch.mkdir()
    fsyncs = fsyncs_per_second(scratch)
    print(f"\n== {environment.name} on {database} ({fsyncs} fsyncs/s)", flush=True)
    out.unlink(missing_ok=True)
    with subprocess.Popen(
        [str(python), "-m", "benchmarks.peers.measure", environment.module, "--out", str(out), *arguments],
        cwd=scratch,
        stdin=subprocess.PIPE,  # whose end tells it, and its worker, that we are gone
        start_new_session=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "EVERTICK_BENCH_DATABASE": database,
            "EVERTICK_BENCH_DIRECTORY": str(scratch),
            "EVERTICK_BENCH_POSTGRES_URL": server.url(f"bench_{environment.name}"),
            "EVERTICK_BENCH_POSTGRES_PID": str(server.pid),
            "EVERTICK_BENCH_PSQL": str(wheel_programs() / "psql"),
        },
    ) as process:
        try:
            code = process.wait(PEER_SECONDS)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            process.kill()
    if code or not out.exists():
        log = scratch / "worker.log"
        tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        print(f"{environment.name}: FAILED with exit code {code}\n{tail}", flush=True)
        return base | {"errors": {"process": f"exit code {code}"}}
    found: dict[str, Any] = json.loads(out.read_text()) | {"fsync_per_s": fsyncs}
    out.write_text(json.dumps(found, indent=1) + "\n")
    if found["errors"]:
        print((scratch / "worker.log").read_text(errors="replace")[-2000:], flush=True)
    return found


def main() -> int:
    """Measure, print the tables; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description="Measure evertick and its peers in one run.")
    names = [environment.name for environment in ENVIRONMENTS]
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"some of: {' '.join(names)}")
    parser.add_argument("--store", choices=("disk", "ram"), default="disk", help="where the databases lie")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that everything works")
    measure.add_options(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the `with` blocks, which clear up
    unknown = set(options.peers) - set(names)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options.quick:
        vars(options).update(QUICK)

    results = RESULTS / f"peers-{options.store}"
    results.mkdir(parents=True, exist_ok=True)
    found = []
    with ground(options.store) as (server, folder):
        for environment in ENVIRONMENTS:
            if options.peers and environment.name not in options.peers:
                continue
            for database in environment.databases:
                out = results / f"{environment.name}-{database}.json"
                arguments = measure.option_arguments(options)
                found.append(measured(environment, database, server, folder, arguments, out))
    print(table.figures(found))
    print(table.ratios(found))
    return int(any(one["errors"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
