"""Lines of logs across functions, requests and tenants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import App, MutationCtx, SyncActionCtx
from evertick.errors import InvalidArguments, JobNotFound, LimitExceeded, Misuse
from evertick.testing import World


@pytest.fixture
def world() -> Any:
    """An app whose functions log and schedule each other."""
    app = App("shop")

    @app.action(name="shop.mail")
    def mail(ctx: SyncActionCtx, number: int) -> None:
        ctx.log.info("Mailing %d", number)
        if number % 3 == 0:
            ctx.log.error("no such address: %d%%", number)

    @app.mutation(name="shop.order")
    def order(ctx: MutationCtx, number: int) -> None:
        ctx.log.debug("order %d", number)
        ctx.scheduler.run_after(0, mail, number)
        ctx.scheduler.run_after(0, mail, number + 10)

    with World(app) as world:
        for number in range(5):
            app.scheduler.run_after(number, order, number)
        app.tenant("other").scheduler.run_after(1, order, 7)
        world.drain()
        yield world


def shown(page: Any) -> list[str]:
    return [line.message for line in page.lines]


def test_the_newest_lines_of_all_functions_are_listed_by_tenant(world: World) -> None:
    app = world.app
    every = app.jobs.log_lines()
    assert len(every.lines) == 5 + 10 + 3
    assert every.cursor is None
    oldest = app.jobs.log_lines(newest_first=False)
    assert shown(oldest) == shown(every)[::-1]
    assert shown(oldest)[0] == "order 0"
    assert {line.function for line in app.tenant("other").jobs.log_lines().lines} == {"shop.order", "shop.mail"}
    assert len(app.tenant("other").jobs.log_lines().lines) == 3
    assert app.tenant("nobody").jobs.log_lines().lines == ()


def test_lines_are_narrowed(world: World) -> None:
    jobs = world.app.jobs
    assert all("no such address" in text for text in shown(jobs.log_lines(level="warning")))
    assert len(shown(jobs.log_lines(function="shop.order"))) == 5
    assert shown(jobs.log_lines(text="mAILING 13")) == ["Mailing 13"]
    assert shown(jobs.log_lines(text="0%")) == ["no such address: 0%"]
    assert shown(jobs.log_lines(text="_")) == []
    assert shown(jobs.log_lines(until=datetime(2000, 1, 1, tzinfo=UTC))) == []
    last = jobs.log_lines(limit=1).lines[0]
    assert len(shown(jobs.log_lines(since=last.time - timedelta(milliseconds=500)))) < 18


def test_a_request_has_the_lines_of_all_that_followed_from_it(world: World) -> None:
    jobs = world.app.jobs
    [child] = [line.job_id for line in jobs.log_lines(text="Mailing 12").lines]
    lines = jobs.log_lines(request=child, newest_first=False)
    assert sorted(shown(lines)) == ["Mailing 12", "Mailing 2", "no such address: 12%", "order 2"]
    assert shown(lines)[0] == "order 2"
    with pytest.raises(JobNotFound):
        world.app.tenant("other").jobs.log_lines(request=child)


def test_pages_go_on_where_the_last_one_ended(world: World) -> None:
    jobs = world.app.jobs
    for newest_first in (False, True):
        whole = shown(jobs.log_lines(newest_first=newest_first))
        found: list[str] = []
        cursor = None
        while True:
            page = jobs.log_lines(limit=2, cursor=cursor, newest_first=newest_first, level="info")
            found += shown(page)
            cursor = page.cursor
            if cursor is None:
                break
        assert found == [text for text in whole if not text.startswith("order")]
    line = jobs.log_lines(newest_first=False).lines[3]
    assert jobs.log_lines(newest_first=False, cursor=line.id).lines == jobs.log_lines(newest_first=False).lines[4:]


def test_what_is_stored_later_comes_after_the_latest_place(world: World) -> None:
    jobs = world.app.jobs
    before = jobs.log_lines()
    world.advance(60)
    again = jobs.log_lines()
    assert again.lines == before.lines
    assert jobs.log_lines(cursor=again.latest, newest_first=False).lines == ()
    world.app.scheduler.run_after(0, "shop.order", number=20)
    world.drain()
    assert shown(jobs.log_lines(cursor=again.latest, newest_first=False))[0] == "order 20"


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"level": "loud"}, Misuse),
        ({"limit": 0}, LimitExceeded),
        ({"limit": 1_001}, LimitExceeded),
        ({"limit": True}, LimitExceeded),
        ({"cursor": "job_1"}, InvalidArguments),
        ({"cursor": f"{'9' * 40}-job_1-1-1"}, InvalidArguments),
        ({"request": "cat"}, InvalidArguments),
        ({"text": 5}, Misuse),
    ],
)
def test_a_wrong_filter_is_refused(world: World, where: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        world.app.jobs.log_lines(**where)
