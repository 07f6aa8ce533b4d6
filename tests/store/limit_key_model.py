"""The model's part for limits by key, and the operations on them that random histories draw."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evertick.base.ids import JobId, QueueId, TenantId, WorkerId, pool_name, queue_of
from evertick.base.instants import Instant
from evertick.base.records.jobs import PRIORITY_MS, Claim, FunctionKind, Job, JobState
from evertick.store.records.claims import HeldKey, LimitKey, ReadyJob

LIMIT_KEYS: Final = (None, "c", "d", "ключ")


class LimitKeyModel:
    """`LimitKeys` over plain dicts."""

    tables: Any

    def running_by_key(self) -> Mapping[LimitKey, int]:
        running = (job for job in self.tables.jobs.values() if job.state is JobState.IN_PROGRESS and job.limit_key)
        return Counter(LimitKey(pool_name(job.pool), job.tenant, job.limit_key) for job in running)

    def ready_jobs(self, queue: QueueId, tenant: TenantId, *, after: tuple[int, str], limit: int) -> list[ReadyJob]:
        found = [
            ReadyJob(job.id, _rank(job), len(job.args.encode()), job.limit_key)
            for job in self.at("ready")
            if (_queue(job), job.tenant) == (queue, tenant) and (_rank(job), job.id) > after
        ]
        return sorted(found, key=lambda job: (job.rank, job.id))[:limit]

    def claim_ready(
        self, ids: Sequence[JobId], *, kind: FunctionKind, worker_id: WorkerId, now: Instant
    ) -> list[Claim]:
        claims = [self._claim(self.tables.jobs[each], kind, worker_id, now) for each in ids]
        return sorted(claims, key=lambda claim: (claim.rank, claim.id))

    def hold_jobs(self, ids: Sequence[JobId]) -> None:
        self.tables.stages |= {job.id: "held" for job in self.at("ready") if job.id in ids}

    def held_keys(self, *, after: HeldKey | None, limit: int) -> list[HeldKey]:
        found = {HeldKey(_queue(job), job.tenant, job.limit_key or "", job.pool, job.name) for job in self.at("held")}
        return sorted(key for key in found if after is None or key[:3] > after[:3])[:limit]

    def release_held(self, rooms: Sequence[tuple[HeldKey, int]]) -> None:
        for key, room in rooms:
            ready, held = (
                sorted((_rank(job), job.id) for job in self.at(stage) if _is_of(job, key))
                for stage in ("ready", "held")
            )
            self.tables.stages |= {job_id: "ready" for _, job_id in held[: max(0, room - len(ready))]}

    def _claim(self, job: Job, kind: FunctionKind, worker_id: WorkerId, now: Instant) -> Claim:
        raise NotImplementedError

    def at(self, stage: str) -> list[Job]:
        """The pending jobs at a stage."""
        pending = (job for job in self.tables.jobs.values() if job.state is JobState.PENDING)
        return [job for job in pending if self.tables.stages[job.id] == stage]


class LimitKeyDraws:
    """Draws operations on limits by key."""

    _random: random.Random

    def draw_running_by_key(self, tables: Any) -> Any:
        return (), {}

    def draw_ready_jobs(self, tables: Any) -> Any:
        job = self._some_job(tables)
        after = (_rank(job), job.id) if job and self._random.random() < 0.5 else (0, "")
        place = (_queue(job), job.tenant) if job else (1, "default")
        return place, {"after": after, "limit": self._random.randint(1, 4)}

    def draw_claim_ready(self, tables: Any) -> Any:
        kind = self._random.choice((FunctionKind.MUTATION, FunctionKind.ACTION))
        taker = {"kind": kind, "worker_id": WorkerId("worker_a"), "now": Instant(1_000_000)}
        return (self._some_ids(tables, keyed=False),), taker

    def draw_hold_jobs(self, tables: Any) -> Any:
        return (self._some_ids(tables, keyed=True),), {}

    def draw_held_keys(self, tables: Any) -> Any:
        held = _over(tables).held_keys(after=None, limit=99)
        after = self._random.choice(held) if held and self._random.random() < 0.4 else None
        return (), {"after": after, "limit": self._random.randint(1, 4)}

    def draw_release_held(self, tables: Any) -> Any:
        held = _over(tables).held_keys(after=None, limit=99)
        return ([(key, self._random.randint(0, 3)) for key in held if self._random.random() < 0.7],), {}

    def _some_job(self, tables: Any) -> Job | None:
        ready = _over(tables).at("ready")
        return self._random.choice(ready) if ready else None

    def _some_ids(self, tables: Any, *, keyed: bool) -> list[JobId]:
        ready = sorted(job.id for job in _over(tables).at("ready") if job.limit_key or not keyed)
        return self._random.sample(ready, min(len(ready), self._random.randint(0, 3)))


def _over(tables: Any) -> LimitKeyModel:
    model = LimitKeyModel()
    model.tables = tables
    return model


def _rank(job: Job) -> int:
    return job.due_at - job.priority * PRIORITY_MS


def _queue(job: Job) -> QueueId:
    return queue_of(job.pool, job.name)


def _is_of(job: Job, key: HeldKey) -> bool:
    return (_queue(job), job.tenant, job.limit_key) == key[:3]
