"""Random histories for the store: operations whose arguments are drawn from what the model knows at that moment.

A seed gives one history, always the same. Arguments come from small pools, so that things meet: keys collide, fences
are broken, positions fall inside one another. Moments never repeat, because the contract promises no order for ends
of the same millisecond.
"""

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

from evertick.base.errors import WriteConflict
from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId, WorkerId, queue_of
from evertick.base.instants import Instant
from evertick.base.records.documents import IndexPart, StoredDocument
from evertick.base.records.history import AttemptLines, LineFilter, LogLine
from evertick.base.records.jobs import (
    COMPLETION,
    JOB_ERROR,
    OCCURRENCE,
    RETRY,
    SERVES,
    UNFINISHED,
    Call,
    Completion,
    FunctionKind,
    Job,
    JobEnd,
    JobError,
    JobFilter,
    JobState,
    NewJob,
    OccurrenceRef,
    ServedFunction,
    Serves,
    Stop,
    Worker,
)
from evertick.base.records.stored import Stored
from evertick.base.records.workflows import STEP
from evertick.store.records.claims import START, Share
from tests.store.limit_key_model import LIMIT_KEYS, LimitKeyDraws
from tests.store.model import ModelStore, ModelTransaction, Tables
from tests.store.schedule_histories import FED, SCHEDULES, SELDOM, ScheduleDraws

TENANTS: Final = (DEFAULT_TENANT, TenantId("other"))
KINDS: Final = (FunctionKind.MUTATION, FunctionKind.ACTION)
WORKERS: Final = tuple(WorkerId(f"worker_{name}") for name in "abc")
NAMES: Final = ("app.f", "app.g", "app.h")
POOLS: Final = ("default", "default", "mail")
CALLED: Final = COMPLETION.value(Completion("job_run", STEP, (), 1))
"""The completion of what a run has called."""
MESSAGES: Final = ("text", "No 'user' \"Ωé\\", "")
ERRORS: Final = ("E: t", "TEXT", "user' \"ω", "user' \"Ωé\\", "1", "in text", "e", "type")
KEYS: Final = ("k", "l", "K", "ключ")
INDEXES: Final = ("t.by", "t.other")
INDEX_KEYS: Final = (b"", b"\x00", b"\x00\xff", b"a", b"a\x00", b"b", b"\xff")
IDS: Final = ("t_1", "t_2", "t_3", "t_ä", "u_1", "u_2", "T_1")
STATES: Final = tuple(JobState)
UNORDERED: Final = ("reported_schedules", "orphaned_reports")
"""Operations whose replies come in no promised order."""
STEP_OPERATIONS_MAX: Final = 8
ROLLED_BACK: Final = 0.1
IN_SAVEPOINT: Final = 0.3


