"""Tables of what was measured: all figures, and evertick against the best peer on the same database."""

from collections.abc import Callable, Sequence
from typing import Any, Final

Found = dict[str, Any]

# A measure's name, where it lies in the figures, and whether more is better.
MEASURES: Final = (
    ("enqueue one by one, /s", ("enqueue_one_per_s", "median"), True),
    ("enqueue in bulk, /s", ("enqueue_bulk_per_s", "median"), True),
    ("drain, /s", ("drain_per_s", "median"), True),
    ("CPU us a job, worker", ("drain_per_s", "worker_cpu_us"), False),
    ("CPU us a job, server", ("drain_per_s", "server_cpu_us"), False),
    ("steps, /s", ("steps_per_s", "median"), True),
    ("steps, CPU us, worker", ("steps_per_s", "worker_cpu_us"), False),
    ("steps, CPU us, server", ("steps_per_s", "server_cpu_us"), False),
    ("steps of one workflow, /s", ("steps_alone_per_s", "median"), True),
    ("latency p50, ms", ("latency_ms", "p50"), False),
    ("latency p99, ms", ("latency_ms", "p99"), False),
    ("burst p50, ms", ("burst_ms", "p50"), False),
    ("burst p99, ms", ("burst_ms", "p99"), False),
    ("burst max, ms", ("burst_ms", "max"), False),
    ("idle CPU, %", ("idle", "cpu_pct"), False),
    ("idle memory, MB", ("idle", "rss_mb"), False),
    ("import, ms", ("import_ms",), False),
)


def figure(found: Found, path: Sequence[str]) -> float | None:
    """The number at a path of keys, or None if it was not measured."""
    value: Any = found
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return float(value)


def written(value: float | None) -> str:
    """A number to three digits or so; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that can also be read as it is; the first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        return "| " + " | ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])

    rule = "|-" + "-|-".join("-" * width for width in widths)
    return "\n".join([line(rows[0]) + " |", rule + "-|", *(line(row) + " |" for row in rows[1:])])


def figures(found: Sequence[Found]) -> str:
    """Every figure: a row for each measure, a column for each peer and database; then how each was set."""
    head = ["", *(f"{one['peer']} {one['database']}" for one in found)]
    rows = [[name, *(written(figure(one, path)) for one in found)] for name, path, _ in MEASURES]
    notes = []
    for one in found:
        about = f"- {one['peer']} on {one['database']}"
        if "version" in one:
            about += f", {one['version']}, Python {one['python']}: {one['settings']}. After a crash: {one['promise']}."
            about += f" {one['fsync_per_s']} fsyncs/s at its start, load {one['load1']}."
        about += "".join(f" NOT MEASURED: {name}: {reason}" for name, reason in one["errors"].items())
        notes.append(about)
    return "\n" + aligned([head, *rows]) + "\n\n" + "\n".join(notes) + "\n"


def ratios(found: Sequence[Found]) -> str:
    """Evertick against the best peer on the same database; above 1 means that evertick is ahead."""
    rows = [["evertick against the best peer", "evertick", "best peer", "its figure", "ratio"]]
    for own in found:
        if own["peer"] != "evertick":
            continue
        others = [one for one in found if one["peer"] != "evertick" and one["database"] == own["database"]]
        for name, path, more_is_better in MEASURES:
            mine = figure(own, path)
            theirs = [(value, one["peer"]) for one in others if (value := figure(one, path)) is not None]
            if mine is None or not theirs:
                continue
            best: Callable[..., tuple[float, str]] = max if more_is_better else min
            value, peer = best(theirs)
            over, under = (mine, value) if more_is_better else (value, mine)
            ratio = f"{over / under:.2f}" if under else "-"
            rows.append([f"{own['database']}: {name}", written(mine), peer, written(value), ratio])
    if len(rows) == 1:
        return "No ratios: evertick or all peers were not measured.\n"
    return aligned(rows) + "\n"
