"""How the places of a claim are divided among tenants and queues, as a table: no store, no clock."""

from collections.abc import Mapping

import pytest

from evertick.base.ids import QueueId, TenantId
from evertick.engine.jobs.tenant_fairness import divide, levelled
from evertick.store.contract.claims import Head


def heads(**ranks: int) -> list[Head]:
    """Heads by name: `a1` is tenant a in queue 1."""
    return [Head(QueueId(int(name[1:])), TenantId(name[0]), rank) for name, rank in ranks.items()]


@pytest.mark.parametrize(
    ("room", "running", "places"),
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
    room: int, running: list[int], places: list[int]
) -> None:
    assert levelled(room, running) == places


@pytest.mark.parametrize(
    ("found", "room", "running", "served", "shares"),
    [
        (heads(a1=5), 4, {}, {}, {"a1": 4}),
        (heads(a1=5, b1=1), 4, {}, {}, {"b1": 2, "a1": 2}),
        (heads(a1=5, b1=1, c1=3), 1, {}, {}, {"b1": 1}),
        (heads(a1=5, b1=1, c1=3), 1, {}, {"b": 7, "c": 8}, {"a1": 1}),
        (heads(a1=5, b1=1, c1=3), 1, {}, {"a": 9, "b": 7, "c": 8}, {"b1": 1}),
        (heads(a1=5, b1=1), 3, {"b": 2}, {}, {"a1": 2, "b1": 1}),
        (heads(a1=5, a2=3, b1=9), 6, {}, {}, {"a2": 2, "a1": 1, "b1": 3}),
        (heads(a1=5, a2=3, a3=4), 2, {}, {}, {"a2": 1, "a3": 1}),
    ],
)
def test_tenants_share_first_and_then_the_queues_of_each(
    found: list[Head], room: int, running: Mapping[str, int], served: Mapping[str, int], shares: dict[str, int]
) -> None:
    divided = divide(found, room, running=running, served=served)  # type: ignore[arg-type]

    assert {f"{share.head.tenant}{share.head.queue}": share.limit for share in divided} == shares
