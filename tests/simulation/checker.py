"""The checker: from the history of a run to the promises it broke.

It knows the workload and the promises, not the engine. Every violation reads `kind: what exactly`; the kind is stable,
so that a minimiser can tell one failure from another.

    lost          an acknowledged job that does not exist, or has not ended
    phantom       an effect without a success, a success without an effect, a job whose parent did not commit
    doubled       an effect twice, a child twice
    atomicity     an effect, a child or an `on_complete` in another transaction than the end it belongs to
    at-most-once  an action that called out more often than it was allowed, or before its claim was durable
    fence         a change of a job that its state did not allow: a second end, a claim without a new attempt
    cancel        a job that went on after its cancel was confirmed; a child of a canceled action that is not canceled
    key           two unfinished jobs under one key at a time
    told          an `on_complete` that was told not at all, twice, or without an end
    serial        a counter or a queue that lost an update
    isolation     something of one tenant's in another's
    retention     a job removed before its time or before its end
    stuck         faults have stopped and jobs do not end
    unrest        faults have stopped, and jobs are still taken from workers that live
    crowd         a job that was claimed although as many of its key ran as may
    blame         a mutation that failed although its function did not
    company       a job that two workers did not survive was claimed beside one that must not be near it
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from evertick.rules.jobs.lifecycle import CRASHES_MAX, SUSPECT_CRASHES, TRANSITIONS
from tests.simulation.cluster import Profile
from tests.simulation.world import START, World

ENDS: Final = ("success", "failed", "canceled")
HARMLESS: Final = ("deaf", "conflict", "forgotten")
"""Faults that let nobody look dead."""
LEGAL: Final = {state.value: {to.value for to in row.values()} for state, row in TRANSITIONS.items()}
LEGAL["pending"].add("pending")  # it is ready, and did wait for its time


@dataclass(slots=True)
class Fact:
    """A job, and what the history says of it."""

    id: str
    tenant: str
    kind: str
    name: str
    args: dict[str, Any]
    parent_id: str | None
    key: str | None
    retry: str | None
    on_complete: str | None
    state: str
    crashes: int
    error: str | None
    born_txn: int
    born_seq: int = 0
    born_at_ms: int = 0
    born_canceled: bool = False
    end_txn: int = 0
    end_seq: int = 0
    end_at_ms: int = 0
    success_txn: int = 0
    stop_seq: int = 0
    stop_txn: int = 0
    """When it was asked to stop, while it ran. From then on it is canceled, although its function goes on."""
    claims: list[int] = field(default_factory=list)
    """The entries of the history at which it was claimed."""

    @property
    def tag(self) -> str:
        """The tag of its spec."""
        return str(self.args.get("spec", {}).get("tag", ""))


UNANSWERED: Final = {"unheard", "lost", "unavailable", "outage", "conflict", "forgotten"}
"""Faults after which a claim can be there that its worker does not know of."""


@dataclass(slots=True)
class Evidence:
    """Everything the checker looks at, read once."""

    world: World
    profile: Profile
    jobs: dict[str, Fact]
    effects: dict[str, list[tuple[int, str]]]
    """Tag to the transactions and tenants in which its effect was written."""
    complaints: list[str]


def violations(world: World, profile: Profile) -> list[str]:
    """Every promise that the run broke."""
    evidence = gather(world, profile)
    checks = (
        lost,
        _effects,
        _children,
        actions,
        _cancels,
        _keys,
        _told,
        _serial,
        isolation,
        unrest,
        blame,
        company,
        _crowd,
        apart,
        _found,
    )
    found = [*world.complaints, *evidence.complaints]
    for check in checks:
        found += check(evidence)
    count_rare_states(evidence)
    return found


def gather(world: World, profile: Profile) -> Evidence:
    """Read the history once, and check on the way that every change of a job was legal."""
    columns = "id, tenant, kind, name, args, parent_id, key, retry, on_complete, state, crashes, error, txn"
    jobs = {}
    for row in world.rows(f"select {columns} from job_facts order by id"):
        values = [*row[:4], json.loads(row[4]), *row[5:]]
        jobs[row[0]] = Fact(*values)
    effects: dict[str, list[tuple[int, str]]] = defaultdict(list)
    complaints: list[str] = []
    gone: dict[str, int] = {}
    owner: dict[str, str] = {}
    columns = (
        "seq, txn, at_ms, what, id, tenant, old_state, new_state, old_attempt, new_attempt, old_worker, new_worker, "
        "process, crashes"
    )
    for row in world.rows(f"select {columns} from sim_history order by seq"):
        seq, txn, at_ms, what, row_id, tenant, old, new, old_attempt, new_attempt, old_worker, new_worker = row[:12]
        process, crashes = row[12:]
        if what == "worker":
            gone[row_id] = at_ms
            continue
        if what == "registered":
            owner[row_id] = process
            continue
        if what == "document":
            if row_id.startswith("effects_"):
                effects[json.loads(new)["tag"]].append((txn, tenant))
            continue
        if what in ("journal", "message", "paused", "resumed", "held"):
            continue
        job = jobs[row_id]
        if what == "insert":
            job.born_seq, job.born_at_ms, job.born_canceled = seq, at_ms, new == "canceled"
            if job.born_canceled:
                job.end_seq, job.end_txn = seq, txn
        elif what == "stop":
            job.stop_seq, job.stop_txn = job.stop_seq or seq, job.stop_txn or txn
        elif what == "delete":
            complaints += _removed(world, profile, job, old, new_attempt, at_ms)
        else:
            complaints += _changed(job, old, new, old_attempt, new_attempt, old_worker)
            if new == "in_progress":
                job.claims.append(seq)
                world.rare["suspects_claimed"] += crashes >= SUSPECT_CRASHES
                if new_worker in gone and at_ms > max(world.quiet_at_ms, gone[new_worker] + profile.lease_ms):
                    complaints.append(f"unrest: {new_worker} claims {job.name} {job.id} and is no worker any more")
            if new == "success" and owner.get(old_worker, process) != process:
                complaints.append(f"fence: {process} wrote the success of {job.name} {job.id}, held by {old_worker}")
            if new in ENDS:
                job.end_txn, job.end_seq, job.end_at_ms = txn, seq, at_ms
                job.success_txn = txn if new == "success" else 0
    return Evidence(world, profile, jobs, effects, complaints)


def _changed(
    job: Fact, old: str, new: str, old_attempt: int, new_attempt: int, old_worker: str | None
) -> Iterator[str]:
    if new not in LEGAL[old]:
        yield f"fence: {job.name} {job.id} went from {old} to {new}"
    if new == "in_progress" and new_attempt != old_attempt + 1:
        yield f"fence: {job.name} {job.id} was claimed without a new attempt"
    if old == "in_progress" and old_worker is None:
        yield f"fence: {job.name} {job.id} was in progress without a worker"


def _removed(
    world: World, profile: Profile, job: Fact, state: str, completed_at: int | None, at_ms: int
) -> Iterator[str]:
    if state not in ENDS or completed_at is None:
        yield f"retention: {job.name} {job.id} was removed while {state}"
    elif not profile.skewed and "clock_jump" not in world.rare:
        age = at_ms + START - completed_at
        if age < profile.retention_ms:
            yield f"retention: {job.name} {job.id} was removed after {age} ms"


def lost(e: Evidence) -> Iterator[str]:
    for job_id in sorted(e.world.acknowledged - e.jobs.keys()):
        yield f"lost: the acknowledged job {job_id} does not exist"
    if e.world.complaints:
        return  # what did not end is said already
    for job in e.jobs.values():
        if job.state not in ENDS:
            yield f"lost: {job.name} {job.id} ended as {job.state}"


def _effects(e: Evidence) -> Iterator[str]:
    """Every mutation job: one effect, in the transaction of its success; or none."""
    of_jobs = set()
    for job in e.jobs.values():
        if job.kind != "mutation" or job.name not in ("work", "newer", "push"):
            continue
        of_jobs.add(job.tag)
        written = e.effects.get(job.tag, [])
        expected = 1 if job.state == "success" else 0
        if len(written) > expected:
            kind = "doubled" if expected else "phantom"
            yield f"{kind}: {job.name} {job.tag} is {job.state} and has {len(written)} effects"
        elif len(written) < expected:
            yield f"phantom: {job.name} {job.tag} is a success without an effect"
        elif expected and written[0][0] != job.success_txn:
            yield f"atomicity: {job.name} {job.tag} ended in another transaction than its effect"
        yield from _nested(e, job, expected)
    for tag, told in sorted(e.world.told.items()):
        if tag in of_jobs:
            continue
        count = len(e.effects.get(tag, []))
        if count > told.most:
            yield f"doubled: the call {tag} has {count} effects where at most {told.most} may be"
        elif count < told.least and tag not in of_jobs:
            yield f"lost: the call {tag} was confirmed and has no effect"


def _nested(e: Evidence, job: Fact, parents: int) -> Iterator[str]:
    """A nested mutation that fails leaves nothing; one that succeeds shares its parent's fate."""
    nested = job.args.get("spec", {}).get("nested")
    while nested:
        expected = 0 if nested.get("fail") else parents
        count = len(e.effects.get(nested["tag"], []))
        if count != expected:
            yield f"atomicity: the nested {nested['tag']} has {count} effects, not {expected}"
        parents, nested = expected, nested.get("nested")


