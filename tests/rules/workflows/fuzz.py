"""Random workflows, by seed: `python -m tests.rules.workflows.fuzz --seeds 1000 --base 0`.

* Each journal, cut wherever it may be cut, is replayed: the calls must be the same, and so must the end. From some
  cuts the run goes on with other outcomes, and the longer journal is replayed, too. So is that of a run that is
  restarted there later: no deadline behind it lies before the restart.
* The code is edited under a journal: a replay that goes through has made every call that the journal has.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from evertick.base.errors import ReplayMismatch
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.workflows import CallKind, Row, RowKind
from evertick.rules.workflows.replay import replay, stretches
from tests.rules.workflows.driving import Driver, LoggedRun, ending, run_of
from tests.rules.workflows.programs import EDITS, Tree, TreeMaker, edited, program

GO_ON_EVERY = 5
"""From one of so many cuts the run goes on otherwise."""
FAULTS_SHOWN = 5


@dataclass
class Report:
    """What a run of the fuzzer has done."""

    workflows: int = 0
    rows: int = 0
    cuts: int = 0
    edits: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The figures in two lines."""
        edits = Counter[str]()
        for (_, what), count in self.edits.items():
            edits[what] += count
        told = ", ".join(f"{count} {what}" for what, count in sorted(edits.items()))
        return (
            f"{self.workflows} workflows, {self.rows} rows, {self.cuts} cuts replayed, {len(self.faults)} faults; "
            f"edits: {told}\nrows: {dict(sorted(self.kinds.items()))}"
        )


def fuzz_seed(seed: int, report: Report) -> None:
    """One random workflow: its journal, each cut of it, and edits."""
    rng = random.Random(seed)
    tree = TreeMaker(rng).make()
    driver = Driver.started(program, tree, run_id=f"run_{seed}")
    driver.go_on(rng, cancel=0.02 if seed % 3 == 0 else 0.0)
    report.workflows += 1
    report.rows += len(driver.rows)
    report.kinds.update(
        row.kind.value if row.call is None else f"{row.kind.value} {row.call.value}" for row in driver.rows
    )
    for cut in stretches(driver.rows):
        report.cuts += 1
        if fault := _fault_of_cut(seed, tree, driver, cut):
            report.faults.append(f"seed {seed}, cut at {cut}: {fault}")
        if cut % GO_ON_EVERY == 0 and (fault := _fault_of_restart(seed, tree, driver.rows[: cut + 1])):
            report.faults.append(f"seed {seed}, restarted behind {cut}: {fault}")
    _edit(seed, tree, driver, rng, report)
    driver.run.evict()


def _fault_of_cut(seed: int, tree: Tree, driver: Driver, cut: int) -> str | None:
    """Replay the journal up to `cut`, and go on otherwise from some cuts. Returns what differs."""
    with _replayed(seed, tree, driver.rows[:cut]) as (again, fault):
        fault = fault or _difference(again, driver.run, ended=cut == len(driver.rows))
        if fault or not cut or cut % GO_ON_EVERY:
            return fault
        other = Driver(again, list(driver.rows[:cut]), driver.rows[cut - 1].at)
        other.go_on(random.Random(seed + cut))
        with _replayed(seed, tree, other.rows) as (third, fault):
            fault = fault or _difference(third, again, ended=True)
            return fault and f"gone on otherwise: {fault}"


def _fault_of_restart(seed: int, tree: Tree, kept: Sequence[Row]) -> str | None:
    """Restart the run a day later behind the last of the rows, which it saw; then replay what it has done since."""
    at = Instant(kept[-1].at + DAY_MS)
    rows = [*kept[:-1], kept[-1].restarted(at)]
    with _replayed(seed, tree, rows) as (again, fault):
        if fault or again.has_ended:
            return fault
        other = Driver(again, rows, at)
        other.go_on(random.Random(seed + len(kept)))
        if early := [row for row in rows[len(kept) :] if row.due_at is not None and row.due_at < at]:
            return f"due before the restart: {early[0]}"
        with _replayed(seed, tree, rows) as (third, fault):
            fault = fault or _difference(third, again, ended=True)
            return fault and f"gone on: {fault}"


@contextmanager
def _replayed(seed: int, tree: Tree, rows: Sequence[Row]) -> Iterator[tuple[LoggedRun, str | None]]:
    """A run with a journal behind it, and what its replay has found; it leaves memory at the end."""
    run = run_of(program, tree, run_id=f"run_{seed}")
    fault = None
    try:
        replay(run, rows)
    except ReplayMismatch as error:
        fault = str(error)
    try:
        yield run, fault
    finally:
        run.evict()


def _difference(again: LoggedRun, first: LoggedRun, *, ended: bool) -> str | None:
    expected = [entry for entry in first.log if entry[0] <= again.position]
    if again.log != expected:
        return f"other calls: {again.log[-3:]} instead of {expected[-3:]}"
    if ended and (again.end, again.progress) != (first.end, first.progress):
        return f"another end: {ending(again)} instead of {ending(first)}"
    return None


def _edit(seed: int, tree: Tree, driver: Driver, rng: random.Random, report: Report) -> None:
    """Edit the code under a journal that ends somewhere."""
    cuts = [cut for cut in stretches(driver.rows) if cut]
    rows = driver.rows[: rng.choice(cuts)]
    recorded = {_facts(row) for row in rows if row.kind in (RowKind.CALL, RowKind.STEP)}
    for edit in EDITS:
        changed = edited(tree, edit, rng)
        if changed == tree:
            continue
        with _replayed(seed, changed, rows) as (again, fault):
            noticed = fault is not None
            made = {(seq, kind, name, arguments) for _, seq, kind, name, arguments in _calls(again)}
        changes_recorded = not recorded <= made
        if changes_recorded and not noticed:
            report.faults.append(f"seed {seed}: {edit} was not noticed within {len(rows)} rows")
        what = "changed what was recorded" if changes_recorded else "lay ahead"
        report.edits[edit, f"{what}, {'noticed' if noticed else 'allowed'}"] += 1


def _facts(row: Row) -> tuple[int, CallKind | None, str, str]:
    return row.seq, row.call, row.name, row.arguments


def _calls(run: LoggedRun) -> list[tuple[int, int, CallKind, str, str]]:
    return [(p, seq, kind, name, arguments) for p, seq, kind, name, arguments in (e for e in run.log if len(e) == 5)]


def main() -> int:
    """Run the fuzzer; the exit code is 1 if it found a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--base", type=int, default=0)
    options = parser.parse_args()
    report, began = Report(), time.monotonic()
    for seed in range(options.base, options.base + options.seeds):
        fuzz_seed(seed, report)
    print(report.text)
    print(f"{time.monotonic() - began:.0f} s")
    for fault in report.faults[:FAULTS_SHOWN]:
        print(fault[:500])
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
