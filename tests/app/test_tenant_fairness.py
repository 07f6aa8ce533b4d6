"""Round robin over waiting tenants, as a table: no store, no clock."""

import pytest

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.engine.jobs.tenant_fairness import LOOK_EVERY_MS, PAGES_MAX, DueTenant, ReadPage, RoundRobin, look

NOW = Instant(1_000_000)
PAGE = 2


def waiting(**due_in_ms: int) -> ReadPage:
    """Pages of tenants, each with the time from now until its earliest job is due."""
    tenants = sorted((TenantId(name), Instant(NOW + ms)) for name, ms in due_in_ms.items())
    return lambda after: [tenant for tenant in tenants if tenant[0] > after][:PAGE]


def many(count: int, due_in_ms: int) -> ReadPage:
    """So many tenants, alike."""
    return waiting(**{f"t{number:03}": due_in_ms for number in range(count)})


@pytest.mark.parametrize(
    ("read_page", "limit", "due", "look_in_ms", "after"),
    [
        (waiting(), 9, [], None, ""),
        (waiting(a=5), 9, [], 5, ""),
        (waiting(a=7, b=3, c=9), 9, [], 3, ""),
        (waiting(a=-1, b=-2), 9, ["b", "a"], None, ""),
        (waiting(a=0, b=5), 9, ["a"], 5, ""),
        (waiting(a=0, b=0, c=0), 2, ["a", "b"], 0, "b"),
        (waiting(a=0, b=5, c=0), 1, ["a"], 0, "b"),
        (many(2 * PAGES_MAX + 1, 5), 9, [], 0, f"t{2 * PAGES_MAX - 1:03}"),
    ],
)
def test_a_look_from_the_beginning(
    read_page: ReadPage, limit: int, due: list[str], look_in_ms: int | None, after: str
) -> None:
    found = look(RoundRobin(PAGE), read_page, now=NOW, limit=limit)

    assert [each.tenant for each in found.due] == due
    assert found.look_at == (None if look_in_ms is None else NOW + look_in_ms)
    assert found.state.after == after


def test_the_next_look_goes_on_where_the_last_one_ended_and_then_begins_again() -> None:
    state, turns = RoundRobin(PAGE), []
    for _ in range(6):
        found = look(state, waiting(a=0, b=0, c=0), now=NOW, limit=1)
        turns += [each.tenant for each in found.due]
        state = found.state

    assert turns == ["a", "b", "c", "a", "b", "c"]


def test_a_round_in_several_looks_in_which_nothing_was_due_ends_with_the_earliest_due_time_of_all() -> None:
    read_page = waiting(a=3, **{f"t{number:03}": 50 for number in range(2 * PAGES_MAX)})

    first = look(RoundRobin(PAGE), read_page, now=NOW, limit=9)
    second = look(first.state, read_page, now=NOW, limit=9)

    assert (first.look_at, second.look_at) == (NOW, NOW + 3)


@pytest.mark.parametrize(
    ("before", "read_page", "shortcut"),
    [
        (None, waiting(a=-5), DueTenant(Instant(NOW - 5), TenantId("a"))),
        (None, waiting(a=5), DueTenant(NOW, TenantId("a"))),
        (None, waiting(a=0, b=0), None),
        (None, waiting(), None),
        ("a", waiting(), DueTenant(NOW, TenantId("a"))),
        ("a", waiting(a=0, b=9), None),
        ("a", waiting(b=0), DueTenant(NOW, TenantId("b"))),
    ],
)
def test_only_a_tenant_that_waited_alone_is_claimed_from_without_a_look(
    before: TenantId | None, read_page: ReadPage, shortcut: DueTenant | None
) -> None:
    found = look(RoundRobin(PAGE, sole_tenant=before), read_page, now=NOW, limit=9)

    assert found.state.shortcut == shortcut


@pytest.mark.parametrize(
    ("claimed", "limit", "after_ms", "again"),
    [
        (2, 2, 0, True),
        (2, 2, LOOK_EVERY_MS - 1, True),
        (2, 2, LOOK_EVERY_MS, False),
        (1, 2, 0, False),
        (2, 2, -1, False),
    ],
)
def test_the_shortcut_is_taken_again_after_a_full_claim_until_it_is_time_to_look(
    claimed: int, limit: int, after_ms: int, again: bool
) -> None:
    claim = Claim(*("job", "a", FunctionKind.MUTATION, "f", "[]", NOW - 7, 1, 0, 0), *[None] * 3)  # type: ignore[arg-type]
    state = RoundRobin(PAGE, shortcut=DueTenant(NOW, TenantId("a")), looked_at=NOW)

    state = state.after_shortcut([claim] * claimed, now=Instant(NOW + after_ms), limit=limit)

    assert state.shortcut == (DueTenant(Instant(NOW - 7), TenantId("a")) if again else None)
