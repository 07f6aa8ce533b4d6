"""Pools: a mail provider takes two calls at a time, is away for an hour, and comes back.

running=2   |S S| |S S| |S          the others wait
pause       |       no start        what waits, waits
retry_all   |S S| |S                what had failed runs again, once each
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from evertick import ActionCtx, App, JobResult, MutationCtx, Retry
from evertick.testing import World

TEN_MINUTES = timedelta(minutes=10)


class Provider:
    """The other side."""

    def __init__(self) -> None:
        self.away = False
        self.now = 0
        self.most = 0
        self.sent: list[str] = []

    async def call(self, address: str) -> None:
        """Send a mail, which takes a second. Raises ConnectionError while the provider is away."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        if self.away:
            raise ConnectionError("the provider is away")
        self.sent.append(address)


class Post:
    """An app that sends mails, and its world."""

    def __init__(self, app: App, world: World, provider: Provider) -> None:
        self.app, self.world, self.provider = app, world, provider

    def mail(self, *addresses: str) -> list[str]:
        """Schedule a mail to each."""
        scheduler = self.app.scheduler.using(
            retry=Retry(2, first=1), on_complete=self.app.functions.resolve("told"), on_complete_for="failed"
        )
        return [scheduler.using(context=each).run_after(0, "send", each) for each in addresses]


@pytest.fixture
def post() -> Iterator[Post]:
    """Nothing has been sent yet."""
    app, provider = App("post", database_url="sqlite://"), Provider()

    @app.action(name="send", pool="mail")
    async def send(ctx: ActionCtx, address: str) -> None:
        await provider.call(address)

    @app.mutation(name="told")
    def told(ctx: MutationCtx, job_id: str, address: str, result: JobResult) -> None:
        ctx.db.insert("bounced", {"address": address})

    with World(app) as world:
        app.pools.set("mail", running=2)
        yield Post(app, world, provider)


def test_the_provider_is_never_asked_more_than_it_takes(post: Post) -> None:
    post.mail("ada", "bob", "cat", "dan", "eve")
    post.world.advance(TEN_MINUTES)

    assert post.provider.most == 2
    assert sorted(post.provider.sent) == ["ada", "bob", "cat", "dan", "eve"]
    assert post.world.query("bounced") == []


@pytest.mark.long
def test_what_failed_while_it_was_away_is_listed_and_runs_again_once_each(post: Post) -> None:
    post.provider.away = True
    failed = post.mail("ada", "bob", "cat")
    post.world.advance(TEN_MINUTES)
    page = post.app.jobs.list(pool="mail", state="failed", newest_first=False)
    assert [job.id for job in page.jobs] == failed
    assert sorted(row["address"] for row in post.world.query("bounced")) == ["ada", "bob", "cat"]

    post.app.pools.pause("mail")
    post.provider.away = False
    assert post.app.jobs.retry_all(pool="mail", error="ConnectionError") == 3
    assert post.app.jobs.retry_all(pool="mail") == 0
    post.world.advance(TEN_MINUTES)
    waits = post.app.pools.get("mail")
    assert (waits.ready, waits.running, post.provider.sent) == (3, 0, [])
    assert waits.oldest == post.world.now - TEN_MINUTES

    post.app.pools.resume("mail")
    post.world.advance(TEN_MINUTES)
    assert sorted(post.provider.sent) == ["ada", "bob", "cat"]
    assert post.provider.most == 2


def test_what_waits_in_a_paused_pool_can_be_canceled(post: Post) -> None:
    post.app.pools.pause("mail")
    ids = post.mail("ada", "bob")
    assert post.app.jobs.cancel_all(pool="mail") == 2
    post.app.pools.resume("mail")
    post.world.advance(TEN_MINUTES)

    assert [None if job is None else job.state for job in post.app.jobs.get_many(ids)] == ["canceled", "canceled"]
    assert (post.provider.sent, post.world.query("bounced")) == ([], [])
