"""Benchmarks run to their end. The figures of so few rows mean nothing, and are not looked at."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.long]

COMMANDS = {
    "bench_jobs --jobs 100 --runs 1 --future 100 --store ram": "postgres: enqueue in bulk",
    "bench_claims --tenants 20 --future 100 --store ram": "postgres",
    "bench_schedules --schedules 100 --due 20 --seconds 1 --store ram --database sqlite": "raw limit",
    "bench_fairness --jobs 100 --samples 2 --store ram": "times",
    "bench_steps --runs 5 --turns 1 --alone 20 --store ram": "that sleep",
    "bench_http_lists --part 0.001 --runs 1 --store ram --database sqlite": "status of all",
    "bench_http_lists --part 0.001 --runs 1 --store ram --database postgres --only all": "status of all",
    "flatness.run --part 0.0001 --only lists --store ram": "occurrences",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_benchmark_runs_to_its_end(command: str) -> None:
    name, *arguments = command.split()
    ran = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode in (0, 1), ran.stderr  # 1: a bar was missed, as so few rows may
    assert COMMANDS[command] in ran.stdout
