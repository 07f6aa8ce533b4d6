"""`evertick workflow restart` of several runs, and of all that filters choose; on a database and on a server."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from evertick import App, MutationCtx, Step
from tests.cli.desk import Command, work_until
from tests.server.serving import serving


@dataclass
class Shop:
    """An app whose workflow fails at its second step as long as it is broken; `made` are the steps that were made."""

    app: App
    is_broken: bool = True
    made: list[int] = field(default_factory=list)

    def failed(self, *items: str) -> list[str]:
        """Runs that have failed; forgets which steps they made, and mends the step."""
        ids = [str(self.app.workflows.using(key=item).start("shop.flow", item=item)) for item in items]
        self.end(ids)
        self.is_broken = False
        self.made.clear()
        return ids

    def end(self, ids: list[str]) -> None:
        """Let runs end."""
        work_until(self.app, lambda: all(self.app.workflows.get(each).has_ended for each in ids))

    def again(self, ids: list[str]) -> list[str]:
        """The runs as which they were restarted."""
        found = [self.app.workflows.get(each).retried_as for each in ids]
        return [str(each) for each in found if each is not None]


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[Shop]:
    found = Shop(app := App("shop"))

    @app.mutation(name="shop.step")
    def make(ctx: MutationCtx, n: int) -> int:
        found.made.append(n)
        if n == 2 and found.is_broken:
            raise ValueError("out of stock")
        return n

    @app.workflow(name="shop.flow")
    async def flow(step: Step, item: str) -> str:
        await step.run(make, 1)
        await step.run(make, 2)
        return item

    assert app.environment
    yield found
    app.close()


def test_several_runs_are_restarted_from_the_step_that_failed(shop: Shop, command: Command) -> None:
    ids = shop.failed("ada", "ben")

    done = command("workflow", "restart", *ids, "--from-failed")

    assert (done.code, done.out.split()) == (0, shop.again(ids))
    shop.end(shop.again(ids))
    assert shop.made == [2, 2]
    found = command("workflow", "list", "--state", "failed", "--fields", "id,state").out.splitlines()
    assert {*found} >= {f"{each}\tfailed (run again)" for each in ids}
    assert command("workflow", "list", "--not-retried", "-o", "json").json == []
    single = command("workflow", "restart", ids[0], "--step", "2", "-o", "json")
    assert single.json["id"] == shop.again(ids)[0]


def test_what_cannot_be_restarted_among_several_is_said(shop: Shop, command: Command) -> None:
    [run] = shop.failed("ada")

    done = command("workflow", "restart", run, "nobody", "-o", "json")

    assert (done.code, [each["id"] for each in done.json]) == (6, shop.again([run]))
    assert "no run 'nobody'" in done.err
    gone = command("workflow", "restart", "nobody", "nothing")
    assert (gone.code, gone.out, gone.err.count("error: no run")) == (3, "", 2)


@pytest.mark.parametrize("is_remote", [False, True])
def test_all_that_filters_choose_are_restarted(
    shop: Shop, command: Command, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    ids = shop.failed("ada", "ben", "cat")
    app = shop.app
    app.workflows.restart(ids[2])
    where: tuple[str, ...] = ("--workflow", "shop.flow", "--error", "out of stock", "--since", "now-1h")

    def restarted(*words: str) -> None:
        chosen = ("workflow", "restart", *where, *words)
        refused = command(*chosen)
        assert (refused.code, "this would restart 2 runs; give --yes" in refused.err) == (2, True)
        assert shop.again(ids[:2]) == []
        none = command("workflow", "restart", "--error", "KeyError", *words, "--yes")
        assert (none.code, none.err.startswith("no runs")) == (0, True)
        done = command(*chosen, "--from-failed", "--yes")
        assert (done.code, done.err) == (0, "restarted 2 runs\n")
        over = command(*chosen, "--from-failed", "--yes", "-o", "json")
        assert (over.code, over.json) == (0, {"restarted": 0, "left_out": 0})

    if is_remote:
        monkeypatch.setenv("EVERTICK_TOKEN", app.tokens.create("root", scope="admin").secret)
        with serving(app) as url:
            restarted("--url", url)
            line = app.audit_log.list(action="workflow.restart_all").changes[-1]
            assert '"from_failed":true' in line.target
    else:
        restarted()
    shop.made.clear()
    shop.end(shop.again(ids[:2]))
    assert shop.made.count(1) <= 1 and shop.made.count(2) >= 2, "only the third run began anew"


def test_their_number_is_typed(shop: Shop, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = shop.failed("ada", "ben")
    monkeypatch.setattr("evertick.cli.core.progress.is_terminal", lambda stream: stream is sys.stdin)
    typed, asked = ["1", "2"], list[str]()
    monkeypatch.setattr("click.prompt", lambda text, err: asked.append(text) or typed.pop(0))

    wrong, right = (command("workflow", "restart", "--all") for _ in range(2))

    assert (wrong.code, right.code, right.err) == (130, 0, "restarted 2 runs\n")
    assert asked == ["To restart 2 runs, type 2"] * 2
    assert len(shop.again(ids)) == 2


def test_runs_that_are_left_out_are_counted(shop: Shop, command: Command) -> None:
    one, two = shop.failed("ada", "ben")
    holder = shop.app.workflows.using(key="ben").start("shop.flow", item="another")

    partly = command("workflow", "restart", "--all", "--yes")
    nothing = command("workflow", "restart", "--state", "failed", "--prefix", "ben", "--yes", "-o", "json")

    assert (partly.code, partly.err.startswith("restarted 1 run; 1 left out: their key is held")) == (6, True)
    assert (nothing.code, nothing.json) == (5, {"restarted": 0, "left_out": 1})
    assert shop.again([one, two]) == shop.again([one])
    assert shop.app.workflows.get(holder).state == "pending"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the runs to restart by their ids or keys, or choose them with --workflow"),
        (["w1", "--all"], "name the runs to restart by their ids or keys, or choose them with --workflow"),
        (["--all", "--step", "2", "--from-failed"], "--step and --from-failed both say where a run is restarted"),
        (["--not-retried", "--state", "canceled", "--yes"], "not_retried= matches only failed runs"),
    ],
)
def test_what_cannot_be_meant_is_refused(shop: Shop, command: Command, words: list[str], says: str) -> None:
    refused = command("workflow", "restart", *words)

    assert (refused.code, says in refused.err) == (2, True), refused.err