def _children(e: Evidence) -> Iterator[str]:
    """A child exists, once, exactly if its mutation committed; and both were one transaction."""
    by_tag: dict[str, list[Fact]] = defaultdict(list)
    for job in e.jobs.values():
        if job.tag:
            by_tag[job.tag].append(job)
    for tag, twins in by_tag.items():
        if len(twins) > 1:
            yield f"doubled: {tag} was scheduled {len(twins)} times"
    for job in e.jobs.values():
        if job.name not in ("work", "newer"):
            continue
        levels = [(job.args["spec"], job.state == "success")]
        nested = job.args["spec"].get("nested")
        while nested:
            levels.append((nested, levels[-1][1] and not nested.get("fail")))
            nested = nested.get("nested")
        for spec, committed in levels:
            for child in spec.get("children", ()):
                born = by_tag.get(child["tag"], [])
                if born and not committed:
                    yield f"phantom: {child['tag']} exists, its parent {spec['tag']} did not commit"
                elif not born and committed and not child.get("key"):
                    yield f"lost: {child['tag']} does not exist, its parent {spec['tag']} committed"
                elif born and born[0].born_txn != job.success_txn:
                    yield f"atomicity: {child['tag']} was born in another transaction than its parent's end"


def actions(e: Evidence) -> Iterator[str]:
    allowed = {job.id: json.loads(job.retry)[0] if job.retry else 1 for job in e.jobs.values()}
    calls: Counter[str] = Counter()
    attempts: Counter[tuple[str, int]] = Counter()
    for call in e.world.calls:
        calls[call.job_id] += 1
        attempts[call.job_id, call.attempt] += 1
        claims = sum(1 for seq in e.jobs[call.job_id].claims if seq <= call.at_seq)
        if claims < calls[call.job_id]:
            yield f"at-most-once: {call.tag} called out before its claim was durable"
    for job_id, count in calls.items():
        if count > allowed[job_id]:
            yield f"at-most-once: {e.jobs[job_id].tag} called out {count} times, allowed are {allowed[job_id]}"
    for (job_id, attempt), count in attempts.items():
        if count > 1:
            yield f"at-most-once: attempt {attempt} of {e.jobs[job_id].tag} called out {count} times"
    for job in e.jobs.values():
        if job.kind == "action" and job.state == "success" and not calls[job.id]:
            yield f"phantom: {job.tag} is a success and never called out"


