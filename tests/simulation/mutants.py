"""Planted bugs: each breaks one line of the engine or the store, and the simulation must find every one of them.

They live here, as patches of the real code, and not as switches in it. A simulation that finds no planted bug proves
nothing about the bugs that nobody planted; some of these were real once (marked so), found by earlier runs.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from evertick.app.execution.runner import Execution
from evertick.app.scheduling import job_builder, schedulers
from evertick.base.errors import OutcomeUnknown, Unavailable
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import LONG_AGO
from evertick.base.records.jobs import Completion, FunctionKind, JobState, NewJob
from evertick.engine.jobs import actions, batch, claims, completion, limits, recovery
from evertick.engine.jobs.mutations import MutationLoop
from evertick.engine.maintenance import reaper
from evertick.engine.runtime.registration import Registration
from evertick.rules.jobs import lifecycle
from evertick.store.records.claims import OldestJob
from evertick.store.sqlite import transaction as sqlite_transaction
from evertick.store.sqlite.transaction import SqliteTransaction
from evertick.store.transaction.statements import load_statements
from evertick.store.transaction.unit_of_work import UnitOfWork
from tests.simulation import world
from tests.simulation.database import HeartbeatTask, SimulatedExecutors, label_of, origin_of
from tests.simulation.functions import Stage

Plant = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug: what is wrong with it, and how to plant it; `seeds` found it last and are tried first.

    `raises`: errors of Python code follow from it, so they do not say that the mutant no longer fits the code.
    """

    name: str
    wrong: str
    plant: Plant
    seeds: tuple[int, ...] = ()
    raises: bool = False


def swap(owner: Any, name: str, new: Any) -> Plant:
    """Replace an attribute; a function by one that takes the same arguments."""

    def plant() -> Any:
        old = getattr(owner, name, None)
        if inspect.isfunction(old) and inspect.isfunction(new):
            _check_arguments(old, new)
        return patch.object(owner, name, new, create=isinstance(new, property))

    return plant


