"""Every benchmark, one after the other: what `make bench` runs.

    python -m benchmarks.run [NAME ...]      names: claims, flatness, jobs, process, recurrence, schedules, startup,
                                              steps, fairness, tabs

`process` measures latency, lateness at a busy second, idle cost and import time in processes of their own, with the
same program that `make bench-peers` uses for the others. Compare figures of one run only.
"""

import subprocess
import sys
from typing import Final

COMMANDS: Final = {
    "jobs": ["benchmarks.bench_jobs", "--future", "1000000"],
    "claims": ["benchmarks.bench_claims"],
    "flatness": ["benchmarks.flatness.run"],
    "process": ["benchmarks.peers.run", "evertick"],
    "recurrence": ["benchmarks.bench_recurrence"],
    "schedules": ["benchmarks.bench_schedules"],
    "startup": ["benchmarks.bench_startup"],
    "steps": ["benchmarks.bench_steps"],
    "fairness": ["benchmarks.bench_fairness"],
    "tabs": ["benchmarks.bench_tabs"],
}


def main() -> int:
    """Run the named benchmarks, or all; 1 if one of them failed."""
    names = sys.argv[1:] or list(COMMANDS)
    unknown = [name for name in names if name not in COMMANDS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", *COMMANDS[name]], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