def _cancels(e: Evidence) -> Iterator[str]:
    for job_id, seq in e.world.cancels:
        job = e.jobs[job_id]
        canceled_seq = job.stop_seq or job.end_seq
        if not canceled_seq or canceled_seq > seq:
            yield f"cancel: {job.name} {job.tag} had not ended when its cancel was confirmed"
    for job in e.jobs.values():
        if job.stop_seq and job.end_seq and job.state != "canceled":
            yield f"cancel: {job.tag} was asked to stop and ended {job.state}"
        if job.stop_seq and any(claim > job.stop_seq for claim in job.claims):
            yield f"cancel: {job.tag} was claimed again after it was asked to stop"
        parent = e.jobs.get(job.parent_id or "")
        if parent is None or job.name == "tell" or parent.kind != "action" or parent.state != "canceled":
            continue
        if job.born_txn > (parent.stop_txn or parent.end_txn) and not job.born_canceled:
            yield f"cancel: {job.tag} was born of the canceled {parent.tag} and lives"


def _keys(e: Evidence) -> Iterator[str]:
    """The unfinished jobs of one key, in the order of the history, never overlap; an action gives a child its key."""
    spans: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for job in e.jobs.values():
        if job.key and not job.born_canceled:
            spans[job.tenant, job.key].append(job)
    for key, jobs in spans.items():
        jobs.sort(key=lambda job: job.born_seq)
        for earlier, later in pairwise(jobs):
            # Within one transaction the order of the statements is nobody's business.
            if earlier.kind == "action" and later.parent_id == earlier.id:
                continue
            free_txn = earlier.stop_txn or earlier.end_txn
            if free_txn == 0 or free_txn > later.born_txn:
                yield f"key: {earlier.id} and {later.id} held {key} at a time"