def _check_arguments(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    takes = inspect.signature(old).parameters.values()
    named = {each.name: None for each in takes if each.kind is each.KEYWORD_ONLY}
    in_order = [None for each in takes if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    try:
        inspect.signature(new).bind(*in_order, **named)
    except TypeError as error:
        raise LookupError(f"the arguments of {old.__qualname__} have changed: {error}; correct the mutant") from error


def sql(name: str, old: str, new: str) -> Plant:
    """Change the text of a statement."""

    @contextmanager
    def plant() -> Iterator[None]:
        statements = load_statements("sqlite", "")  # written as a transaction asks for them: each call has its own
        text = statements[name]
        if old not in text:
            raise LookupError(f"the statement {name} does not contain {old!r}; correct the mutant")
        with patch.dict(statements, {name: text.replace(old, new)}):
            yield

    return plant


def both(*plants: Plant) -> Plant:
    """Several changes at once."""

    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for one in plants:
                stack.enter_context(one())
            yield

    return plant


# -- what the bugs do instead


def settle_whatever(self: Any) -> None:
    results = self.results[self._written :]
    if results:
        self._written = len(self.results)
        completion.finish(
            self._transaction,
            {result.claim.id: result.claim for result in results},
            [result.end for result in results],
            worker_id=self._worker_id,
            now=self._deps.clock.now(),
            make_id=self._deps.ids.make,
        )
        self._transaction.insert_jobs(self.unit.take_successors())


def finish_later(self: Any) -> Any:
    self.unit.flush()

    def second(transaction: Any) -> None:
        self._transaction = transaction
        try:
            settle_whatever(self)
        finally:
            self._transaction = None

    Stage.world.afterthoughts.append(second)
    return self.results


_finish = completion.finish


def tell_later(transaction: Any, claimed: Any, ends: Any, *, worker_id: Any, now: Any, make_id: Any) -> Any:
    silent = {job_id: claim._replace(on_complete=None) for job_id, claim in claimed.items()}
    held = _finish(transaction, silent, ends, worker_id=worker_id, now=now, make_id=make_id)
    told = [
        completion._notice(claim.on_complete, end.id, claim.tenant, end.state, end, claim.trace, now, make_id)
        for end in held.values()
        if end.state is not JobState.PENDING and (claim := claimed[end.id]).on_complete is not None
    ]
    followers = [each for each in told if isinstance(each, NewJob)]
    if followers:
        Stage.world.afterthoughts.append(lambda other: other.insert_jobs(followers))
    return held


def call_again_without_key(self: Any, function: Any, args: Any, kwargs: Any, /, *, key: str) -> Any:
    work = self._mutation_work(function, function.encode_args(args, kwargs), None)
    try:
        return self.transact(work)
    except OutcomeUnknown:
        return self.transact(work)


_cancel_job = SqliteTransaction.cancel_job
_move_to_history = SqliteTransaction._move_to_history


def cancel_whatever(self: Any, job_id: Any, *, tenant: Any, now: Any, **options: Any) -> Any:
    changed = "update history set state = 'canceled' where id = ? and tenant = ? and state <> 'canceled'"
    self.connection.execute(changed, (job_id, tenant))
    return _cancel_job(self, job_id, tenant=tenant, now=now, **options)


def move_in_two_transactions(self: Any, ends: Any, worker_id: Any) -> Any:
    """Removed now, written after the commit."""
    held = _move_to_history(self, ends, worker_id)
    written = [self.connection.execute("select * from history where id = ?", (each,)).fetchone() for each in held]
    self.connection.executemany("delete from history where id = ?", [(each,) for each in held])

    def write_down(other: Any) -> None:
        for row in written:
            other.connection.execute(f"insert into history values ({', '.join('?' * len(row))})", row)

    Stage.world.afterthoughts.append(write_down)
    return held


_executors_write = SimulatedExecutors.write
_claim_jobs = SqliteTransaction.claim_jobs
_SEEN: Final[list[Any]] = []


async def look_then_claim(self: Any, work: Any, **options: Any) -> Any:
    if label_of(work).endswith(".claim"):
        seen = Stage.world.rows("select id, queue, tenant, rank from jobs where state = 'pending' and stage = 'ready'")
        await asyncio.sleep(0.2)

        def stale(transaction: Any) -> Any:
            _SEEN[:] = seen
            try:
                return work(transaction)
            finally:
                _SEEN.clear()

        stale.__qualname__ = origin_of(work)
        return await _executors_write(self, stale, **options)
    return await _executors_write(self, work, **options)


def claim_what_was_seen(self: Any, shares: Any, **options: Any) -> Any:
    oldest = {share.first[:2] for share in shares}
    for job_id, queue, tenant, _ in _SEEN:
        if (queue, tenant) in oldest:
            self.connection.execute(
                "update jobs set state = 'pending', stage = 'ready' where id = ? and state = 'in_progress'", (job_id,)
            )
    return _claim_jobs(self, shares, **options)


_oldest_ready_jobs = SqliteTransaction.oldest_ready_jobs


def heads_as_was_seen(self: Any, *, others: Any = (), **options: Any) -> Any:
    first: dict[Any, Any] = {}
    for _, queue, tenant, rank in _SEEN:
        if queue not in others:
            first[queue, tenant] = min(rank, first.get((queue, tenant), rank))
    return [OldestJob(*place, rank) for place, rank in sorted(first.items())] or _oldest_ready_jobs(
        self, others=others, **options
    )


_lost = lifecycle.lost


def lost_like_a_mutation(claim: Any, *, now: Any, entropy: Any) -> Any:
    return _lost(claim._replace(kind=FunctionKind.MUTATION), now=now, entropy=entropy)


def lost_without_count(claim: Any, *, now: Any, entropy: Any) -> Any:
    return _lost(claim._replace(crashes=-1), now=now, entropy=entropy)


async def nothing(self: Any, *_: Any, **__: Any) -> None:
    return None


def undo_but_jobs(self: Any, depth: int) -> None:
    kept = list(self._jobs)
    _undo_to(self, depth)
    self._jobs = kept


_undo_to = UnitOfWork.undo_to


def undo_outermost_only(self: Any, depth: int) -> None:
    if depth > 0:
        self.keep()
    else:
        _undo_to(self, depth)


_ends_round = actions.ActionEnds.round


async def ends_or_gives_up(self: Any) -> Any:
    try:
        return await _ends_round(self)
    except Unavailable:
        for item in self._waiting:
            self._on_written(*item)
        self._waiting.clear()
        raise


async def look_at_nothing(self: Any, worker_id: Any, known: Any = ()) -> list[Any]:
    return []


_find_lost = claims.Claims.lost


async def look_without_knowing(self: Any, worker_id: Any, known: Any = ()) -> Any:
    return await _find_lost(self, worker_id)


async def look_each_time(self: Any, worker_id: Any, known: Any = ()) -> Any:
    self._compared_at = LONG_AGO
    return await _find_lost(self, worker_id, known)


_run_newcomers = MutationLoop._run_newcomers


async def run_newcomers_unseen(self: Any, runs: Any) -> None:
    aside = dict(self._separate)
    await _run_newcomers(self, runs)
    self._separate = aside


_start_claims = actions.ActionLoop._start


async def start_whatever_runs(self: Any, claimed: Any, worker_id: Any) -> None:
    for claim in claimed:
        self._tasks.pop((claim.id, claim.attempt), None)
        self._begun.pop((claim.id, claim.attempt), None)
    await _start_claims(self, claimed, worker_id)


async def register_once(self: Any) -> None:
    try:
        await self._register()
    except Unavailable:
        return
    self._start_heartbeat()


_begin_batch = batch.OpenBatch.__init__


def batch_that_does_not_settle(self: Any, *args: Any) -> None:
    _begin_batch(self, *args)
    self.unit._write_completions = None


async def believes_it_was_done(self: Any, work: Any, **options: Any) -> Any:
    done: list[Any] = []

    def remember(transaction: Any) -> Any:
        done.append(work(transaction))
        return done[-1]

    remember.__qualname__ = origin_of(work)
    try:
        return await _executors_write(self, remember, **options)
    except OutcomeUnknown:
        return done[-1]


def place_like_any_other(builder: Any, unit: Any, own: Any, drafted: Any, options: Any, *, now: Any) -> Any:
    return builder.place(unit.flush_to_db(), drafted, options.on_conflict, now=now)


def renew_whatever(self: HeartbeatTask) -> Any:
    async def run() -> None:
        while True:
            await asyncio.sleep(self._deps.settings.renew_every_ms / 1000)

    return run()


_draft = job_builder.JobBuilder.draft


def draft_for_everybody(self: Any, request: Any, **options: Any) -> Any:
    return _draft(self, request, **(options | {"tenant": DEFAULT_TENANT}))


_any_limits = SqliteTransaction.any_limits


def limits_alone(self: Any) -> Any:
    return _any_limits(self)._replace(held=False)


FENCE: Final = "state = 'in_progress' and worker_id = :worker_id and attempt = json_extract(e.value, '$[1]')"
FENCE_OF_RETRY: Final = "state = 'in_progress' and worker_id = :worker_id and attempt = :attempt"
MUTANTS: Final = (
    Mutant("no_fence", "an end is written although another worker holds the job",
           both(sql("finish_jobs", FENCE, ":worker_id is not null"),
                sql("retry_job", FENCE_OF_RETRY, ":worker_id is not null and :attempt is not null"))),
    Mutant("left_behind", "a job that has ended is still to be done",
           sql("delete_finished", "where id", "where 0 and id")),
    Mutant("uncounted", "the end of a job is not counted",
           swap(sqlite_transaction, "counted_ends", lambda rows, *, unfinished: [])),
    Mutant("moved_apart", "a job moves to history in two transactions",
           swap(SqliteTransaction, "_move_to_history", move_in_two_transactions)),
    Mutant("no_held_check", "a mutation whose end was refused keeps its writes",
           swap(batch.OpenBatch, "write_completions", settle_whatever)),
    Mutant("finish_outside", "a mutation's end is written after its commit",
           swap(batch.OpenBatch, "finish", finish_later)),
    Mutant("blind_retry", "a call whose reply was lost is made again", swap(Execution, "call_once",
           call_again_without_key), seeds=(10,)),
    Mutant("split_claim", "a claim reads in one transaction and writes in another",
           both(swap(SimulatedExecutors, "write", look_then_claim),
                swap(SqliteTransaction, "oldest_ready_jobs", heads_as_was_seen),
                swap(SqliteTransaction, "claim_jobs", claim_what_was_seen))),
    Mutant("same_attempt", "a claim is no new attempt", sql("claim_ids", "attempt + 1", "attempt")),
    Mutant("requeue_action", "an action whose worker died runs again", swap(reaper, "lost", lost_like_a_mutation)),
    Mutant("no_reaper", "nobody gives back what the dead held", swap(reaper.Reaper, "round", nothing)),
    Mutant("crashes_uncounted", "a job that kills its workers goes on", swap(reaper, "lost", lost_without_count)),
    Mutant("deaf_to_lost_lease", "a worker goes on without its lease", swap(HeartbeatTask, "_run", renew_whatever)),
    Mutant("undo_keeps_jobs", "what a failed mutation scheduled stays", swap(UnitOfWork, "undo_to", undo_but_jobs)),
    Mutant("nested_undo", "what a failed nested mutation wrote stays",
           swap(UnitOfWork, "undo_to", undo_outermost_only)),
    Mutant("told_later", "on_complete is scheduled in a second transaction",
           both(swap(batch, "finish", tell_later), swap(actions, "finish", tell_later))),
    Mutant("told_of_all", "on_complete is called after an end that it is not for",
           swap(Completion, "follows", lambda self, state: True)),
    Mutant("told_of_no_cancel", "on_complete is not called after a cancel that it is for",
           swap(Completion, "follows", lambda self, state: not self.ends or state is JobState.FAILED)),
    Mutant("cancel_overwrites", "a cancel changes what has ended",
           swap(SqliteTransaction, "cancel_job", cancel_whatever)),
    Mutant("stop_forgotten", "an action that was asked to stop ends as its function did",
           sql("finish_jobs", "and (stop = 0 or kind = 'mutation' or json_extract(e.value, '$[5]') = 'canceled')", "")),
    Mutant("born_alive", "what a canceled action schedules lives",
           swap(schedulers, "is_canceled", lambda transaction, job_id, tenant: False)),
    Mutant("early_pruner", "jobs are removed before their time",
           sql("expired_jobs", "completed_at < :before", "completed_at < :before + 15000")),
    Mutant("never_ready", "jobs whose time has come wait on",
           swap(claims.Claims, "_promote", lambda self, transaction, now: 0)),
    Mutant("any_function", "a worker claims what it does not know",
           swap(claims.Claims, "_runs", lambda self, pool, name: True), raises=True),
    Mutant("keys_uncounted", "what runs of a key is not counted",
           swap(SqliteTransaction, "running_by_key", lambda self: {})),
    Mutant("keys_uncounted_in_a_claim", "a claim does not count what it takes of a key",
           swap(limits.KeyLimits, "_starts", lambda self, share, key: self._left(share, key) > 0)),
    Mutant("held_for_ever", "no end lets a job start that was held for its key",
           swap(SqliteTransaction, "release_held", lambda self, rooms: None)),
    Mutant("held_without_limit", "jobs stay held when their pool's limit is removed",
           swap(SqliteTransaction, "any_limits", limits_alone), seeds=(68,)),
    Mutant("ends_dropped", "the end of an action is forgotten when the database is away",
           both(swap(actions.ActionEnds, "round", ends_or_gives_up),
                swap(actions.ActionLoop, "_remember", lambda self, attempt: None))),  # which hides it
    Mutant("believed", "a commit whose reply was lost is taken for done",
           swap(SimulatedExecutors, "write", believes_it_was_done)),
    Mutant("retries_for_ever", "a retry policy has no last attempt",
           swap(lifecycle, "next_attempt_at",
                lambda failures, policy, now, entropy: lifecycle.next_attempt_at(1, policy, now, entropy))),
    Mutant("tenant_forgotten", "a job is scheduled for the default tenant",
           swap(job_builder.JobBuilder, "draft", draft_for_everybody)),
    Mutant("key_of_ended_jobs", "a key is free as soon as its job runs",
           both(sql("find_unfinished_key", "state in ('pending', 'in_progress')", "state = 'pending'"),
                swap(world, "HISTORY", world.HISTORY + "drop index jobs_key;"))),
    Mutant("claims_unheard", "real once: a claim whose reply was lost is never found",
           swap(claims.Claims, "lost", look_at_nothing)),
    Mutant("running_found_again", "an action that runs is taken for an unheard claim, and begun again",
           both(swap(claims.Claims, "lost", look_without_knowing),
                swap(actions.ActionLoop, "_start", start_whatever_runs))),
    Mutant("newcomers_unknown", "what runs beside a large tenant's batch is taken for an unheard claim",
           both(swap(MutationLoop, "_run_newcomers", run_newcomers_unseen),
                swap(claims.Claims, "lost", look_each_time)),  # which it does now and then
           seeds=(99,)),
    Mutant("unsettled_batch", "real once: in a batch, earlier mutations look unfinished",
           swap(batch.OpenBatch, "__init__", batch_that_does_not_settle), seeds=(23,)),
    Mutant("blamed", "real once: a mutation fails because its claim was forgotten by a crash, and made again",
           swap(recovery, "EndedItself", batch.FenceLost)),
    Mutant("own_key", "real once: a job that schedules under its own key cancels itself and never ends",
           swap(schedulers, "place_under_key", place_like_any_other)),
    Mutant("bad_company", "real once: innocent jobs are quarantined with the one that kills",
           both(sql("retry_job", ":crashes >= 2", ":crashes >= 9"),
                sql("release_job", "crashes >= 2", "crashes >= 9"))),
    Mutant("suspect_beside_actions", "a suspect mutation does not wait for the actions that run",
           swap(actions.ActionLoop, "pause", lambda self, by: True), seeds=(15,)),
    Mutant("unpaused", "actions start beside a suspect mutation",
           swap(actions.ActionLoop, "pause", lambda self, by: not (self._tasks or self._starting)),
           seeds=(88,)),
    Mutant("never_resumed", "after a suspect mutation, no action starts any more",
           swap(actions.ActionLoop, "resume", lambda self, by: None), seeds=(44,)),
    Mutant("suspects_together", "suspect actions run beside each other",
           swap(actions.ActionLoop, "_runs_suspect", False)),
    Mutant("suspects_unseen", "a suspect action that a look has seen is not asked for",
           swap(actions.ActionLoop, "_suspect_waits", property(lambda self: False, lambda self, value: None))),
    Mutant("reborn_gives_up", "real once: a worker without a lease tries only once to get one",
           swap(Registration, "_register_again", register_once)),
)  # fmt: skip
