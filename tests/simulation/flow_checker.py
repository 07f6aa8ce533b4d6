"""The checker of simulated workflows: what is promised of runs, beside what is promised of jobs.

lost          a run that does not exist or has not ended, a step that was confirmed and has no effect
doubled       an effect twice, an event that was seen twice, an action that was begun twice
atomicity     an effect in another transaction than its row in the journal
outcome       a run ended, or a step, with something that its spec does not allow
asleep        a run waits, although what it waits for has been sent
dropped       what a run gave up went on to succeed
cleanup       a run was canceled, and the step that cleans up was not made once
paused        a paused run was claimed, or went on though no client let it
withdrawn     an event was withdrawn, and seen or withdrawn once more
journal       positions with gaps, or code that does not fit the journal that it has written
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evertick.base.errors import ReplayMismatch
from evertick.base.ids import JobId
from evertick.rules.workflows.replay import replay
from evertick.rules.workflows.run import Run, new_run
from evertick.rules.workflows.step import Step
from tests.simulation.checker import (
    Evidence,
    Fact,
    actions,
    apart,
    company,
    count_rare_states,
    gather,
    isolation,
    lost,
    unrest,
)
from tests.simulation.cluster import Profile
from tests.simulation.flows import flow, in_round
from tests.simulation.world import World


@dataclass(slots=True)
class Rows:
    """What the history has of one run's journal."""

    steps: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The results of its steps as JSON text, with the transactions of their rows."""
    canceled: bool = False
    """It has seen a request to cancel."""
    calls: dict[int, str] = field(default_factory=dict)
    """Jobs that it has begun, by the number of the call. A generation counts anew."""
    dropped: list[tuple[str, int]] = field(default_factory=list)
    """Jobs that it has given up, and the transaction in which it did."""


def flow_violations(world: World, profile: Profile) -> list[str]:
    """Every promise that the run of the simulation broke."""
    evidence = gather(world, profile)
    journals = _journals(world)
    found = [*world.complaints, *evidence.complaints]
    for check in (lost, actions, isolation, unrest, company, apart):
        found += check(evidence)
    for check_runs in (_effects, _told, _outcomes, _begun, _dropped, _cleaned, _stopped, _paused, _withdrawn):
        found += check_runs(evidence, journals)
    found += _replayed(evidence)
    count_rare_states(evidence)
    return found


def asleep(world: World) -> Iterator[str]:
    """Runs that wait for a message that has come already. (Clocks may be wrong by less than a minute.)"""
    rows = world.rows(
        """select j.id, m.kind, m.name
             from jobs j join workflow_runs r on r.run_id = j.id
             join workflow_inbox m on m.run_id = j.id and m.taken_at is null
            where j.state = 'pending' and j.due_at > ? + 60000 and j.stage <> 'paused'
              and (m.kind <> 'event' or exists (
                   select 1 from workflow_journal c
                    where c.run_id = j.id and c.generation = r.generation and c.kind = 'call' and c.call = 'event'
                      and c.name = m.name and not exists (
                          select 1 from workflow_journal e
                           where e.run_id = j.id and e.generation = r.generation and e.kind in ('end', 'drop')
                             and e.seq = c.seq)))""",
        world.now_ms() + 1_800_000_000_000,
    )
    for run_id, kind, name in rows:
        yield f"asleep: {run_id} waits, and was sent {kind} {name}"


def _withdrawn(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """An event that was withdrawn is gone: no run sees it, and it is withdrawn once."""
    took = {
        json.loads(result).removeprefix("took "): txns
        for journal in journals.values()
        for result, txns in journal.steps.items()
        if result.startswith('"took ')
    }
    for value, txns in took.items():
        if len(txns) > 1:
            yield f"withdrawn: {value} was withdrawn {len(txns)} times"
    for run_id, result in e.world.rows(
        "select id, new_state from sim_history where what = 'journal' and old_state = 'end' and new_state is not null"
    ):
        if result.startswith('"') and json.loads(result) in took:
            yield f"withdrawn: {result} was withdrawn, and {run_id} has seen it"


def _journals(world: World) -> dict[str, Rows]:
    journals: dict[str, Rows] = defaultdict(Rows)
    rows = world.rows(
        "select txn, id, old_state, new_state, new_attempt from sim_history where what = 'journal' order by seq"
    )
    for txn, run_id, kind, result, number in rows:
        journal = journals[run_id]
        if kind == "step" and result is not None:
            journal.steps[result].append(txn)
        elif kind == "cancel":
            journal.canceled = True
        elif kind == "call" and result is not None:
            journal.calls[number] = result
        elif kind == "drop":
            journal.dropped.append((journal.calls[number], txn))
    return journals


def _flows(e: Evidence) -> Iterator[Fact]:
    return (job for job in e.jobs.values() if job.name == "flow")


def _steps(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The steps of a flow itself, inside of what runs together too."""
    for item in items:
        if item["do"] == "all":
            yield from _steps(item["items"])
        else:
            yield item