def _told(e: Evidence) -> Iterator[str]:
    told: dict[str, list[Fact]] = defaultdict(list)
    for job in e.jobs.values():
        if job.name == "tell":
            told[job.args["job_id"]].append(job)
    for job in e.jobs.values():
        notices = told[job.id]
        if job.on_complete is None or job.born_canceled:
            expected = 0
        else:
            expected = 1 if job.state in (json.loads(job.on_complete)["ends"] or ENDS) else 0
        if len(notices) != expected:
            yield f"told: the end of {job.tag} ({job.state}) was told {len(notices)} times, not {expected}"
        for notice in notices:
            if notice.born_txn != job.end_txn:
                yield f"atomicity: the end of {job.tag} was told in another transaction"
            if notice.args["result"]["kind"] != job.state:
                yield f"told: {job.tag} is {job.state}, told as {notice.args['result']['kind']}"
    heard = Counter(document["job"] for document in e.world.documents("told"))
    for job_id, count in heard.items():
        if count > 1:
            yield f"doubled: the end of {e.jobs[job_id].tag} was heard {count} times"


def apart(e: Evidence) -> Iterator[str]:
    """A job is to be done or in the history, and the kept counts are how many there are."""
    for (job_id,) in e.world.rows("select id from jobs where id in (select id from history)"):
        yield f"doubled: {e.jobs[job_id].tag} has ended, and is still to be done"
    counted = """select tenant, name, sum(state is null), sum(state is 'success'), sum(state is 'failed'),
                        sum(state is 'canceled')
                   from (select tenant, name, null as state from jobs
                         union all select tenant, name, state from history)
                  group by tenant, name order by tenant, name"""
    kept = """select tenant, name, unfinished, success, failed, canceled from job_counts
               where unfinished or success or failed or canceled order by tenant, name"""
    if e.world.rows(counted) != e.world.rows(kept):
        yield f"count: there are {e.world.rows(counted)}, kept are {e.world.rows(kept)}"


def _serial(e: Evidence) -> Iterator[str]:
    """Read and write again, and put and sweep: what transactions that overlap would lose."""
    counting: Counter[str] = Counter()
    for job in e.jobs.values():
        for spec, tags in _specs(job):
            if spec.get("count"):
                counting[job.tenant] += sum(len(e.effects.get(tag, ())) for tag in tags)
    e.world.rare["counted"] += sum(counting.values())
    for (body,) in e.world.rows("select body from documents where id like 'items_%'"):
        item = json.loads(body)
        if item["state"] == "new" and not _sweep_was_stopped(e):
            yield f"serial: the item {item['tag']} was put after the last sweep that could see it"


def _specs(job: Fact) -> Iterator[tuple[dict[str, Any], list[str]]]:
    spec = job.args.get("spec")
    while spec and job.name in ("work", "newer"):
        yield spec, [spec["tag"]]
        spec = spec.get("nested")