@dataclass(frozen=True)
class Operation:
    """One call of the contract: by name, with its arguments, and what the model answered."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    reply: Any

    def repeat(self, transaction: Any) -> Any:
        """The same call on another transaction; a conflict is a reply, too."""
        try:
            reply = getattr(transaction, self.name)(*self.arguments, **self.named)
            return sorted(reply, key=repr) if self.name in UNORDERED else ordered(reply)
        except WriteConflict:
            return WriteConflict


@dataclass(frozen=True)
class Step:
    """One transaction of a history."""

    operations: list[Operation]
    commits: bool


def ordered(reply: Any) -> Any:
    """A reply in which order means nothing where the contract promises none."""
    return sorted(reply) if isinstance(reply, set) else reply


class History(LimitKeyDraws, ScheduleDraws):
    """Draws steps, and runs them on the model."""

    def __init__(self, seed: int) -> None:
        self.model = ModelStore()
        self.succeeded: Counter[str] = Counter()
        """How often each operation did something or found something, in transactions of every end."""
        self._random = random.Random(seed)
        self._now = 1_000_000
        self._jobs = 0
        self._names = sorted(name.removeprefix("draw_") for name in dir(self) if name.startswith("draw_"))
        self._names += 3 * [
            "insert_jobs",
            "claim_jobs",
            "claim_jobs",
            "finish_jobs",
            "promote_jobs",
        ]  # these feed all others
        self._names += FED + SELDOM
        self._names += 2 * [
            "put_documents",
            "put_index_entries",
            "scan_index",
            "save_call",
            "release_job",
            "register_worker",
            "holders_without_row",
        ]

    def step(self) -> Step:
        """Draw one transaction and run it on the model."""
        operations: list[Operation] = []
        commits = self._random.random() >= ROLLED_BACK

        def work(transaction: ModelTransaction) -> None:
            nonlocal commits
            for _ in range(self._random.randint(1, STEP_OPERATIONS_MAX)):
                if self._random.random() < IN_SAVEPOINT:
                    self._inside_savepoint(transaction, operations)
                elif self._draw(transaction, operations) is WriteConflict:
                    commits = False
                if not commits and operations[-1].reply is WriteConflict:
                    break
            if not commits:
                raise NotCommitted

        try:
            self.model.write(work)
        except NotCommitted:
            pass
        return Step(operations, commits)

    def _inside_savepoint(self, transaction: ModelTransaction, operations: list[Operation]) -> None:
        name = f"frame_{len(operations)}"
        self._call(transaction, operations, "savepoint", (name,), {})
        conflict = any(self._draw(transaction, operations) is WriteConflict for _ in range(self._random.randint(1, 3)))
        ending = "rollback_to" if conflict or self._random.random() < 0.3 else "release"
        self._call(transaction, operations, ending, (name,), {})

    def _draw(self, transaction: ModelTransaction, operations: list[Operation]) -> Any:
        name = self._random.choice(self._names)
        arguments, named = getattr(self, f"draw_{name}")(transaction.tables)
        return self._call(transaction, operations, name, arguments, named)

    def _call(
        self,
        transaction: ModelTransaction,
        operations: list[Operation],
        name: str,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        reply = Operation(name, arguments, named, None).repeat(transaction)
        operations.append(Operation(name, arguments, named, reply))
        if reply is WriteConflict:
            self.succeeded[f"{name}: conflict"] += 1
        elif reply is None or (bool(reply) and reply != (False, None)):
            self.succeeded[name] += 1
        if name == "finish_jobs" and reply is not WriteConflict:
            self.succeeded.update(f"finish_jobs: {end.state}" for end in arguments[0] if end.id in reply)
        return reply

    # -- jobs: each method answers the arguments of one call

    def draw_insert_jobs(self, tables: Tables) -> Any:
        return (tuple(self._new_job(tables) for _ in range(self._random.randint(1, 4))),), {}

    def _new_job(self, tables: Tables) -> NewJob:
        self._jobs += 1
        pick = self._random.choice
        return NewJob(
            id=JobId(f"job_{self._jobs:028x}"),
            tenant=pick(TENANTS),
            kind=pick(KINDS),
            name=pick(NAMES),
            args=f'{{"n":{self._jobs}}}',
            requested_at=self._moment(),
            due_at=Instant(self._now + self._random.randint(-20, 20)),
            created_at=self._moment(),
            parent_id=self._any_job(tables),
            key=pick(KEYS) if self._maybe(0.15) else None,
            retry=pick((None, RETRY.text('{"max":3}'))),
            on_complete=pick((None, COMPLETION.text("{}"), CALLED)),
            schedule=OCCURRENCE.value(self._occurrence()) if self._maybe(0.3) else None,
            state=JobState.CANCELED if self._maybe(0.1) else JobState.PENDING,
            pool=pick(POOLS),
            priority=pick((0, 0, 0, 1, -2)),
            limit_key=pick(LIMIT_KEYS),
            trace=pick((None, f"00-{self._jobs:032x}-{self._jobs:016x}-01")),
        )

    def _occurrence(self) -> OccurrenceRef:
        schedule_id = self._random.choice(SCHEDULES)
        return OccurrenceRef(schedule_id, "schedule", "", self._moment(), "run", None, None)

    def draw_claim_jobs(self, tables: Tables) -> Any:
        ready = ModelTransaction(tables).oldest_ready_jobs(limit=9)
        oldest = self._random.sample(ready, self._random.randint(0, min(3, len(ready))))
        oldest = [first._replace(rank=first.rank - self._random.randint(-3, 9)) for first in oldest]
        shares = [Share(first, self._random.randint(1, 4)) for first in oldest]
        size = 1_000_000 if self._maybe(0.7) else self._random.randint(0, 60)
        return (shares,), {
            "kind": self._pick(KINDS),
            "worker_id": self._pick(WORKERS),
            "now": self._moment(),
            "bytes_max": size,
        }

    def draw_next_waiting_at(self, tables: Tables) -> Any:
        return (), {}

    def draw_promote_jobs(self, tables: Tables) -> Any:
        return (), {"now": self._moment(), "limit": self._random.randint(1, 9)}

    def draw_oldest_ready_jobs(self, tables: Tables) -> Any:
        ready = ModelTransaction(tables).oldest_ready_jobs(limit=9)
        others = self._random.sample(sorted({first.queue for first in ready}), 1) if ready and self._maybe(0.4) else []
        after = self._pick([START, *ready])
        return (), {"others": others, "after": after, "limit": self._random.randint(1, 6)}

    def draw_queue_name(self, tables: Tables) -> Any:
        return (queue_of(self._pick(POOLS), self._pick(NAMES)),), {}

    def draw_suspects(self, tables: Tables) -> Any:
        return (), {"limit": self._random.randint(1, 4)}

    def draw_claim_suspect(self, tables: Tables) -> Any:
        suspects = ModelTransaction(tables).suspects(limit=9)
        job_id = self._pick(suspects).id if suspects and self._maybe(0.8) else self._some_id(tables)
        return (job_id,), {"kind": self._pick(KINDS), "worker_id": self._pick(WORKERS), "now": self._moment()}

    def draw_finish_jobs(self, tables: Tables) -> Any:
        held = [job for job in tables.jobs.values() if job.worker_id is not None]
        worker_id = self._pick([job.worker_id for job in held] or list(WORKERS))
        mine = [job for job in held if job.worker_id == worker_id]
        chosen = self._random.sample(mine, min(len(mine), self._random.randint(1, 3)))
        others = [tables.jobs[i] for i in tables.jobs if self._maybe(0.02) and tables.jobs[i] not in chosen]
        return ([self._end(job) for job in (*chosen, *others)],), {"worker_id": worker_id, "now": self._moment()}

    def _end(self, job: Job) -> JobEnd:
        state = self._pick([state for state in STATES if state is not JobState.IN_PROGRESS])
        failed = state is not JobState.SUCCESS  # a success repeats what its claim said
        return JobEnd(
            id=job.id,
            tenant=job.tenant,
            name=job.name,
            attempt=job.attempt - (1 if self._maybe(0.1) else 0),
            state=state,
            completed_at=None if state is JobState.PENDING else self._moment(),
            due_at=Instant(job.due_at + self._random.randint(0, 30)) if state is JobState.PENDING else job.due_at,
            failures=job.failures + failed,
            crashes=job.crashes + (failed and self._maybe(0.5)),
            result=self._pick((None, "1")),
            error=self._pick((None, JOB_ERROR.value(JobError("E", self._pick(MESSAGES), "in text"))))
            if failed
            else None,
            started_at=self._pick((None, self._moment())),
        )

    def draw_is_held(self, tables: Tables) -> Any:
        held = [job for job in tables.jobs.values() if job.worker_id is not None]
        if not held or self._maybe(0.2):
            return (self._some_id(tables),), {"worker_id": self._pick(WORKERS), "attempt": 1}
        job = self._pick(held)
        return (job.id,), {"worker_id": job.worker_id, "attempt": job.attempt}

    def draw_release_job(self, tables: Tables) -> Any:
        return self.draw_is_held(tables)

    def draw_held_jobs(self, tables: Tables) -> Any:
        return (self._pick(WORKERS),), {"limit": self._random.randint(1, 5)}

    def draw_get_job(self, tables: Tables) -> Any:
        return (self._some_id(tables),), {"tenant": self._pick(TENANTS)}

    def draw_list_jobs(self, tables: Tables) -> Any:
        where = JobFilter(
            tenant=self._pick(TENANTS),
            states=tuple(self._random.sample(STATES, self._random.randint(0, 3))),
            name=self._pick(NAMES) if self._maybe(0.2) else None,
            due_from=Instant(self._now - 20) if self._maybe(0.2) else None,
            due_until=Instant(self._now) if self._maybe(0.2) else None,
            occurrence=range(self._now - 60_000, self._now + 1) if self._maybe(0.1) else None,
            parent_id=self._any_job(tables) if self._maybe(0.2) else None,
            schedule_id=self._pick(SCHEDULES) if self._maybe(0.1) else None,
            key=self._pick(KEYS) if self._maybe(0.1) else None,
            limit_key=self._pick(LIMIT_KEYS) if self._maybe(0.1) else None,
            error=self._pick(ERRORS) if self._maybe(0.1) else None,
        )
        if self._maybe(0.2):
            where = replace(where, states=(JobState.PENDING,), blocked_at=self._now)
        elif self._maybe(0.2):
            where = replace(where, states=(JobState.FAILED,), not_retried=True)
        after = self._any_job(tables)
        newest = self._maybe(0.5)
        return (where,), {"limit": self._random.randint(1, 9), "after": after, "newest_first": newest}

    draw_find_jobs = draw_list_jobs

    def draw_count_jobs(self, tables: Tables) -> Any:
        return (self._pick(TENANTS),), {"name": self._pick((None, None, *NAMES))}

    def draw_mark_retried(self, tables: Tables) -> Any:
        ended = [job for job in tables.jobs.values() if job.state not in UNFINISHED]
        if not ended or self._maybe(0.2):
            return (self._some_id(tables), self._some_id(tables)), {"tenant": self._pick(TENANTS)}
        job = self._pick(ended)
        replaces = self._pick((None, job.retried_as))
        return (job.id, self._some_id(tables)), {"tenant": job.tenant, "replaces": replaces}

    def draw_mark_steps_retried(self, tables: Tables) -> Any:
        parents = [(job.parent_id, job.tenant) for job in tables.jobs.values() if job.parent_id is not None]
        run, tenant = self._pick(parents) if parents else (self._some_id(tables), self._pick(TENANTS))
        return (run, self._some_id(tables)), {"tenant": tenant}

    def draw_cancel_job(self, tables: Tables) -> Any:
        unfinished = [job for job in tables.jobs.values() if job.state in UNFINISHED]
        stop = self._pick((Stop.CANCEL, Stop.FORCE))
        if unfinished and self._maybe(0.5):
            job = self._pick(unfinished)
            return (job.id,), {"tenant": job.tenant, "now": self._moment(), "stop": stop}
        return (self._some_id(tables),), {"tenant": self._pick(TENANTS), "now": self._moment(), "stop": stop}

    def draw_cancel_jobs(self, tables: Tables) -> Any:
        ids = [self._some_id(tables) for _ in range(self._random.randint(0, 4))]
        stop = self._pick((Stop.CANCEL, Stop.FORCE))
        return (ids,), {"tenant": self._pick(TENANTS), "now": self._moment(), "stop": stop}

    def draw_get_jobs(self, tables: Tables) -> Any:
        return ([self._some_id(tables) for _ in range(self._random.randint(0, 3))],), {"tenant": self._pick(TENANTS)}

    def draw_list_attempts(self, tables: Tables) -> Any:
        return (list({self._some_id(tables) for _ in range(self._random.randint(0, 3))}),), {}

    def draw_list_logs(self, tables: Tables) -> Any:
        return (self._some_id(tables),), {}

    def draw_add_logs(self, tables: Tables) -> Any:
        lines = [
            LogLine(n, self._moment(), "info", f"Line {n}", self._maybe(0.1)) for n in range(self._random.randint(1, 3))
        ]
        of = (self._some_id(tables), self._random.randint(1, 2), lines)
        return ([AttemptLines(*of, self._pick(TENANTS), self._pick(NAMES))],), {"now": self._moment()}

    def draw_job_family(self, tables: Tables) -> Any:
        return (self._some_id(tables),), {"tenant": self._pick(TENANTS), "limit": 10**6}

    def draw_find_lines(self, tables: Tables) -> Any:
        places = [kept.place for _, kept in tables.logs.values()]
        where = LineFilter(
            tenant=self._pick(TENANTS),
            name=self._pick(NAMES) if self._maybe(0.3) else None,
            levels=self._pick((("info", "error"), ("error",))) if self._maybe(0.3) else None,
            text=self._pick(("1", "LINE", "%", "n_")) if self._maybe(0.3) else None,
            jobs=tuple({self._some_id(tables) for _ in range(2)}) if self._maybe(0.3) else None,
            since=Instant(self._now - 50) if self._maybe(0.3) else None,
            until=self._moment() if self._maybe(0.3) else None,
        )
        after = self._pick(places) if places and self._maybe(0.5) else None
        limit, newest_first = self._random.randint(1, 4), self._maybe(0.5)
        return (where,), {"limit": limit, "after": after, "newest_first": newest_first}

    def draw_find_unfinished_key(self, tables: Tables) -> Any:
        return (self._pick(KEYS),), {"tenant": self._pick(TENANTS)}

    def draw_unfinished_keys(self, tables: Tables) -> Any:
        return (KEYS[: self._random.randint(0, len(KEYS))],), {"tenant": self._pick(TENANTS)}

    def draw_prune_jobs(self, tables: Tables) -> Any:
        return (), {"before": Instant(self._now - self._random.randint(0, 100)), "limit": self._random.randint(1, 5)}

    # -- workers

    def draw_register_worker(self, tables: Tables) -> Any:
        until = self._unlike_others(tables, self._moment() + 10 * self._random.randint(0, 9))
        serves = SERVES.value(Serves(self._served(), self._pick((None, ("mail",))))) if self._maybe(0.8) else None
        who, pid = self._pick(WORKERS), self._random.randint(1, 99)
        return (
            Worker(who, self._moment(), until, "host", pid, "app", "1.0", serves, 7, self._pick(("", "2026a"))),
        ), {}

    def _error(self) -> Stored[JobError]:
        return JOB_ERROR.value(JobError("E", self._pick(MESSAGES), "in text"))

    def _served(self) -> tuple[ServedFunction, ...]:
        names = self._random.sample(NAMES, self._random.randint(0, 2))
        return tuple(ServedFunction(name, FunctionKind.MUTATION, self._pick(POOLS), "()") for name in names)

    def draw_renew_lease(self, tables: Tables) -> Any:
        return (self._pick(WORKERS),), {"leased_until": self._unlike_others(tables, self._moment())}

    def _unlike_others(self, tables: Tables, until: int) -> Instant:
        """The end of a lease that no other worker has: those of one moment expire in no promised order."""
        while any(worker.leased_until == until for worker in tables.workers.values()):
            until += 1
        return Instant(until)

    def draw_remove_worker(self, tables: Tables) -> Any:
        return (self._pick(WORKERS),), {}

    def draw_expired_workers(self, tables: Tables) -> Any:
        return (self._moment(),), {"limit": self._random.randint(1, 3)}

    def draw_holders_without_row(self, tables: Tables) -> Any:
        return (), {}

    def draw_list_workers(self, tables: Tables) -> Any:
        return (), {}

    def draw_workers_alive(self, tables: Tables) -> Any:
        return (Instant(self._moment() - self._random.randint(0, 200)),), {}

    # -- documents

    def draw_get_document(self, tables: Tables) -> Any:
        return (self._pick(IDS),), {"tenant": self._pick(TENANTS)}

    def draw_put_documents(self, tables: Tables) -> Any:
        ids = self._random.sample(IDS, self._random.randint(1, 4))
        return (self._pick(TENANTS), [StoredDocument(i, f"{self._moment()}") for i in ids]), {}

    def draw_delete_documents(self, tables: Tables) -> Any:
        return (self._pick(TENANTS), self._random.sample(IDS, self._random.randint(0, 2))), {}

    def draw_scan_documents(self, tables: Tables) -> Any:
        low, high = self._pick(("", "t_", *IDS)), self._pick(("t_\x7f", "\U0010ffff", *IDS))
        return (self._pick(TENANTS),), {
            "low": low,
            "high": high,
            "limit": self._random.randint(1, 9),
            "descending": self._maybe(0.5),
        }

    def draw_put_index_entries(self, tables: Tables) -> Any:
        return (self._pick(TENANTS), self._entries(4)), {}

    def draw_delete_index_entries(self, tables: Tables) -> Any:
        return (self._pick(TENANTS), self._entries(3)), {}

    def _entries(self, most: int) -> list[tuple[str, bytes, str]]:
        count = self._random.randint(1, most)
        return sorted({(self._pick(INDEXES), self._pick(INDEX_KEYS), self._pick(IDS)) for _ in range(count)})

    def draw_scan_index(self, tables: Tables) -> Any:
        descending = self._maybe(0.5)
        start = (b"\xff" * 3, "") if descending else (b"", "")
        after = (self._pick(INDEX_KEYS), self._pick(IDS)) if self._maybe(0.5) else start
        low = self._pick(INDEX_KEYS) if self._maybe(0.5) else b""
        high = self._pick(INDEX_KEYS) if self._maybe(0.5) else b"\xff\xff"
        part = IndexPart(self._pick(TENANTS), self._pick(INDEXES), low, high, descending)
        return (part,), {"after": after, "limit": self._random.randint(1, 9)}

    def draw_document_indexes(self, tables: Tables) -> Any:
        return (self._pick(TENANTS),), {}

    def draw_save_document_index(self, tables: Tables) -> Any:
        return (self._pick(TENANTS), self._pick(INDEXES), f'["{self._moment()}"]'), {}

    def draw_drop_document_index(self, tables: Tables) -> Any:
        return (self._pick(TENANTS), self._pick(INDEXES)), {}

    def draw_clear_index(self, tables: Tables) -> Any:
        # Which entries a smaller limit removes is not promised, so the histories clear whole indexes.
        return (self._pick(TENANTS), self._pick(INDEXES)), {"limit": 1_000}

    def draw_tenants_with_documents(self, tables: Tables) -> Any:
        return (), {"after": self._pick((TenantId(""), *TENANTS)), "limit": self._random.randint(1, 3)}

    def draw_tenants_with_entries(self, tables: Tables) -> Any:
        return self.draw_tenants_with_documents(tables)

    # -- remembered calls

    def draw_find_call(self, tables: Tables) -> Any:
        return (self._pick(KEYS),), {"tenant": self._pick(TENANTS)}

    def draw_save_call(self, tables: Tables) -> Any:
        call = Call(self._pick(NAMES), "print", "1")
        return (self._pick(KEYS), call), {"tenant": self._pick(TENANTS), "now": self._moment()}

    def draw_prune_calls(self, tables: Tables) -> Any:
        return (), {"before": Instant(self._now - self._random.randint(0, 200)), "limit": 1}

    # -- draws

    def _pick(self, pool: Any) -> Any:
        return self._random.choice(pool)

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _moment(self) -> Instant:
        self._now += 1
        return Instant(self._now)

    def _any_job(self, tables: Tables) -> JobId | None:
        return self._pick(list(tables.jobs)) if tables.jobs and self._maybe(0.5) else None

    def _some_id(self, tables: Tables) -> JobId:
        return self._any_job(tables) or JobId(f"job_{self._random.randint(1, self._jobs + 2):028x}")


class NotCommitted(Exception):
    """Ends a transaction that the history wants rolled back."""
