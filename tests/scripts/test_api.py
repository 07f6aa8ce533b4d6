"""Scripts as customers write them: drafts, versions, tests, and clear words for what is wrong."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import App, QueryCtx, every
from evertick.base.errors import (
    AlreadyExists,
    InvalidArguments,
    InvalidScript,
    Misuse,
    RegistrationError,
    ScriptInUse,
    ScriptNotFound,
    WeakIsolation,
)
from evertick.sandbox import Isolation, Level, Sandbox
from evertick.testing import World
from tests.scripts.conftest import Shop, js
from tests.server.conftest import http_of


def test_a_draft_runs_when_it_is_published_and_earlier_versions_can_come_back(world: World, shop: Shop) -> None:
    scripts = shop.app.scripts

    def result(**call: Any) -> Any:
        job_id = scripts.start("s", **call)
        world.advance(1)
        return world.job(job_id).result

    draft = scripts.create("s", js("return 1"), language="javascript", note="first")
    assert (draft.published, draft.versions, draft.is_changed) == (None, 0, True)
    with pytest.raises(ScriptNotFound, match="no version yet"):
        scripts.start("s")
    first = scripts.publish("s")
    assert (first.version, first.note, len(first.sha256)) == (1, "first", 64)
    assert scripts.publish("s") == first

    edited = scripts.edit("s", js("return 2"))
    assert (edited.is_changed, edited.published, result()) == (True, 1, 1)
    scripts.publish("s", note="second")
    assert (result(), result(version=1)) == (2, 1)
    assert [(each.version, each.note) for each in scripts.versions("s")] == [(2, "second"), (1, "first")]

    scripts.rollback("s", 1)
    assert (result(), scripts.get("s").source) == (1, js("return 2"))
    assert scripts.publish("s").version == 3
    with pytest.raises(ScriptNotFound, match="no version 9"):
        scripts.rollback("s", 9)


def test_a_test_writes_nothing_and_tells_everything(world: World, shop: Shop) -> None:
    order = world.call(shop.order, "open", 3)
    scripts = shop.app.scripts
    scripts.create(
        "s",
        js(
            "console.log('a'); await ctx.db.insert('outbox', {x: ctx.input}); await ctx.kv.set('k', [1]);"
            f"await ctx.crm.close('{order}'); await ctx.notify('c', 't');"
            "return [await ctx.crm.send('hi'), await ctx.crm.count('open')]"
        ),
        language="javascript",
    )

    view = scripts.test("s", 5)

    assert (view.outcome, view.result, [line.text for line in view.logs]) == ("ok", [None, 1], ["a"])
    assert [each["kind"] for each in view.staged] == ["insert", "kv.set", "crm.close", "notify"]
    assert view.staged[0]["document"] == {"x": 5}
    assert (view.host_calls["db.insert"], view.isolation) == (1, scripts.isolation()["javascript"].level)
    assert not (world.jobs() or shop.sent or shop.app.db.query("outbox").collect() or scripts.runs())
    failed = scripts.test("s", source=js("let a = 1;\n  throw new Error('no')"))
    assert failed.error is not None
    assert (failed.outcome, failed.error.message, failed.error.line, failed.error.column) == ("error", "no", 3, 13)


def test_a_script_that_schedules_use_is_not_deleted(world: World, shop: Shop) -> None:
    shop.publish("return 1")
    app = shop.app
    app.schedules.create("daily", when=every(days=1), do=app.scripts.call("script"))
    with pytest.raises(ScriptInUse, match="used by the schedules daily"):
        app.scripts.delete("script")
    app.schedules.delete("daily")
    shop.publish("return 2", "other")
    app.scripts.start("other", delay=5)
    job_id = app.scripts.start("script", delay=5)
    with pytest.raises(ScriptInUse, match=f"has runs that have not ended: {job_id}; cancel these jobs first"):
        app.scripts.delete("script")
    app.scheduler.cancel(job_id)
    app.scripts.delete("script")

    with pytest.raises(ScriptNotFound):
        app.scripts.get("script")


def test_a_new_script_does_not_show_the_runs_of_a_deleted_one_with_its_name(world: World, shop: Shop) -> None:
    def activity() -> tuple[int, int]:
        [found] = scripts.activity(["script"], since=world.now - timedelta(days=1))
        assert (found.last is None) is (found.runs == 0)
        return found.runs, len(scripts.runs("script"))

    scripts = shop.app.scripts
    shop.publish("return 1")
    scripts.start("script")
    world.advance(0)
    assert activity() == (1, 1)
    scripts.delete("script")
    assert activity() == (1, 1)

    shop.publish("return 2")
    assert activity() == (0, 0)
    world.advance(1)
    scripts.start("script")
    world.advance(1)
    assert activity() == (1, 1)
    assert len(scripts.runs()) == 2


@pytest.mark.parametrize(
    ("source", "language", "words"),
    [
        ("export default function (ctx) {\n  return 1 +;\n}", "javascript", r"SyntaxError: .* \(line 2, column"),
        ("def main(ctx:\n", "python", "SyntaxError"),
        ("x", "ruby", "javascript or python, not 'ruby'"),
        ("a\0", "javascript", "contains NUL"),
        ("def run(ctx):\n  return 1\n", "python", r"^the script has no function main: def main\(ctx\): \.\.\.$"),
        ("# def main(ctx)\nif __name__ == '__main__':\n  print(main == 1)", "python", "no function main"),
    ],
)
def test_a_source_that_cannot_run_is_refused(world: World, shop: Shop, source: str, language: str, words: str) -> None:
    with pytest.raises(InvalidScript, match=words):
        shop.app.scripts.create("s", source, language=language)
    assert not shop.app.scripts.list()


def test_input_is_checked_by_the_parameters(world: World, shop: Shop) -> None:
    schema = {
        "type": "object", "required": ["days"], "additionalProperties": False,
        "properties": {
            "days": {"type": "integer", "minimum": 1},
            "to": {"type": "array", "items": {"enum": ["a", "b"]}},
        },
    }  # fmt: skip
    scripts = shop.app.scripts
    scripts.create("s", js("return ctx.input.days"), language="javascript", parameters=schema)
    scripts.publish("s")
    with pytest.raises(InvalidArguments, match=r"input.days must be at least 1; input.to\[1\] must be one of"):
        scripts.start("s", {"days": 0, "to": ["a", "c"]})
    for wrong, words in (
        (None, "type object"), ({}, "days is missing"), ({"days": True}, "type integer"),
        ({"days": 1, "x": 1}, "x is not"),
    ):  # fmt: skip
        found = scripts.test("s", wrong)
        assert found.error is not None
        assert words in found.error.message
    assert scripts.test("s", {"days": 2, "to": ["b"]}).result == 2
    with pytest.raises(InvalidArguments, match="unsupported keyword 'pattern'"):
        scripts.edit("s", parameters={"type": "string", "pattern": "(a+)+"})
    with pytest.raises(AlreadyExists):
        scripts.create("s", "1", language="javascript")


def test_tenants_see_their_own_scripts_alone(world: World, shop: Shop) -> None:
    shop.publish("return ctx.tenant.id", tenant="acme")
    shop.publish("return ctx.tenant.id", "other", tenant="beta")

    assert [each.name for each in shop.app.tenant("acme").scripts.list()] == ["script"]
    with pytest.raises(ScriptNotFound):
        shop.app.tenant("acme").scripts.start("other")
    job_id = shop.app.tenant("acme").scripts.start("script")
    world.advance(1)
    assert shop.app.tenant("acme").jobs.get(job_id).result == "acme"
    assert not shop.app.tenant("beta").scripts.run(job_id)


def test_functions_of_the_developer_are_checked_when_they_are_registered(shop: Shop) -> None:
    host = shop.app.scripts.host

    def no_context(customer: str) -> None: ...
    def fine(ctx: QueryCtx) -> None: ...

    for name, handler, words in (
        ("db.mine", fine, "cannot be the name"), ("a-b", fine, "cannot be the name"), ("crm.count", fine, "already"),
        ("f", no_context, "first parameter must be a context"),
    ):  # fmt: skip
        with pytest.raises(RegistrationError, match=words):
            host(name)(handler)


def test_without_walls_scripts_are_refused_unless_that_is_allowed(
    world: World, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("return 1")
    monkeypatch.setattr(Sandbox, "isolation", lambda self, language: Isolation(Level.NONE, "no seccomp"))
    job_id = shop.app.scripts.start("script")
    world.advance(5)

    assert [run.outcome for run in shop.app.scripts.run(job_id)] == ["internal"] * 2
    with pytest.raises(WeakIsolation, match="no seccomp"):
        shop.app.scripts.test("script")
    monkeypatch.setenv("EVERTICK_ALLOW_WEAK_ISOLATION", "1")
    assert shop.app.scripts.test("script").result == 1


def test_everything_can_be_awaited(shop: Shop) -> None:
    with World(shop.app):

        async def story() -> Any:
            scripts = shop.app.aio.scripts
            await scripts.create("s", js("return 3"), language="javascript")
            return (await scripts.test("s")).result, (await scripts.publish("s")).version

        assert asyncio.run(story()) == (3, 1)


def test_an_app_without_scripts_knows_nothing_of_them() -> None:
    app = App("plain")
    assert not app.uses_scripts
    assert [each.name for each in app.functions] == []


def test_a_server_says_how_well_scripts_are_walled_in(shop: Shop) -> None:
    with World(shop.app):
        levels = shop.app.scripts.levels()
        http = http_of(shop.app)
        assert http.ok("GET", "/ready") == {"ok": True, "isolation": levels}
    assert set(levels) == {"javascript", "python"}


def test_versions_and_inputs_that_no_script_has_are_refused(world: World, shop: Shop) -> None:
    shop.publish("return 1")
    scripts = shop.app.scripts

    for version in (0, -1, 2**70, True, "1", 1.0):
        with pytest.raises(ScriptNotFound, match="has no version"):
            scripts.rollback("script", version)  # type: ignore[arg-type]
    for number in (0, -1, 2**70):
        with pytest.raises(ScriptNotFound):
            scripts.start("script", version=number)
    for value in (float("nan"), {"a": [float("inf")]}):
        with pytest.raises(InvalidArguments, match="input of the script"):
            scripts.start("script", value)
    with pytest.raises(InvalidArguments, match="input of the script"):
        scripts.test("script", timedelta(1))
    for wrong in (b"x", 7, {}):
        with pytest.raises(Misuse, match="source= takes text"):
            scripts.check(wrong, language="javascript")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="source= takes text"):
        scripts.test("script", source=b"x")  # type: ignore[arg-type]
    for names in ("script", [7]):
        with pytest.raises(Misuse, match="names is a list of names of scripts"):
            scripts.activity(names, since=datetime.now(UTC))
    assert not scripts.runs()