def _sweep_was_stopped(e: Evidence) -> bool:
    """A sweep that was canceled or quarantined leaves items behind, rightly."""
    return any(job.name == "sweep" and job.state != "success" for job in e.jobs.values())


def isolation(e: Evidence) -> Iterator[str]:
    for job in e.jobs.values():
        parent = e.jobs.get(job.parent_id or "")
        if parent is not None and parent.tenant != job.tenant:
            yield f"isolation: {job.tag} of {job.tenant} was born of {parent.tag} of {parent.tenant}"
        wanted = job.args.get("spec", {}).get("tenant", job.tenant)
        if wanted != job.tenant:
            yield f"isolation: {job.tag} was scheduled for {wanted} and belongs to {job.tenant}"
        if job.kind == "mutation" and any(tenant != job.tenant for _, tenant in e.effects.get(job.tag, ())):
            yield f"isolation: {job.tag} of {job.tenant} wrote to another tenant"


def blame(e: Evidence) -> Iterator[str]:
    """A mutation fails by its function alone, or because its workers died of it."""
    for job in e.jobs.values():
        if job.state == "failed" and job.kind == "mutation":
            error = json.loads(job.error or "{}").get("type")
            # A worker of the older release knows no `newer`: its functions cannot call or schedule it.
            if error not in ("Planned", "Quarantined") and (error != "FunctionNotFound" or job.name == "newer"):
                yield f"blame: {job.name} {job.id} failed with {error}"


def unrest(e: Evidence) -> Iterator[str]:
    """Once the dead are buried, nobody takes a job from a worker that lives."""
    quiet_at = e.world.quiet_at_ms
    disturbed = e.profile.skewed or any(
        fault.kind.partition("/")[0] not in HARMLESS for fault in e.world.loop.faults.log
    )
    for job in e.jobs.values():
        if quiet_at and job.error and "LostWorker" in job.error and job.born_at_ms > quiet_at and not e.profile.poison:
            yield f"unrest: {job.tag} lost its worker {job.end_at_ms - quiet_at} ms after all had become quiet"
    for job in e.jobs.values():
        if job.error and "Quarantined" in job.error and job.crashes < CRASHES_MAX:
            yield f"unrest: {job.tag} was quarantined after {job.crashes} crashes"
        innocent = job.name not in ("poison", "poison_act")
        if innocent and job.crashes > SUSPECT_CRASHES and not disturbed:
            yield f"unrest: {job.tag} counts {job.crashes} crashes for what another job did"
        if innocent and job.error and "Quarantined" in job.error and not disturbed:
            yield f"unrest: {job.tag} was quarantined for what another job did"


def company(e: Evidence) -> Iterator[str]:
    for claimed, beside, worker in e.world.rows("select claimed, beside, worker from bad_company"):
        first, other = (f"{e.jobs[each].name} {e.jobs[each].tag}" for each in (claimed, beside))
        yield f"company: {worker} claimed {first} while it held {other}"


def _crowd(e: Evidence) -> Iterator[str]:
    for claimed, running, most in e.world.rows("select claimed, running, most from crowd"):
        yield f"crowd: with {e.jobs[claimed].tag} {running} jobs of its key ran, {most} may"


def _found(e: Evidence) -> Iterator[str]:
    """Where every transaction replied, no worker holds a job that its loops do not know of."""
    struck = {fault.kind.partition("/")[0] for fault in e.world.loop.faults.plan}
    found = e.world.totals()["claims_found"]
    if found and not struck & UNANSWERED:
        yield f"found: {found} claims were taken for lost although every transaction had replied"


def count_rare_states(e: Evidence) -> None:
    rare = e.world.rare
    rare["held_for_a_key"] += e.world.rows("select count(*) from sim_history where what = 'held'")[0][0]
    for job in e.jobs.values():
        if job.born_canceled:
            rare["born_canceled"] += 1
        if job.error and "Quarantined" in job.error:
            rare["quarantined"] += 1
        if job.error and "LostWorker" in job.error:
            rare["action_lost_its_worker"] += 1
        if job.state == "canceled" and job.claims and job.end_seq:
            rare["canceled_after_a_claim"] += 1
        if len(job.claims) > 1:
            rare["claimed_again"] += 1
