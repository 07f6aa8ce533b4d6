"""Functions that were renamed: `aliases=` keeps what was scheduled under the old name running."""

from collections.abc import Callable
from typing import Any

import pytest

from evertick import App, MutationCtx, SyncActionCtx, every
from evertick.base.errors import FunctionNotFound, Misuse, RegistrationError
from evertick.testing import World

OpenWorld = Callable[..., World]


def release(mutation: str, action: str, **options: Any) -> App:
    """A release of an app in which the two functions have these names."""
    app = App("renaming")

    @app.mutation(name=mutation, **options.get(mutation, {}))
    def write(ctx: MutationCtx, text: str) -> str:
        return ctx.db.insert("texts", {"text": text})

    @app.action(name=action, **options.get(action, {}))
    def act(ctx: SyncActionCtx, text: str) -> str:
        return text

    return app


def renamed() -> App:
    return release(
        "new.write", "new.act", **{"new.write": {"aliases": ["old.write"]}, "new.act": {"aliases": ["old.act"]}}
    )


def test_jobs_and_schedules_of_the_old_name_run_the_renamed_function(world: OpenWorld) -> None:
    w = world(release("old.write", "old.act"))
    jobs = [w.app.scheduler.run_after(60, name, text="later") for name in ("old.write", "old.act")]
    w.app.schedules.create("s", when=every(minutes=1), do=w.app.functions.resolve("old.write").with_args("each minute"))

    w.deploy(renamed())
    w.advance(90)

    assert [w.job(job_id).state for job_id in jobs] == ["success", "success"]
    assert sorted(each["text"] for each in w.query("texts")) == ["each minute", "later"]
    assert w.app.call("old.write", text="called") == w.query("texts")[-1]["_id"]


def test_without_an_alias_they_wait_and_are_blocked(world: OpenWorld) -> None:
    w = world(release("old.write", "old.act"))
    job_id = w.app.scheduler.run_after(60, "old.write", text="later")

    w.deploy(release("new.write", "new.act"))
    w.advance(90)

    assert w.job(job_id).state == "pending"


def test_a_worker_says_that_it_serves_the_old_names(world: OpenWorld) -> None:
    w = world(renamed())
    w.advance(1)

    [worker] = w.app.environment.store.read(lambda transaction: transaction.list_workers())

    assert worker.serves is not None
    served = {each.name: each.signature for each in worker.serves.value.functions}
    assert set(served) - {"evertick.testing.stories"} == {"new.write", "old.write", "new.act", "old.act"}
    assert served["old.write"] == served["new.write"] == "(text: str)"


def test_annotations_that_are_text_are_shown_without_quotes() -> None:
    app = App(":memory:")

    @app.mutation
    def send(ctx: MutationCtx, to: "list[str]", text: "str" = "hello") -> None: ...

    assert send.served.signature == "(to: list[str], text: str = 'hello')"


def test_an_alias_is_a_name_like_any_other() -> None:
    with pytest.raises(RegistrationError, match=r"'new\.write' is registered twice"):
        release("new.write", "new.act", **{"new.act": {"aliases": ["new.write"]}})
    for aliases in ("old.write", [""], [7]):
        with pytest.raises(Misuse, match="takes a list of names"):
            release("new.write", "new.act", **{"new.write": {"aliases": aliases}})
    app = renamed()
    assert [function.name for function in app.functions] == ["new.write", "new.act"]
    with pytest.raises(FunctionNotFound, match=r"did you mean new\.write"):
        app.functions.resolve("new.writ")
