"""Planted bugs in the evaluation of schedules: each breaks one thing, and the simulation must find every one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from evertick.base.instants import Instant
from evertick.base.records.schedules import RunReport
from evertick.engine.schedules import commands as schedule_requests
from evertick.engine.schedules import evaluation, evaluator
from evertick.engine.schedules import outcome as schedule_writing
from evertick.engine.schedules.evaluation import Inputs
from evertick.engine.schedules.outcome import Evaluated, Evaluation
from evertick.rules.schedules import decide, overlap
from evertick.rules.schedules import state_builder as desk
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.ledger import Ledger
from evertick.store.transaction.schedules import Schedules
from tests.simulation.functions import Stage
from tests.simulation.mutants import Mutant, Plant, both, sql, swap

EVALUATE: Final = evaluation.evaluate
WRITE: Final = schedule_writing.write
IN_ORDER: Final = evaluation._in_order
SORT_OUT: Final = overlap.sort_out
UPDATED: Final = decide._updated
DUE: Final = Schedules.due_schedules


def jobs_first(transaction: Any, items: Sequence[Evaluated], context: Evaluation) -> None:
    """The runs start in this transaction, and what was decided is written in another."""
    transaction.insert_jobs([job for item in items for job in item.jobs])
    rest = [item._replace(jobs=[]) for item in items]
    Stage.world.afterthoughts.append(lambda later: WRITE(later, rest, context))


def changing(change: Callable[[Evaluated, Instant], Evaluated]) -> Callable[..., Evaluated]:
    """`evaluate`, with its answer changed."""

    def changed(row: Schedule, inputs: Inputs, context: Evaluation) -> Evaluated:
        return change(EVALUATE(row, inputs, context), context.now)

    return changed


def mark_is_now(item: Evaluated, now: Instant) -> Evaluated:
    """The mark follows the clock, and goes back with it."""
    state = item.plan.state._replace(seen_until=now)
    return item._replace(row=item.row.with_state(state))


def rest_is_seen(item: Evaluated, now: Instant) -> Evaluated:
    """What did not fit on a page is taken for seen."""
    return mark_is_now(item, now) if item.more else item


def no_row_for_skips(item: Evaluated, now: Instant) -> Evaluated:
    """Skipped times are not worth a row."""
    return item._replace(occurrences=[row for row in item.occurrences if row.fate != "skipped"])


def no_more(item: Evaluated, now: Instant) -> Evaluated:
    """Nobody is told that further times are due."""
    return item._replace(more=False)


def one_run_overlooked(entries: Any, *, open_runs: int, **options: Any) -> Any:
    """The overlap policy looks at the wrong number."""
    return SORT_OUT(entries, open_runs=max(0, open_runs - 1), **options)


def newest_first(entries: Any, **options: Any) -> Any:
    """Of those that wait, the newest starts."""
    result = SORT_OUT(entries[::-1], **options)
    result.kept.reverse()
    return result


def no_reports(self: Any, schedules: Any, *, limit: int) -> list[RunReport]:
    """No schedule is told that its runs end."""
    return []


def reports_unread(reports: Any, due: Any, **options: Any) -> Any:
    """Reports are taken and not read."""
    return IN_ORDER((), due, **options)


def ends_unnoted(self: Any, reports: Any) -> None:
    """The ledger does not tell how runs ended."""


def kept_time_forgotten(working: Any, event: Any) -> None:
    """An update forgets the time that jitter keeps back. (Was real.)"""
    UPDATED(working, replace(event, pending=()))


def at_once(state: Any, reports: Any, now: Instant) -> Instant:
    """A run starts when its process says so, whatever the clock of another said. (Was real.)"""
    return now


@contextmanager
def rows_of_a_moment_ago() -> Iterator[None]:
    """Now and then a page is one that was read before, as if nobody locked and nobody looked at revisions."""
    pages: dict[int, list[Schedule]] = {}

    def due(self: Any, now: Instant, *, limit: int) -> list[Schedule]:
        world = Stage.world
        old, fresh = pages.get(id(world)), DUE(self, now, limit=limit)
        pages.clear()
        pages[id(world)] = fresh
        return old if old and world.loop.random.random() < 0.3 else fresh

    with patch.object(Schedules, "due_schedules", due):
        yield


def nothing_opened(self: Any, schedules: Any) -> None:
    """What is open is not written."""


def engine_evaluates(new: Any) -> Plant:
    """Replace `evaluate` for the evaluator and for requests."""
    return both(swap(evaluator, "evaluate_fast", new), swap(schedule_requests, "evaluate", new))


MUTANTS: Final = (
    Mutant("two transactions", "runs start in one, the mark moves in another", swap(evaluator, "write", jobs_first)),
    Mutant("mark is now", "the mark goes back with the clock", engine_evaluates(changing(mark_is_now))),
    Mutant("page overflow", "times beyond a page are taken for seen", engine_evaluates(changing(rest_is_seen))),
    Mutant("requests first", "a request overtakes due times", swap(schedule_requests, "evaluate", changing(no_more))),
    Mutant("no row", "skipped times leave no row", engine_evaluates(changing(no_row_for_skips))),
    Mutant("wrong overlap", "an open run is overlooked", swap(desk, "sort_out", one_run_overlooked)),
    Mutant("newest first", "what waits starts in the wrong order", swap(desk, "sort_out", newest_first)),
    Mutant("window", "nothing is ever too late", swap(desk, "too_late", lambda *args: None)),
    Mutant("deaf", "ends of runs are not heard", swap(Ledger, "run_reports", no_reports)),
    Mutant("unread", "ends of runs are heard and change nothing", swap(evaluation, "_in_order", reports_unread)),
    Mutant("unnoted", "ends of runs are not in the ledger", swap(Ledger, "end_occurrences", ends_unnoted)),
    Mutant(
        "version ignored",
        "a schedule is judged as it was, and written over what it is",
        both(rows_of_a_moment_ago, sql("save_schedules", "and revision = ?", "and ? is not null")),
    ),
    Mutant(
        "ends stay open",
        "a run that ended still counts as open",
        sql("close_occurrences", "where tenant = ?", "where 0 and tenant = ?"),
    ),
    Mutant("opens lost", "a run that began does not count as open", swap(Schedules, "_write_open", nothing_opened)),
    Mutant(
        "early start",
        "a run starts before the end it waited for",
        swap(evaluation, "_after_ends", at_once),
        seeds=(95,),
    ),
    Mutant("jitter", "an update drops the time that jitter keeps back", swap(decide, "_updated", kept_time_forgotten)),
)
