"""The ledger: what the database says in the end, against what was confirmed and what happened outside.

*Lost*: a confirmed job that does not exist or has not ended; a success without its effect, its call or its children.
*Doubled*: an effect, a child or an outside call more often than it may be.
The end of a job with an `on_complete` is told once, and as it was.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kills.program import ATTEMPTS_MAX

ENDS: Final = ("success", "failed", "canceled")
CHILDREN: Final = (".m", ".r", ".a", ".b")
Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(slots=True)
class Verdict:
    """How the run ended, in figures and examples."""

    jobs: int = 0
    states: Counter[str] = field(default_factory=Counter)
    quarantined: int = 0
    lost_actions: int = 0
    reruns: int = 0
    told: int = 0
    """Ends of jobs of which `on_complete` was told."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


EVERY_JOB: Final = """
select id, name, args, state, attempt, error from jobs
union all select id, name, args, state, attempt, error from history"""


def judge(query: Query, folder: Path) -> Verdict:
    """Compare everything with everything."""
    verdict = Verdict()
    written = [json.loads(body) for (body,) in query("select body from documents")]
    effects = Counter(each["tag"] for each in written if "tag" in each)
    expected: dict[str, tuple[str, str]] = {}
    notices: dict[str, list[str]] = defaultdict(list)
    by_tag: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    known = set()
    for job_id, name, args, state, attempt, error in query(EVERY_JOB):
        args = json.loads(args)
        if name == "tell":
            notices[args["job_id"]].append(args["result"]["kind"])
            known.add(job_id)
            if state != "success":
                verdict.lost.append(f"the notice of the end of {args['job_id']} is {state}")
            continue
        tag = args["tag"]
        if tag.endswith((".r", ".a")) or (tag.endswith(".b") and state == "failed"):
            expected[job_id] = (tag, state)
        by_tag[tag].append((job_id, name, state))
        known.add(job_id)
        verdict.jobs += 1
        verdict.states[state] += 1
        verdict.reruns += attempt > 1
        verdict.quarantined += "Quarantined" in (error or "")
        verdict.lost_actions += state == "failed" and "LostWorker" in (error or "")
        if state not in ENDS:
            verdict.lost.append(f"{name} {tag} is {state}")
    for line in lines(folder / "acknowledged"):
        tag, job_id = line.split()
        if job_id not in known:
            verdict.lost.append(f"the acknowledged {tag} ({job_id}) does not exist")
    _judge_effects(verdict, effects, by_tag, set(lines(folder / "called")))
    _judge_calls(verdict, by_tag, lines(folder / "calls"))
    _judge_notices(verdict, expected, notices, Counter(each["job_id"] for each in written if "job_id" in each))
    return verdict


def _judge_effects(
    verdict: Verdict, effects: Counter[str], by_tag: dict[str, list[tuple[str, str, str]]], called: set[str]
) -> None:
    for tag, jobs in by_tag.items():
        if len(jobs) > 1:
            verdict.doubled.append(f"{tag} was scheduled {len(jobs)} times")
        _, name, state = jobs[0]
        if name != "call_out":
            expected = 1 if state == "success" else 0
            if effects[tag] > expected:
                verdict.doubled.append(f"{name} {tag} is {state} and has {effects[tag]} effects")
            elif effects[tag] < expected:
                verdict.lost.append(f"{name} {tag} is a success without effect")
    for tag in called:
        if not effects[tag]:
            verdict.lost.append(f"the confirmed call {tag} has no effect")
    for tag, count in effects.items():
        if count > 1 and tag not in by_tag:
            verdict.doubled.append(f"{tag} has {count} effects")
        if "." in tag:
            continue
        for child in CHILDREN:  # an effect without a dot is a root's: its children are there with it
            if tag + child not in by_tag:
                verdict.lost.append(f"{tag + child} does not exist, its parent committed")
    for tag in by_tag:
        if "." in tag and not effects[tag.partition(".")[0]]:
            verdict.doubled.append(f"{tag} exists, its parent did not commit")


def _judge_calls(verdict: Verdict, by_tag: dict[str, list[tuple[str, str, str]]], calls: list[str]) -> None:
    count: Counter[str] = Counter()
    attempts: Counter[str] = Counter()
    for line in calls:
        tag, _, _ = line.split()
        count[tag] += 1
        attempts[line] += 1
    for line, times in attempts.items():
        if times > 1:
            verdict.doubled.append(f"one attempt called out {times} times: {line}")
    for tag, jobs in by_tag.items():
        _, name, state = jobs[0]
        if name != "call_out":
            continue
        allowed = ATTEMPTS_MAX if tag.endswith(".b") else 1
        if count[tag] > allowed:
            verdict.doubled.append(f"{tag} called out {count[tag]} times, allowed are {allowed}")
        if state == "success" and not count[tag]:
            verdict.lost.append(f"{tag} is a success and never called out")


def _judge_notices(
    verdict: Verdict, expected: dict[str, tuple[str, str]], notices: dict[str, list[str]], heard: Counter[str]
) -> None:
    """Every end that is to be told was told once, as it was, and heard once; no other was."""
    verdict.told = sum(heard.values())
    for job_id, (tag, state) in expected.items():
        if not notices[job_id] or not heard[job_id]:
            verdict.lost.append(f"the end of {tag} was not told")
        elif notices[job_id] != [state]:
            verdict.doubled.append(f"{tag} is {state} and was told as {notices[job_id]}")
    verdict.doubled += [
        f"the end of {each} was told, and it is not asked for"
        for each in notices.keys() - expected.keys()
        if notices[each]
    ]
    verdict.doubled += [f"the end of {job_id} was heard {count} times" for job_id, count in heard.items() if count > 1]


def lines(path: Path) -> list[str]:
    """The whole lines of a file that may not be there."""
    return path.read_text().splitlines() if path.exists() else []
