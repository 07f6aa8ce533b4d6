"""Planted bugs in how runs of workflows go on: each breaks one thing, and the simulation must find every one."""

from collections.abc import Sequence
from typing import Any, Final

from evertick.base.instants import NEVER
from evertick.base.records.workflows import MessageKind
from evertick.engine.jobs import workflow_memory, workflow_runs
from evertick.engine.jobs.workflow_memory import KeptRun, RunsInMemory
from evertick.engine.jobs.workflow_runs import OpenRuns
from evertick.rules.workflows import advance
from evertick.rules.workflows.run import Run
from evertick.store.sqlite.transaction import SqliteTransaction
from tests.simulation.functions import Stage
from tests.simulation.mutants import Mutant, sql, swap

NEXT_ROW: Final = advance._next_row
APPEND: Final = SqliteTransaction.append_journal
SEND: Final = SqliteTransaction.send_messages
ADVANCE: Final = workflow_runs.advance
NEW_RUN: Final = workflow_runs.new_run
RUN_STEP: Final = workflow_runs._Around.run_step
LEND: Final = RunsInMemory.lend


def journal_later(self: Any, entries: Sequence[Any]) -> None:
    """The rows of the journal are written in a transaction of their own."""
    if entries:
        Stage.world.afterthoughts.append(lambda later: APPEND(later, entries))


def ends_later(self: Any, messages: Any, *, now: Any) -> Any:
    """The ends of steps' jobs are told in a transaction of their own."""
    if all(message.kind is MessageKind.ENDED for message in messages):
        Stage.world.afterthoughts.append(lambda later: SEND(later, messages, now=now))
        return {message.run_id for message in messages}
    return SEND(self, messages, now=now)


def parked_for_ever(*args: Any) -> Any:
    """A run that waits is due at no time."""
    progress = ADVANCE(*args)
    progress.due_at = NEVER
    return progress


def seed_of_the_attempt(run_id: Any, body: Any, *, seed: str) -> Run:
    """Chance is drawn anew in each replay."""
    return NEW_RUN(run_id, body, seed=f"{seed}{Stage.world.loop.time()}")


def no_cancel(run: Any, inbox: Any, progress: Any, around: Any) -> Any:
    """A request to cancel is taken from the inbox, and the code is not told."""
    for placed in list(inbox.others):
        if placed[1].kind is MessageKind.CANCEL:
            inbox.others.remove(placed)
            progress.taken.append(placed[1].id)
    return NEXT_ROW(run, inbox, progress, around)


def begun_elsewhere(self: Any, claim: Any, run: Any, progress: Any, *, now: Any) -> Any:
    """Jobs of steps begin in a transaction of their own."""
    begun, progress.begun = progress.begun, []
    jobs = [self._job_of(job_id, call, claim, now) for job_id, call in begun]
    if jobs:
        Stage.world.afterthoughts.append(lambda later: later.insert_jobs(jobs))
    return END_OF(self, claim, run, progress, now=now)


END_OF: Final = OpenRuns._end_of


def keep_undone(self: Any, loan: Any) -> None:
    """A run that went on in a transaction that was undone stays in memory, for the next try of the batch to find."""
    for job_id, (run, claim) in self._returned(loan).items():
        self._kept[job_id] = KeptRun(run, claim._replace(attempt=claim.attempt - 1))


def one_loan(self: Any, loan: Any, claims: Any) -> None:
    """Two batches that have the same run have it in one place."""
    loan.update(self.__dict__.get("one_place", {}))
    LEND(self, loan, claims)
    self.one_place = loan


def forget(*args: Any, **options: Any) -> None:
    """Does nothing."""


def nothing_taken(*args: Any) -> Any:
    """What the run has seen waits for it again."""
    progress = ADVANCE(*args)
    progress.taken.clear()
    return progress


def step_goes_on(self: Any, call: Any) -> Any:
    """It is not seen that the step has ended its run."""
    outcome = RUN_STEP(self, call)
    self.run_is_over = False
    return outcome


MUTANTS: Final = (
    Mutant(
        "journal later", "a step's effect and its row are two commits",
        swap(SqliteTransaction, "append_journal", journal_later),
    ),
    Mutant(
        "ends later", "a job's end and its message are two commits",
        swap(SqliteTransaction, "send_messages", ends_later),
    ),
    Mutant("jobs later", "a call's row and its job are two commits", swap(OpenRuns, "_end_of", begun_elsewhere)),
    Mutant("messages kept", "what a run has seen stays in its inbox", swap(workflow_runs, "advance", nothing_taken)),
    Mutant(
        "messages dropped", "what a run has not seen leaves its inbox",
        sql("drop_messages", "id in (select value from json_each(:messages))", "true"),
    ),
    Mutant(
        "no wake", "a message that comes while its run goes on wakes nothing",
        swap(SqliteTransaction, "wake_parked", forget), seeds=(235,),
    ),
    Mutant(
        "signal sleeps", "a message does not make its run due",
        sql(
            "reach_runs",
            "due_at = case when state = 'pending' and due_at > :now then :now else due_at end",
            "due_at = due_at",
        ),
    ),
    Mutant("parked for ever", "timers do not make their run due", swap(workflow_runs, "advance", parked_for_ever)),
    Mutant("new chance", "a replay draws other random numbers", swap(workflow_runs, "new_run", seed_of_the_attempt)),
    Mutant("children go on", "what a run has given up is not canceled", swap(workflow_runs, "cancel", forget)),
    Mutant("cancel forgotten", "a run does not hear that it is to be canceled", swap(advance, "_next_row", no_cancel)),
    Mutant("own end missed", "a run goes on behind a step that has terminated it",
           swap(workflow_runs._Around, "run_step", step_goes_on), seeds=(380,)),
    Mutant("memory ahead", "a run stays in memory though its transaction was undone",
           swap(RunsInMemory, "drop", keep_undone)),
    Mutant("one loan", "a run in memory is found by a batch that runs beside the one that has it",
           swap(RunsInMemory, "lend", one_loan), seeds=(139,)),
    Mutant("old memory", "a run in memory goes on though another worker has let it go on since",
           swap(workflow_memory, "_follows", lambda *_: True)),
    Mutant(
        "pause undone", "a run that is paused while a worker has it goes on",
        sql("park_runs", "case when stage = 'paused' then stage else e.value ->> 'stage' end", "e.value ->> 'stage'"),
        seeds=(11,),
    ),
    Mutant("rows forgotten", "what a run did in a batch is not written", swap(OpenRuns, "_note", forget)),
)  # fmt: skip