def _effects(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """An effect at most once, and in the commit of its row."""
    for tag, written in e.effects.items():
        if len(written) > 1:
            yield f"doubled: {tag} has {len(written)} effects"
    for run_id, journal in list(journals.items()):
        for result, txns in journal.steps.items():
            written = e.effects.get(json.loads(result), []) if result.startswith('"') else []
            if written and [txn for txn, _ in written] != txns:
                yield f"atomicity: the effect of {result} and its row in the journal of {run_id} are two transactions"


def _told(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """A run is told of the end of what it has begun in the commit of that end."""
    ends = {(job.parent_id, job.end_txn) for job in e.jobs.values() if job.parent_id}
    for run_id, txn, number in e.world.rows(
        "select id, txn, new_attempt from sim_history where what = 'message' and old_state = 'ended'"
    ):
        if (run_id, txn) not in ends:
            yield f"atomicity: {run_id} was told of the end of its call {number} in another transaction"


def _outcomes(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """A run ends as its spec allows, and each outcome fits what was done."""
    results = dict(e.world.rows("select id, result from history where kind = 'workflow' and result is not null"))
    quarantined = any(job.error and "Quarantined" in job.error for job in e.jobs.values())
    given_up = {job_id for journal in journals.values() for job_id, _ in journal.dropped}
    for job in _flows(e):
        spec = job.args["spec"]
        if job.state == "failed" and not spec.get("boom") and not quarantined:
            yield f"outcome: {job.tag} failed: {job.error}"
        asked = job.id in e.world.asked_to_end | given_up
        if job.state == "canceled" and not asked:
            yield f"outcome: {job.tag} was canceled, and was not asked to"
        if job.id in e.world.told_to_cancel and job.state != "canceled" and not journals[job.id].canceled:
            yield f"outcome: {job.tag} was told to cancel, and never heard of it"
        if job.state != "success":
            continue
        if spec.get("boom"):
            yield f"outcome: {job.tag} is a success, and must fail"
        if job.id in results:
            items = in_round(spec, spec.get("rounds", 0))
            yield from _fit(e, items, json.loads(results[job.id]), quarantined=quarantined)


def _fit(e: Evidence, items: list[dict[str, Any]], outcomes: list[Any], *, quarantined: bool) -> Iterator[str]:
    if len(items) != len(outcomes):
        yield f"outcome: {outcomes} for {len(items)} items"
        return
    for item, outcome in zip(items, outcomes, strict=True):
        tag, do = item["tag"], item["do"]
        e.world.rare[f"flow_{do}_{outcome if outcome in ('failed', 'unknown', 'timeout') else 'done'}"] += 1
        allowed = True
        if do in ("write", "chance"):
            effects = len(e.effects.get(tag, ()))
            allowed = (outcome == tag and effects == 1) or (
                outcome == "failed" and effects == 0 and (bool(item.get("fail")) or quarantined)
            )
        elif do == "act":
            fails = item.get("fail", 0) >= item.get("retry", 1)
            # An attempt that was lost counts as a failure, so fewer planned ones are enough.
            lost_any = any(f.error and "Lost" in f.error for f in e.jobs.values() if f.tag == tag)
            allowed = outcome in (tag, "unknown") or (
                outcome == "failed" and (fails or lost_any or bool(item.get("fail")) or quarantined)
            )
        elif do == "sleep":
            allowed = outcome == "slept"
        elif do == "wait":
            allowed = outcome in e.world.sent[item["event"]] or (outcome == "timeout" and "seconds" in item)
        elif do == "stop":
            allowed = False
        elif do == "take back":
            allowed = outcome in ("nobody", "nothing", "its own run") or outcome.startswith("took ") or quarantined
        elif do == "poke":
            allowed = outcome in (tag, "nobody")
        elif do == "child":
            allowed = isinstance(outcome, list) or outcome == "failed" or (outcome == "timeout" and "seconds" in item)
        else:
            yield from _fit(e, item["items"], outcome, quarantined=quarantined)
        if not allowed:
            yield f"outcome: {do} {tag} ended with {outcome!r}"


def _begun(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """A step that is a job begins once. An event reaches one wait."""
    tags = Counter(job.tag for job in e.jobs.values() if job.name.startswith("flow"))
    for tag, count in tags.items():
        if count > 1:
            yield f"doubled: {tag} was begun {count} times"
    seen: Counter[str] = Counter()
    for run_id, result in e.world.rows(
        "select id, new_state from sim_history where what = 'journal' and old_state = 'end' and new_state is not null"
    ):
        if any(result == json.dumps(value) for values in e.world.sent.values() for value in values):
            seen[f"{run_id} {result}"] += 1
    for event, count in seen.items():
        if count > 1:
            yield f"doubled: the event {event} was seen {count} times"


def _dropped(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    for run_id, journal in list(journals.items()):
        for job_id, txn in journal.dropped:
            e.world.rare["flow_dropped"] += 1
            job = e.jobs[job_id]
            if job.state == "success" and job.end_txn > txn and job.kind != "workflow":
                yield f"dropped: {job.tag} was given up by {run_id} and is a success"
            asked = journals[job_id].canceled or job.stop_seq
            if job.kind == "workflow" and job.end_txn > txn and job.state != "canceled" and not asked:
                yield f"dropped: the child {job.tag} was given up by {run_id} and not asked to end"


def _cleaned(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    for job in _flows(e):
        cleanup = job.args["spec"].get("cleanup")
        terminated = job.stop_seq or job.id in e.world.terminated
        if not cleanup or job.state != "canceled" or not journals[job.id].canceled or terminated:
            continue
        e.world.rare["flow_cleaned"] += 1
        if len(e.effects.get(cleanup["tag"], ())) != 1:
            yield f"cleanup: {job.tag} was canceled, its cleanup ran {len(e.effects.get(cleanup['tag'], ()))} times"


def _stopped(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """A run whose step has ended it is canceled, and takes none of the steps behind that one."""
    for job in _flows(e):
        items = job.args["spec"]["items"]
        place = next((n for n, item in enumerate(items) if item["do"] == "stop"), None)
        if place is None or not e.effects.get(items[place]["tag"]):
            continue
        e.world.rare["flow_stopped"] += 1
        if job.state != "canceled":
            yield f"stopped: {job.tag} has ended itself, and is {job.state}"
        for item in _steps(items[place + 1 :]):
            if e.effects.get(item["tag"]):
                yield f"stopped: {job.tag} has ended itself, and then did {item['tag']}"


def _paused(e: Evidence, journals: dict[str, Rows]) -> Iterator[str]:
    """Claims take no paused run, and none goes on before a client asked for that, or for its end."""
    paused: set[str] = set()
    given_up = {job_id for journal in journals.values() for job_id, _ in journal.dropped}
    for seq, what, run_id, old in e.world.rows(
        """select seq, what, id, old_state from sim_history
            where what in ('paused', 'resumed') or what = 'update' and new_state = 'in_progress' order by seq"""
    ):
        if what == "paused":
            paused.add(run_id)
        elif what == "resumed":
            paused.discard(run_id)
            job = e.jobs[run_id]
            to_end = run_id in e.world.asked_to_end | given_up or job.stop_seq
            if not to_end and e.world.asked_to_resume.get(run_id, seq) >= seq:
                yield f"paused: {job.tag} went on, and was not asked to"
        elif run_id in paused and old == "pending":
            yield f"paused: {e.jobs[run_id].tag} was claimed while it was paused"


def _replayed(e: Evidence) -> Iterator[str]:
    """The journals that are left, replayed by the code that wrote them."""
    ids = [JobId(job.id) for job in _flows(e)]
    records = e.world.store.read(lambda transaction: transaction.get_runs(ids))
    journals = e.world.store.read(
        lambda transaction: transaction.load_journals([(each.id, each.generation) for each in records.values()])
    )
    for job_id, rows in journals.items():
        if [row.position for row in rows] != list(range(len(rows))):
            yield f"journal: {job_id} has the positions {[row.position for row in rows]}"
            continue
        first = rows[0].outcome if rows else None
        arguments = json.loads(first.result) if first is not None and hasattr(first, "result") else None

        async def body(run: Run, arguments: Any = arguments or e.jobs[job_id].args) -> str:
            return flow.encode_result(await flow.handler(Step(run, flow), **arguments))

        run = new_run(job_id, body, seed=records[job_id].seed_of_generation)
        try:
            replay(run, rows)
        except ReplayMismatch as mismatch:
            yield f"journal: {job_id} does not fit its code: {mismatch}"
        finally:
            run.evict()
