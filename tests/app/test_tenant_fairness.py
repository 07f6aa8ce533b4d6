"""How the places of a claim are divided among tenants and queues, and how many there are, as tables."""

from collections.abc import Mapping
from typing import Any

import pytest

from evertick import App, MutationCtx, Settings
from evertick.base.ids import JobId, QueueId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.engine.jobs.tenant_fairness import BatchSize, divide, in_turns, levelled
from evertick.store.records.claims import OldestJob
from evertick.testing import World


def oldest(**ranks: int) -> list[OldestJob]:
    """Heads by name: `a1` is tenant a in queue 1."""
    return [OldestJob(QueueId(int(name[1:])), TenantId(name[0]), rank) for name, rank in ranks.items()]


@pytest.mark.parametrize(
    ("capacity", "running", "places"),
    [
        (6, [], []),
        (6, [0, 0, 0], [2, 2, 2]),
        (7, [4, 4, 4], [3, 2, 2]),
        (2, [0, 0, 0], [1, 1, 0]),
        (1, [63, 0], [0, 1]),
        (4, [3, 0], [1, 3]),
        (3, [9, 1, 0], [0, 1, 2]),
        (0, [1, 0], [0, 0]),
    ],
)
def test_places_go_to_who_has_least_and_to_the_first_among_equals(
    capacity: int, running: list[int], places: list[int]
) -> None:
    assert levelled(capacity, running) == places


@pytest.mark.parametrize(
    ("found", "capacity", "running", "served", "shares"),
    [
        (oldest(a1=5), 4, {}, {}, {"a1": 4}),
        (oldest(a1=5, b1=1), 4, {}, {}, {"b1": 2, "a1": 2}),
        (oldest(a1=5, b1=1, c1=3), 1, {}, {}, {"b1": 1}),
        (oldest(a1=5, b1=1, c1=3), 1, {}, {"b": 7, "c": 8}, {"a1": 1}),
        (oldest(a1=5, b1=1, c1=3), 1, {}, {"a": 9, "b": 7, "c": 8}, {"b1": 1}),
        (oldest(a1=5, b1=1), 3, {"b": 2}, {}, {"a1": 2, "b1": 1}),
        (oldest(a1=5, a2=3, b1=9), 6, {}, {}, {"a2": 2, "a1": 1, "b1": 3}),
        (oldest(a1=5, a2=3, a3=4), 2, {}, {}, {"a2": 1, "a3": 1}),
    ],
)
def test_tenants_share_first_and_then_the_queues_of_each(
    found: list[OldestJob], capacity: int, running: Mapping[str, int], served: Mapping[str, int], shares: dict[str, int]
) -> None:
    divided = divide(found, capacity, running=running, served=served)  # type: ignore[arg-type]

    assert {f"{share.first.tenant}{share.first.queue}": share.limit for share in divided} == shares


def claims(**jobs: int) -> list[Claim]:
    """So many claims of each tenant."""
    rest: tuple[Any, ...] = (FunctionKind.MUTATION, "f", "{}", Instant(0), 1, 0, 0, None, None, None)
    return [Claim(JobId("j"), TenantId(name), *rest) for name, count in jobs.items() for _ in range(count)]


def test_the_tenants_of_a_batch_take_turns() -> None:
    """Real once: what had just been scheduled ran after all that another tenant had in the batch."""
    batch = [each._replace(rank=rank) for rank, each in enumerate(claims(a=60, b=1, c=2))]

    ran = in_turns(batch)

    assert "".join(each.tenant for each in ran) == "abcac" + 58 * "a"
    assert [each.rank for each in ran if each.tenant == "a"] == list(range(60))


@pytest.mark.parametrize(
    ("claimed", "is_small"),
    [
        ({}, False),
        ({"a": 64}, False),
        ({"a": 63, "b": 1}, True),
        ({"a": 31, "b": 31, "c": 2}, True),
        ({"a": 32, "b": 32}, False),
        ({"a": 3, "b": 1}, False),  # each has few
        ({"a": 8, "b": 3}, True),
    ],
)
def test_a_batch_is_smaller_while_tenants_with_few_jobs_wait_beside_one_with_many(
    claimed: dict[str, int], is_small: bool
) -> None:
    size = BatchSize(64)
    begin = Instant(5_000)

    size.note(claims(**claimed), begin)

    assert size.jobs(begin) == (16 if is_small else 64)
    assert size.is_filled(claims(a=64), begin) is not is_small
    smaller = BatchSize(64, share=8)
    smaller.note(claims(**claimed), begin)
    assert smaller.jobs(begin) == (8 if is_small else 64)
    assert size.jobs(Instant(begin + 1_000)) == 64
    assert size.jobs(Instant(begin - 1)) == 64  # the clock was set back


def test_a_job_that_is_new_waits_for_less_than_a_full_batch_of_another_tenant() -> None:
    app = App("shares", settings=Settings(batch=64))
    order: list[str] = []

    @app.mutation
    def bulk(ctx: MutationCtx) -> None:
        order.append("b")

    @app.mutation
    def few(ctx: MutationCtx, more: int) -> None:
        order.append("F")
        if more:
            ctx.scheduler.run_after(0, few, more - 1)

    with World(app) as world:
        app.tenant("large").scheduler.run_after_many(0, [bulk.with_args()] * 500)
        app.tenant("small").scheduler.run_after(0, few, 5)
        world.drain()

    between = [len(each) for each in "".join(order).split("F")]
    assert len(between) == 7
    assert between[0] <= 1  # a turn, not what the other tenant has in the batch
    assert max(between[2:-1]) <= 16  # the first batch was a full one
