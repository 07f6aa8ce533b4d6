"""The tables of the peer benchmark: a ratio above 1 always means that evertick is ahead."""

from typing import Any

from benchmarks.peers.environments import ENVIRONMENTS
from benchmarks.peers.table import figures, ratios, written


def found(peer: str, database: str = "sqlite", **more: Any) -> dict[str, Any]:
    """What a measurement leaves behind, as far as the tables read it."""
    about = {"version": "1", "python": "3.11", "settings": "fast", "promise": "kept", "fsync_per_s": 1, "load1": 0.0}
    return {"peer": peer, "database": database, "errors": {}, **about, **more}


def row(table: str, name: str) -> list[str]:
    """The cells of the row that begins with `name`."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_ratio_is_against_the_best_peer_in_the_direction_of_better() -> None:
    """More is better for rates, less for latencies; only peers on the same database count."""
    table = ratios(
        [
            found("evertick", drain_per_s={"median": 9_000}, latency_ms={"p99": 2.0}),
            found("slow", drain_per_s={"median": 1_000}, latency_ms={"p99": 8.0}),
            found("fast", drain_per_s={"median": 6_000}, latency_ms={"p99": 4.0}),
            found("elsewhere", "postgres", drain_per_s={"median": 90_000}),
        ]
    )

    assert row(table, "sqlite: drain, /s")[1:] == ["9,000", "fast", "6,000", "1.50"]
    assert row(table, "sqlite: latency p99, ms")[1:] == ["2.00", "fast", "4.00", "2.00"]


def test_what_was_not_measured_is_said_and_not_counted() -> None:
    """A missing figure is a dash, a failure is named, and without evertick there is no ratio."""
    peer = found("fast", drain_per_s={"median": 6_000}) | {"errors": {"burst": "TimeoutError: late"}}

    assert row(figures([peer]), "burst p99, ms")[1] == "-"
    assert "NOT MEASURED: burst: TimeoutError: late" in figures([peer])
    assert ratios([peer]).startswith("No ratios")
    assert ratios([found("evertick"), peer]).startswith("No ratios")


def test_numbers_are_written_to_a_readable_length() -> None:
    """Three digits or so."""
    assert [written(value) for value in (17_993.4, 96.04, 2.5, 0.0, None)] == ["17,993", "96.0", "2.50", "0.00", "-"]


def test_every_peer_has_its_program() -> None:
    """An environment without a module, or one without a database, measures nothing."""
    names = [environment.name for environment in ENVIRONMENTS]

    assert names[0] == "evertick"
    assert {"huey", "unhinged", "procrastinate", "pgqueuer", "oban", "dbos", "absurd", "flexiq", "apscheduler"} == set(
        names[1:]
    )
    assert all(environment.databases for environment in ENVIRONMENTS)
