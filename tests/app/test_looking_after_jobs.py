"""`app.jobs`: read, count, cancel, move and retry jobs, on both databases, blocking and awaited."""

import asyncio
import math
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from evertick import App, MutationCtx, SyncActionCtx
from evertick.app.jobs import operations
from evertick.errors import (
    ArgumentsTooLarge,
    FunctionNotFound,
    InvalidArguments,
    InvalidDelay,
    JobNotFound,
    JobNotPending,
    JobNotRetryable,
    LimitExceeded,
    Misuse,
    QuotaExceeded,
)
from evertick.functions import JobState
from evertick.store.transaction import lists
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

R = TypeVar("R")

TOMORROW = timedelta(days=1)


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app with a function that works and one that fails unless it is told otherwise."""
    app = open_app()

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str) -> str:
        ctx.log.info("noting %s", text)
        return text

    @app.mutation(name="send")
    def send(ctx: MutationCtx, to: str, broken: bool = True) -> str:
        ctx.log.warning("sending to %s", to)
        if broken:
            raise ValueError("no route")
        return to

    app.migrate()
    return app


def test_a_job_is_read_with_what_it_returned_and_logged(app: App) -> None:
    job_id = app.scheduler.run_after(0, "note", "hello")
    assert (app.jobs.get(job_id).state, app.jobs.logs(job_id).lines) == (JobState.PENDING, ())

    with Engine(app) as engine:
        engine.wait(job_id)

    job = app.jobs.get(job_id)
    assert (job.state, job.function, job.args, job.result) == ("success", "note", {"text": "hello"}, "hello")
    assert [(line.level, line.message) for line in app.jobs.logs(job_id).lines] == [("info", "noting hello")]
    assert app.jobs.counts() == {
        "pending": 0,
        "in_progress": 0,
        "success": 1,
        "failed": 0,
        "canceled": 0,
        "not_retried": 0,
    }


def test_lists_come_in_pages_and_are_narrowed(app: App) -> None:
    ids = [app.scheduler.run_after(TOMORROW, "note", str(number)) for number in range(5)]
    later = app.scheduler.run_after(3 * TOMORROW, "send", "ann")

    first = app.jobs.list(limit=4)
    second = app.jobs.list(limit=4, cursor=first.cursor)
    assert [job.id for job in (*first.jobs, *second.jobs)] == [later, *reversed(ids)]
    assert second.cursor is None
    assert [job.id for job in app.jobs.list(newest_first=False, limit=1).jobs] == ids[:1]
    assert [job.id for job in app.jobs.list(function="send").jobs] == [later]
    assert [job.id for job in app.jobs.list(due_from=datetime.now(UTC) + 2 * TOMORROW).jobs] == [later]
    assert len(app.jobs.list(state=["pending", JobState.FAILED], due_until=datetime.now(UTC) + 2 * TOMORROW).jobs) == 5


def test_what_waits_for_its_time_is_listed_the_soonest_first(app: App) -> None:
    hours = [5, 1, 3, 2, 4]
    ids = {each: app.scheduler.run_after(each * TOMORROW, "note", str(each)) for each in hours}
    app.scheduler.run_after(0, "note", "due already")

    first = app.jobs.upcoming(limit=3)
    second = app.jobs.upcoming(limit=3, cursor=first.cursor)

    assert [job.id for job in (*first.jobs, *second.jobs)] == [ids[each] for each in sorted(hours)]
    assert second.cursor is None
    assert [job.id for job in app.jobs.upcoming(due_until=datetime.now(UTC) + 2.5 * TOMORROW).jobs] == [ids[1], ids[2]]
    assert app.jobs.upcoming(due_from=datetime(2000, 1, 1, tzinfo=UTC)).jobs[0].args == {"text": "1"}
    assert app.jobs.upcoming(function="send").jobs == app.tenant("acme").jobs.upcoming().jobs == ()
    with pytest.raises(Misuse, match="leave out state="):
        app.jobs.upcoming(state="pending")
    with pytest.raises(InvalidArguments, match="not the cursor"):
        app.jobs.upcoming(cursor=first.jobs[0].id)
    with pytest.raises(LimitExceeded):
        app.jobs.upcoming(limit=0)
    assert app.jobs.list(state="failed").jobs == ()
    assert app.tenant("acme").jobs.list().jobs == ()


def test_jobs_are_found_by_their_parent_and_the_beginning_of_their_id_and_counted(app: App) -> None:
    failed = app.scheduler.run_after(0, "send", "ann")
    with Engine(app) as engine:
        engine.wait(failed)
    again = app.jobs.retry(failed)
    waits = [app.scheduler.run_after(TOMORROW, "note", str(number)) for number in range(3)]

    def ids(**where: Any) -> list[str]:
        return [job.id for job in app.jobs.list(**where).jobs]

    assert ids(parent=failed) == [again]
    assert ids(id_prefix=waits[1]) == [waits[1]]
    assert set(ids(id_prefix=failed[:8])) == {failed, again, *waits}
    for none in ("\0", "job_\0", "\x1f", "\ue000", "\ud800", "job_\xe9"):
        assert ids(id_prefix=none) == []
    assert ids(id_prefix="job_ffff") == ids(id_prefix=failed, state="pending") == []
    assert app.jobs.count().number == 5
    assert app.jobs.count(state="pending", function="note").number == 3
    assert app.jobs.count(due_from=datetime.now(UTC) + TOMORROW / 2).number == 3
    assert app.jobs.count(parent=failed).number == 1
    with pytest.raises(InvalidArguments):
        app.jobs.list(parent="ann")

    assert app.jobs.run_now_all(function="note") == 3
    # The database's clock, which sets due times, may be some milliseconds ahead of this process's.
    assert all(app.jobs.get(each).due_at <= datetime.now(UTC) + timedelta(minutes=1) for each in waits)
    assert app.jobs.run_now_all(function="note") == 0, "they are due already"
    with pytest.raises(Misuse, match="only pending jobs can run now"):
        app.jobs.run_now_all(state="failed")


def test_jobs_are_chosen_by_their_key_and_by_what_their_error_says(app: App) -> None:
    keyed, other = (
        app.scheduler.using(key="mail ann").run_after(0, "send", "ann"),
        app.scheduler.run_after(0, "send", "bob"),
    )
    with Engine(app) as engine:
        engine.wait(keyed)
        engine.wait(other)
    waits = app.scheduler.using(key="mail ann").run_after(TOMORROW, "note", "hello")

    def ids(**where: Any) -> list[str]:
        return [job.id for job in app.jobs.list(**where).jobs]

    assert ids(key="mail ann") == [waits, keyed]
    assert ids(key="mail ann", state="failed") == [keyed]
    assert ids(error="valueerror: No route") == [other, keyed]
    assert ids(error="no route", key="mail ann") == [keyed]
    assert ids(error="no road") == ids(key="mail") == []
    assert app.jobs.retry_all(error="no road") == 0
    assert app.jobs.retry_all(error="no route", key="mail") == 0
    assert app.jobs.retry_all(error="no route") == 1  # the key of the other one is held
    assert app.jobs.cancel_all(key="mail ann") == 1
    assert app.jobs.get(waits).state == "canceled"
    assert app.jobs.counts(function="note")["canceled"] == 1
    assert app.jobs.counts(function="send")["canceled"] == 0


def test_failed_jobs_of_a_pool_are_listed_and_run_again(open_app: OpenApp) -> None:
    app = open_app()
    sent: list[int] = []
    broken = True

    @app.mutation(name="send", pool="e_mail")
    def send(ctx: MutationCtx, n: int) -> None:
        sent.append(n)
        if broken:
            raise ValueError("no route")

    def fail(ctx: MutationCtx) -> None:
        raise ValueError("no route")

    app.mutation(name="other", pool="e-mail")(fail)
    app.mutation(name="plain")(fail)
    mails = [app.scheduler.run_after(0, send, n) for n in range(5)]
    plain, other = app.scheduler.run_after(0, "plain"), app.scheduler.run_after(0, "other")
    with Engine(app) as engine:
        for job_id in (*mails, plain, other):
            engine.wait(job_id)
    waits = app.scheduler.run_after(TOMORROW, send, 9)

    def ids(**where: Any) -> list[str]:
        return [job.id for job in app.jobs.list(newest_first=False, **where).jobs]

    assert ids(pool="e_mail", state="failed") == mails
    assert ids(pool="e_mail") == [*mails, waits]
    assert (ids(pool="default"), ids(pool="e-mail")) == ([plain], [other])
    assert ids(pool="mail") == ids(pool="e_mail", state="success") == []
    with pytest.raises(Misuse, match="a pool's name"):
        app.jobs.list(pool="a/b")
    broken = False
    sent.clear()
    assert app.jobs.retry_all(pool="e_mail") == 5
    assert app.jobs.retry_all(pool="e_mail") == 0
    assert app.jobs.cancel_all(pool="e_mail", due_from=datetime.now(UTC) + TOMORROW / 2) == 1
    with Engine(app) as engine:
        engine.until(lambda: app.jobs.counts(function=send)["success"] == 5 or None)
    assert sorted(sent) == [0, 1, 2, 3, 4]
    assert app.jobs.get(waits).state == "canceled"


async def _awaited(coroutine: Coroutine[Any, Any, R]) -> R:
    return await coroutine


def test_many_jobs_are_read_at_once(open_app: OpenApp) -> None:
    app = open_app()
    note: Any = app.mutation(name="note")(lambda ctx: None)
    first, second = app.scheduler.run_after_many(TOMORROW, [note.with_args(), note.with_args()])
    app.jobs.cancel(second)
    of_tenant = app.tenant("acme").scheduler.run_after(TOMORROW, note)
    unknown = first[:-1] + ("0" if first[-1] != "0" else "1")

    found = app.jobs.get_many([second, unknown, first, second, of_tenant])
    assert [None if job is None else (job.id, job.state) for job in found] == [
        (second, "canceled"), None, (first, "pending"), (second, "canceled"), None,
    ]  # fmt: skip
    assert asyncio.run(_awaited(app.aio.jobs.get_many([first]))) == (app.jobs.get(first),)
    assert app.jobs.get_many([]) == ()
    with pytest.raises(LimitExceeded, match="at most 1,000 ids, not 1,001"):
        app.jobs.get_many([first] * 1001)
    with pytest.raises(InvalidArguments):
        app.jobs.get_many(["messages_1"])


def test_a_page_that_looked_through_many_jobs_has_a_cursor_to_go_on(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "SCAN_MAX", 3)
    wanted = app.scheduler.run_after(2 * TOMORROW, "note", "wanted")
    for number in range(7):
        app.scheduler.run_after(TOMORROW, "note", str(number))
    later = datetime.now(UTC) + 1.5 * TOMORROW

    pages = [app.jobs.list(due_from=later)]
    while pages[-1].cursor is not None:
        pages.append(app.jobs.list(due_from=later, cursor=pages[-1].cursor))

    assert [[job.id for job in page.jobs] for page in pages] == [[], [], [wanted]]
    assert app.jobs.cancel_all(due_from=later) == 1
    assert app.jobs.retry_all(state="canceled", due_from=later) == 1


def test_blocked_jobs_are_those_that_no_live_worker_runs(app: App, open_app: OpenApp) -> None:
    notes = open_app()
    notes.mutation(name="note")(lambda ctx, text: text)
    later = app.scheduler.run_after(TOMORROW, "send", "ann")
    with Engine(notes) as engine:
        engine.wait(app.scheduler.run_after(0, "note", "it lives"))
        blocked = [app.scheduler.run_after(0, "send", to) for to in ("bob", "cat")]

        page = app.jobs.list(blocked=True)
        assert [job.id for job in page.jobs] == blocked[::-1]
        assert all(job.blocked for job in page.jobs)
        assert [job.id for job in app.jobs.list(blocked=True, function="note").jobs] == []
        assert app.jobs.cancel_all(blocked=True) == 2
    assert app.jobs.list(blocked=True).jobs == ()
    assert app.jobs.get(later).state == "pending"


def test_a_pending_job_is_moved_run_now_and_canceled(app: App) -> None:
    job_id = app.scheduler.run_after(TOMORROW, "note", "hello")
    at = datetime.now(UTC).replace(microsecond=0) + 2 * TOMORROW

    assert app.jobs.reschedule(job_id, at).due_at == at
    assert app.jobs.run_now(job_id).due_at <= datetime.now(UTC) + timedelta(minutes=1)
    assert app.jobs.cancel(job_id).state == "canceled"
    assert app.jobs.stop(job_id).state == "canceled"
    with pytest.raises(JobNotPending, match="is canceled; only the time of a pending job"):
        app.jobs.run_now(job_id)


def test_failed_jobs_run_again(app: App) -> None:
    failing = [app.scheduler.run_after(0, "send", to) for to in ("ann", "bob", "cat")]
    fine = app.scheduler.run_after(0, "note", "hello")
    with Engine(app) as engine:
        for job_id in (*failing, fine):
            engine.wait(job_id)

    again = app.jobs.retry(failing[0], args={"to": "ann", "broken": False})
    assert app.jobs.get(again).args == {"to": "ann", "broken": False}
    assert app.jobs.get(again).parent_id == failing[0]
    with pytest.raises(JobNotRetryable, match="was retried already"):
        app.jobs.retry(failing[0])
    with pytest.raises(JobNotRetryable, match="has succeeded"):
        app.jobs.retry(fine)
    with pytest.raises(InvalidArguments, match="too"):
        app.jobs.retry(failing[1], args={"too": "bob"})

    assert app.jobs.retry_all(function="note") == 0
    assert app.jobs.retry_all(function="send") == 2
    assert app.jobs.retry_all() == 0
    assert app.jobs.counts()["pending"] == 3


def test_a_key_that_is_taken_holds_up_no_other_retry(app: App) -> None:
    held = app.scheduler.using(key="mail").run_after(0, "send", "ann")
    free = app.scheduler.run_after(0, "send", "bob")
    with Engine(app) as engine:
        engine.wait(held)
        engine.wait(free)
    app.scheduler.using(key="mail").run_after(TOMORROW, "send", "dan")

    assert app.jobs.retry_all(state="failed") == 1


def test_arguments_of_a_function_that_this_app_lacks_are_taken_as_they_are(app: App, open_app: OpenApp) -> None:
    job_id = app.scheduler.run_after(TOMORROW, "note", "hello")
    other = open_app("other")

    again = other.jobs.retry(job_id, args={"words": ["hello"]})

    assert (other.jobs.get(job_id).state, other.jobs.get(again).args) == ("canceled", {"words": ["hello"]})
    with pytest.raises(InvalidArguments, match="arguments for note"):
        other.jobs.retry(again, args={"words": math.nan})
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidArguments, match=r"what note is called with .* more than 200 levels deep"):
        other.jobs.retry(again, args={"words": deep})


def test_wrong_words_are_errors(app: App) -> None:
    for wrong in ("job_00000000000000000000000000", "x" * 3):
        with pytest.raises((JobNotFound, InvalidArguments)):
            app.jobs.get(wrong)
    with pytest.raises(Misuse, match="'done' is no state of a job"):
        app.jobs.list(state="done")
    with pytest.raises(Misuse, match="not chosen by colour="):
        app.jobs.list(colour="red")  # type: ignore[call-arg]
    with pytest.raises(Misuse, match="only failed and canceled"):
        app.jobs.retry_all(state="success")
    with pytest.raises(Misuse, match="only pending and running"):
        app.jobs.cancel_all(state="success")
    with pytest.raises(Misuse, match="only pending jobs can be blocked"):
        app.jobs.retry_all(blocked=True)
    with pytest.raises(Misuse, match="error= takes a text, not ''"):
        app.jobs.list(error="")
    with pytest.raises(Misuse, match="key= takes a text, not 3"):
        app.jobs.list(key=3)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="3 is not a function"):
        app.jobs.counts(function=3)  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded, match="1 to 1,000"):
        app.jobs.list(limit=0)
    with pytest.raises(InvalidArguments):
        app.jobs.list(cursor="elsewhere")
    job_id = app.scheduler.run_after(TOMORROW, "note", "hello")
    with pytest.raises(InvalidDelay):
        app.jobs.reschedule(job_id, datetime(2030, 1, 1))
    with pytest.raises(FunctionNotFound):
        app.functions.resolve("gone")


def test_all_of_it_is_awaited_too(app: App) -> None:
    async def main() -> dict[str, Any]:
        job_id = await app.aio.scheduler.run_after(TOMORROW, "note", "hello")
        assert (await app.aio.jobs.list()).jobs[0].id == job_id
        await app.aio.jobs.cancel(job_id)
        assert await app.aio.jobs.retry_all(state="canceled") == 1
        return await app.aio.jobs.counts()

    assert asyncio.run(main())["pending"] == 1


def test_a_running_action_is_canceled_by_its_job(app: App) -> None:
    @app.action(name="hold")
    def hold(ctx: SyncActionCtx) -> str:
        view = app.jobs.cancel(ctx.job_id)
        assert ctx.cancel_requested
        return f"{view.state} {view.cancel_requested}"

    job_id = app.scheduler.run_after(0, "hold")
    with Engine(app) as engine:
        engine.wait(job_id)

    assert app.jobs.get(job_id).state == "canceled"


@pytest.mark.long
def test_a_retry_needs_room_and_arguments_of_a_size(app: App, open_app: OpenApp) -> None:
    ids = [app.scheduler.run_after(TOMORROW, "note", str(number)) for number in range(3)]
    for job_id in ids:
        app.jobs.cancel(job_id)
    app.tenants.set("default", jobs=2)

    with pytest.raises(QuotaExceeded):
        app.jobs.retry_all(state="canceled")
    assert app.jobs.counts()["pending"] == 0
    app.jobs.retry(ids[0])
    app.jobs.retry(ids[1])
    with pytest.raises(QuotaExceeded):
        app.jobs.retry(ids[2])

    app.tenants.set("default", jobs=None)
    for one in (app, open_app("other")):
        with pytest.raises(ArgumentsTooLarge):
            one.jobs.retry(ids[2], args={"text": "x" * 5_000_000})
        with pytest.raises(InvalidArguments):
            one.jobs.retry(ids[2], args={"text": "\ud800"})


def test_jobs_that_fail_again_meanwhile_are_not_retried_by_the_same_call(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "RETRY_PAGE", 2)
    for number in range(5):
        app.jobs.cancel(app.scheduler.run_after(TOMORROW, "note", str(number)))
    group = app.jobs
    write = group.write

    def write_and_cancel(work: Any) -> Any:
        result = write(work)
        for job in app.jobs.list(state="pending").jobs:  # as if a worker had been quick
            app.jobs.cancel(job.id)
        return result

    group.write = write_and_cancel  # type: ignore[assignment]
    assert group.retry_all(state="canceled") == 5
    assert app.jobs.retry_all(state="canceled") == 5


def test_no_state_is_not_every_state(app: App) -> None:
    with pytest.raises(Misuse, match="names no state"):
        app.jobs.list(state=[])
    with pytest.raises(Misuse, match="names no state"):
        app.jobs.retry_all(state=())
    with pytest.raises(Misuse, match="names no state"):
        app.jobs.list(state=(each for each in ()))
    with pytest.raises(LimitExceeded, match=r"not 1\.5"):
        app.jobs.list(limit=1.5)  # type: ignore[arg-type]
