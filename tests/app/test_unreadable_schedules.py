"""A stored schedule that this release cannot read: its zone is gone, its JSON is damaged, a newer release wrote it.

It stops neither workers nor other schedules. It is named everywhere, and can be listed, replaced, paused and deleted.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick import App, MutationCtx, cron, every
from evertick.app.measures import UNREADABLE as UNREADABLE_MEASURE
from evertick.app.measures import samples_of
from evertick.base.errors import SchemaMismatch
from evertick.base.ids import ScheduleId
from evertick.base.instants import to_datetime
from evertick.engine.maintenance.blocked import UnreadableSchedules
from evertick.engine.schedules.evaluator import Evaluator
from evertick.store.transaction.transaction import Transaction
from tests.app.conftest import OpenApp
from tests.sampling import one_in

GONE = json.dumps({"crons": ["0 9 * * *"], "time_zone": "Mars/Olympus"})
DAMAGES = {
    "a zone that is gone": ("spec", GONE),
    "an empty zone": ("spec", '{"crons":["* * * * * *"],"time_zone":""}'),
    "a spec of unknown shape": ("spec", '{"moons": ["full"]}'),
    "a spec that is no JSON": ("spec", "{oops"),
    "holidays that were not resolved": ("spec", '{"crons":["0 9 * * *"],"except":[{"holidays":{"country":"XX"}}]}'),
    "a target that is no JSON": ("target", "{oops"),
    "a target of unknown kind": ("target", '{"v":1,"name":"note","kind":"spell","args":{}}'),
    "arguments that are missing": ("target", '{"v":1,"name":"note","kind":"mutation"}'),
    "a newer target": ("target", '{"v":99}'),
    "policies of unknown words": (
        "state",
        '{"policies":["juggle",1,"all",1,false,1],"seen_until":0,"touched_at":0,"v":1}',
    ),
    "a state that is no JSON": ("state", "[1]"),
    "metadata that is no JSON": ("memo", "{oops"),
}


def note(app: App) -> None:
    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str = "") -> None: ...


def damage(app: App, name: str, column: str, text: str) -> None:
    store = app.environment.store
    table = f"{store.place}schedules" if store.dialect == "sqlite" or not store.place else f"{store.place}.schedules"
    text = text.replace("'", "''")
    store.write(lambda tx: tx.connection.execute(f"update {table} set {column} = '{text}' where id = '{name}'"))


def evaluate(app: App, name: str) -> None:
    """Let an evaluator look at a schedule as at one whose time has come."""
    damage(app, name, "wake_at", "0")
    look(app)


def look(app: App) -> None:
    asyncio.run(Evaluator(app.environment.engine_deps(app._execution, app.counters)).round())


def check(app: App) -> None:
    """What a worker does at its start."""
    asyncio.run(UnreadableSchedules(app.environment.engine_deps(app._execution, app.counters)).round())


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App("test", database_url=f"sqlite:///{tmp_path / 'app.db'}")
    note(app)
    for name in ("broken", "fine"):
        app.schedules.create(name, when=cron("0 9 * * *", tz="Europe/Berlin"), do="note", memo={"team": "sales"})
    yield app
    app.close()


@pytest.mark.parametrize("is_due", [False, True], ids=["before it is due", "after it was due"])
@pytest.mark.parametrize("damaged", one_in(4, DAMAGES))
def test_it_is_named_everywhere(app: App, damaged: str, is_due: bool) -> None:
    column, text = DAMAGES[damaged]
    damage(app, "broken", column, text)
    check(app)
    if is_due:
        evaluate(app, "broken")

    shown, fine = app.schedules.list().schedules
    assert (shown.id, shown.status, fine.status) == ("broken", "unreadable", "active")
    assert [each.partition(":")[0] for each in shown.unreadable] == [column]
    described = app.schedules.get("broken")
    assert described.unreadable == shown.unreadable and described.function == "note"
    now = app.environment.clock.now()
    report = app.schedules.audit(to_datetime(now), to_datetime(now))
    assert [each.schedule for each in report.unreadable] == ["broken"] and not report.clean
    assert [each.name for each in app.insight.overview().attention if each.problem == "unreadable"] == ["broken"]
    [count] = [sample.value for sample in samples_of(app) if sample.measure is UNREADABLE_MEASURE]
    assert count == 1


@pytest.mark.parametrize("damaged", one_in(4, DAMAGES))
def test_it_is_paused_resumed_replaced_and_deleted(app: App, damaged: str) -> None:
    column, text = DAMAGES[damaged]
    damage(app, "broken", column, text)

    app.schedules.pause("broken", "until the zone is known")
    look(app)
    assert [each.action for each in app.schedules.history("broken", limit=1)] == ["paused"]
    with pytest.raises(SchemaMismatch, match="'broken' cannot be triggered"):
        app.schedules.trigger("broken")
    with pytest.raises(SchemaMismatch, match="'broken' cannot be changed in part"):
        app.schedules.update("broken", note="n")

    replaced = app.schedules.replace("broken", when=every(hours=1), do="note", memo={"team": "sales"})
    assert (replaced.status, replaced.paused, replaced.unreadable) == ("paused", True, ())
    resumed = app.schedules.resume("broken")
    assert resumed.status == "active" and resumed.next is not None

    damage(app, "broken", column, text)
    app.schedules.pause("broken")
    assert app.schedules.resume("broken").status == "unreadable"
    app.schedules.delete("broken")
    assert [each.id for each in app.schedules.list().schedules] == ["fine"]


def test_new_times_alone_replace_times_that_cannot_be_read(app: App) -> None:
    """Everything else stays: the memo, the policies, the pause."""
    app.schedules.pause("broken", "stop")
    damage(app, "broken", "spec", GONE)

    changed = app.schedules.update("broken", when=cron("0 10 * * *", tz="Europe/Berlin"))

    assert (changed.memo, changed.status, changed.note) == ({"team": "sales"}, "paused", "stop")
    assert "Mars/Olympus" in app.schedules.history("broken")[0].detail


@pytest.mark.parametrize("damaged", one_in(4, DAMAGES))
@pytest.mark.parametrize("declares", [True, False], ids=["declared again", "removed from the code"])
def test_a_cron_that_cannot_be_read_stops_no_start(
    app: App, damaged: str, declares: bool, caplog: pytest.LogCaptureFixture
) -> None:
    column, text = DAMAGES[damaged]
    app.schedules.delete_all(status="active")
    old = app
    for name in ("broken", "fine"):
        old.crons.add(name, cron("0 9 * * *", tz="Europe/Berlin"), "note", "x")
    old.sync_crons()
    old.schedules.pause("broken", "stop")
    damage(old, "broken", column, text)

    new = App("test", database_url=app.database_url)
    note(new)
    for name in ("broken", "fine") if declares else ("fine",):
        new.crons.add(name, cron("0 9 * * *", tz="Europe/Berlin"), "note", "x")
    old.close()
    with new.running():
        check(new)

    found = {each.id: each.status for each in new.schedules.list().schedules}
    if declares:
        assert found == {"broken": "active" if column == "state" else "paused", "fine": "active"}
        assert new.schedules.get("broken").target.args == {"text": "x"}
    elif column == "memo":  # nobody can say whose it is
        assert found == {"broken": "unreadable", "fine": "active"}
        assert "the cron broken cannot be read, so it does not run" in caplog.text
    else:
        assert found == {"fine": "active"}
    new.close()


def test_one_registered_at_run_time_is_listed_and_deleted(open_app: OpenApp) -> None:
    app = open_app()
    note(app)

    @app.mutation
    def register(ctx: MutationCtx) -> None:
        for name in ("broken", "fine"):
            app.crons.register(ctx, name, every(hours=1), "note")

    @app.mutation
    def delete(ctx: MutationCtx) -> list[str]:
        found = [each.id for each in app.crons.list(ctx)]
        app.crons.delete(ctx, "broken")
        return [*found, *(each.id for each in app.crons.list(ctx))]

    app.call(register)
    for column, text in DAMAGES.values():
        damage(app, "broken", column, text)
    check(app)
    assert app.environment.store.read(lambda tx: tx.count_unreadable(limit=10)) == 1
    assert app.call(delete) == ["broken", "fine", "fine"]


def test_a_target_that_can_be_read_again_goes_on_by_itself(app: App) -> None:
    """The times that passed meanwhile are judged then."""
    store = app.environment.store
    row = store.read(lambda tx: tx.get_schedule(ScheduleId("broken"), tenant=app.tenant_id))
    assert row is not None
    damage(app, "broken", "spec", GONE)
    evaluate(app, "broken")
    app.schedules.pause("broken")
    app.schedules.resume("broken")
    damage(app, "broken", "spec", row.spec.text)
    evaluate(app, "broken")

    def stored(tx: Transaction) -> tuple[str, int]:
        found = tx.get_schedule(row.id, tenant=row.tenant)
        assert found is not None
        return found.status, found.state.seen_until

    assert store.read(stored) == ("active", row.state.seen_until)
