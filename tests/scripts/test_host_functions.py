"""What scripts may call: their own tenant's data, declared tables, checked arguments."""

from typing import Any

import pytest

from evertick.testing import World
from tests.scripts.conftest import Shop, js

JS, PY = "javascript", "python"
CATCHES = "try {{ await {call}; return 'done' }} catch (error) {{ return [error.code, error.message] }}"


def result_of(shop: Shop, source: str, input: Any = None) -> Any:
    """The result of a script."""
    scripts = shop.app.scripts
    if not scripts.list():
        scripts.create("s", js(""), language="javascript")
    found = scripts.test("s", input, source=js(source))
    assert found.outcome == "ok", found.error
    return found.result


def def_main(*lines: str) -> str:
    """A script in Python with these lines."""
    return "\n  ".join(["def main(ctx):", *lines])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("ctx.db.query('secrets')", "table_not_found"),
        ("ctx.db.get('secrets_' + '0'.repeat(28))", "table_not_found"),
        ("ctx.db.get('nothing')", "table_not_found"),
        ("ctx.db.insert('orders', {})", "not_allowed"),
        ("ctx.db.delete('orders_' + '0'.repeat(28))", "not_allowed"),
        ("ctx.db.insert('outbox', {_id: 'x'})", "invalid_arguments"),
        ("ctx.db.update('outbox_' + '0'.repeat(28), {})", "document_not_found"),
        ("ctx.db.query('orders', {a: {like: 'x'}})", "invalid_argument"),
        ("ctx.db.query('orders', {}, {limit: 1001})", "invalid_argument"),
        ("ctx.db.query('orders', {}, {skip: 1})", "invalid_argument"),
        ("ctx.db.query(1)", "invalid_argument"),
        ("ctx.kv.set('', 1)", "invalid_argument"),
        ("ctx.kv.set('a\\u0000', 1)", "invalid_argument"),
        ("ctx.crm.count(7)", "invalid_argument"),
        ("ctx.schedule({script: 'none', in: 1})", "script_not_found"),
        ("ctx.schedule({script: 's'})", "invalid_argument"),
        ("ctx.schedule({script: 's', at: 'tomorrow'})", "invalid_argument"),
        *(
            (f"ctx.schedule({{script: 's', {word}: {value}}})", "invalid_argument")
            for word in ("at", "in")
            for value in ("null", "NaN", "undefined", "Infinity", "-1e15", "true", "[]")
        ),
        ("ctx.schedule({script: 's', at: 1000})", "invalid_argument"),
        ("ctx.schedule({script: 's', at: '0001-01-01T00:00:00+14:00'})", "invalid_argument"),
        ("ctx.schedule({script: 's', in: 1, at: null})", "invalid_argument"),
        ("ctx.kv.set('a')", "invalid_argument"),
        ("ctx.notify('a'.repeat(201), 't')", "invalid_argument"),
    ],
)
def test_a_call_that_cannot_be_is_an_error_that_the_script_may_catch(
    world: World, shop: Shop, call: str, code: str
) -> None:
    found = result_of(shop, CATCHES.format(call=call))
    assert found[0] == code, found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{state: {gtt: 1}}", "the filter of 'state' has 'gtt'; it takes lt,"),
        ("{}, {limt: 1}", "a query has no option 'limt'; it has limit and order"),
        ("{state: {}}", "the filter of 'state' is empty; omit the field to match all"),
        ("{state: undefined}", "state in argument 2 of ctx.db.query is undefined (omit it, or pass null)"),
        ("{total: {lt: undefined}}", "total.lt in argument 2 of ctx.db.query is undefined"),
        ("{state: () => 1}", "state in argument 2 of ctx.db.query is a function"),
        ("{state: Symbol('x')}", "state in argument 2 of ctx.db.query is a symbol"),
        ("{total: 0 / 0}", "total in argument 2 of ctx.db.query is NaN"),
        ("{total: {in: [1, undefined]}}", "total.in.1 in argument 2 of ctx.db.query is undefined"),
        ("{total: new Date(NaN)}", "total in argument 2 of ctx.db.query is an invalid date"),
        ("new Map([['state', 'open']])", "argument 2 of ctx.db.query is a Map without fields"),
        ("{total: ctx.kv.get('least')}", "total in argument 2 of ctx.db.query is a promise (await it)"),
        ("undefined, {limit: 1}", "argument 2 of ctx.db.query is undefined"),
    ],
)
def test_a_wrong_word_of_a_query_is_named(world: World, shop: Shop, arguments: str, words: str) -> None:
    shop.publish(f"await ctx.db.query('orders', {arguments})")

    error = shop.app.scripts.test("script").error

    assert error is not None
    assert error.message.startswith(words)
    assert error.line == 2


def test_an_argument_that_is_left_out_may_be_undefined(world: World, shop: Shop) -> None:
    world.call(shop.order, "open")

    assert result_of(shop, "return (await ctx.db.query('orders', undefined, undefined)).length") == 1


@pytest.mark.parametrize(
    ("language", "source", "error"),
    [
        (JS, js("\n  await ctx.db.find('x')"), "3: ctx.db.find is not a function; ctx.db has delete, get"),
        (JS, js("ctx.crm.coutn('x')"), "2: ctx.crm.coutn is not a function; did you mean ctx.crm.count? ctx.crm"),
        (JS, js("ctx.zip()"), "2: ctx.zip is not a function; ctx has crm, db, kv, log, notify, schedule, time"),
        (JS, js("ctx.input()"), "2: ctx.input is not a function"),
        (PY, def_main("ctx.db.find('x')"), "2: module 'ctx.db' has no attribute 'find'; ctx.db has delete"),
        (PY, def_main("ctx.db.get('\\0')"), "2: table_not_found: the argument is not an id of a document"),
        (PY, def_main("raise KeyError({})"), "None: an exception takes nothing or one text"),
        (PY, def_main("ctx.schedule({'at': None, 'script': 's'})"), "2: invalid_argument: schedule() takes"),
        (PY, def_main("ctx.schedule({'in': None, 'script': 's'})"), "2: invalid_argument: schedule() takes"),
        (PY, def_main("ctx.db.query('orders', {'status': {}})"), "2: invalid_argument: the filter of 'status'"),
        (PY, def_main("ctx.kv.set('a')"), "2: kv.set: value is missing"),
        (PY, def_main("ctx.kv.set('é', 1)", "ctx.crm.close('orders_' + '0' * 28)"), "3: crm.close: patch of"),
    ],
)
def test_a_mistake_is_told_with_its_line(world: World, shop: Shop, language: str, source: str, error: str) -> None:
    shop.app.scripts.create("s", source, language=language)

    found = shop.app.scripts.test("s").error

    assert found is not None
    assert f"{found.line}: {found.message}".startswith(error)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        (JS, js("return [Date.now(), +new Date(), performance.now(), typeof Date(), new Date(5) instanceof Date]")),
        (
            PY,
            "import datetime, time\n"
            + def_main(
                "now = datetime.datetime.now(datetime.timezone.utc)",
                "return [int(time.time() * 1000), round(now.timestamp() * 1000), 0, 'string', True]",
            ),
        ),
    ],
)
def test_the_clock_of_a_script_is_that_of_the_world(world: World, shop: Shop, language: str, source: str) -> None:
    world.advance(60)
    now = int(world.now.timestamp() * 1_000)

    shop.app.scripts.create("s", source, language=language)

    assert shop.app.scripts.test("s").result == [now, now, 0, "string", True]


@pytest.mark.parametrize(
    ("language", "source"),
    [
        (JS, js("await ctx.db.insert('outbox', {n: 2 ** 64})")),
        (PY, def_main("ctx.db.insert('outbox', {'n': 2 ** 64})")),
    ],
)
def test_large_integers_are_the_same_number_in_both_languages(
    world: World, shop: Shop, language: str, source: str
) -> None:
    shop.publish("return (await ctx.db.query('outbox', {n: 2 ** 64})).length", "find")
    shop.app.scripts.create("s", source, language=language)
    shop.app.scripts.publish("s")
    for name in ("s", "find"):
        job_id = shop.app.scripts.start(name)
        world.advance(1)

    assert (world.job(job_id).result, shop.app.db.query("outbox").collect()[0]["n"]) == (1, 2**64)


def test_documents_are_filtered_ordered_and_limited(world: World, shop: Shop) -> None:
    for status, total in (("open", 3), ("closed", 2), ("open", 1), ("open", 2)):
        world.call(shop.order, status, total)

    def totals(where: str, options: str = "{}") -> Any:
        return result_of(shop, f"return (await ctx.db.query('orders', {where}, {options})).map(o => o.total)")

    assert totals("{}") == [3, 2, 1, 2]
    assert totals("{status: 'open'}") == [3, 1, 2]
    assert totals("{status: 'open'}", "{order: '-total', limit: 2}") == [3, 2]
    assert totals("{total: {gte: 2, lt: 3}}", "{order: '-_creation_time'}") == [2, 2]
    assert totals("{total: {in: [1, 3, true]}}") == [3, 1]
    assert totals("{status: {gt: 'd'}, missing: null}") == [3, 1, 2]
    assert totals("{total: '2'}") == []


def test_a_script_sees_its_own_writes(world: World, shop: Shop) -> None:
    shop.app.scripts.tables("orders", write=["orders"])
    order = world.call(shop.order, "open", 1)

    source = f"""
    const id = await ctx.db.insert('orders', {{status: 'open', total: 5}});
    await ctx.db.update('{order}', {{total: 7}});
    const sums = (await ctx.db.query('orders', {{status: 'open'}})).map(o => o.total);
    await ctx.db.delete('{order}');
    return [sums, await ctx.db.get('{order}'), (await ctx.db.get(id)).total, await ctx.crm.count('open'),
            await ctx.kv.set('a', {{b: 1}}), await ctx.kv.get('a'), await ctx.kv.delete('a'), await ctx.kv.get('a')];
    """
    assert result_of(shop, source) == [[7, 5], None, 5, 1, None, {"b": 1}, None, None]


def test_no_argument_reaches_another_tenant(world: World, shop: Shop) -> None:
    foreign = world.tenant("acme").call(shop.order, "open", 9)
    shop.app.tenant("acme").environment.store.write(
        lambda tx: tx.put_script_value("k", "1", tenant="acme", now=0)  # type: ignore[arg-type]
    )
    shop.app.scripts.tables("orders", write=["orders"])

    source = f"""
    ctx.tenant.id = 'acme'; Object.prototype.tenant = 'acme';
    const found = [await ctx.db.get('{foreign}'), await ctx.db.query('orders'), await ctx.kv.get('k'),
                   await ctx.crm.count('open')];
    try {{ await ctx.db.update('{foreign}', {{total: 0}}); }} catch (error) {{ found.push(error.code); }}
    return found;
    """
    assert result_of(shop, source.replace("ctx.tenant.id = 'acme';", "try { ctx.tenant.id = 'acme' } catch {}")) == [
        None, [], None, 0, "document_not_found",
    ]  # fmt: skip


def test_times_are_those_of_the_zone(world: World, shop: Shop) -> None:
    source = """
    const t = Date.UTC(2026, 6, 1, 22, 30, 5);
    const p = ctx.time.parts(t, 'Europe/Berlin');
    return [ctx.time.format(t), ctx.time.format(t, 'Europe/Berlin'),
            ctx.time.format(t, 'Asia/Tokyo', 'DD.MM.YYYY HH:mm'),
            [p.year, p.month, p.day, p.hour, p.minute, p.second, p.weekday, p.offset]];
    """
    assert result_of(shop, source) == [
        "2026-07-01T22:30:05+00:00",
        "2026-07-02T00:30:05+02:00",
        "02.07.2026 07:30",
        [2026, 7, 2, 0, 30, 5, 4, 7200],
    ]
    assert result_of(shop, "try { ctx.time.format(0, 'Mars/Base') } catch (e) { return e.code }") == "invalid_spec"


def test_a_script_starts_others_with_its_commit(world: World, shop: Shop) -> None:
    shop.publish("return ctx.input", "later")
    shop.publish(
        "await ctx.schedule({script: 'later', in: 60, input: {a: 1}});"
        "await ctx.schedule({script: 'later', at: ctx.run.startedAt + 120e3})"
    )
    shop.app.scripts.start("script")
    world.advance(61)
    assert [job.result for job in world.jobs("evertick.script")] == [None, {"a": 1}, None]
    assert [job.state for job in world.jobs("evertick.script")][2] == "pending"
    world.advance(60)
    assert not world.pending()


def test_actions_of_the_developer_act_at_once_for_the_tenant(world: World, shop: Shop) -> None:
    shop.publish("await ctx.crm.send('hi'); throw new Error('later')", tenant="acme")
    shop.app.tenant("acme").scripts.start("script")
    world.advance(1)
    assert shop.sent == ["acme: hi"]


def test_work_that_a_script_does_not_wait_for_is_done_before_its_end(world: World, shop: Shop) -> None:
    for number in range(3):
        shop.app.call(shop.order, "open", number)
    shop.publish("""
const all = await ctx.db.query('orders');
all.forEach(async order => {
  if (await ctx.kv.get(order._id)) return;
  await ctx.db.insert('outbox', {of: order._id});
  await ctx.kv.get('x');
  await ctx.kv.get('y');
  await ctx.kv.set(order._id, 1);
});
return all.length;
""")
    for _ in range(2):
        shop.app.scripts.start("script")
        world.advance(1)

    assert {run.outcome for run in shop.app.scripts.runs()} == {"ok"}
    assert len(shop.app.db.query("outbox").collect()) == 3  # the second run found the marks of the first


@pytest.mark.parametrize(
    ("lost", "line"),
    [
        ("ctx.db.insert('nosuch', {a: 1});", 2),
        ("ctx.kv.set('k', 1); ctx.notify(5);", 2),
        ("const failed = ctx.db.insert('nosuch', {});\n[1].forEach(n => ctx.db.insert('nosuch', {n}));", 2),
    ],
)
def test_a_failed_call_that_nothing_waits_for_ends_the_run(world: World, shop: Shop, lost: str, line: int) -> None:
    shop.publish(f"{lost}\nreturn 'fine'")

    ended = shop.app.scripts.test("script")

    assert ended.outcome == "error"
    assert ended.error is not None
    assert ended.error.line == line


@pytest.mark.parametrize(
    "caught",
    [
        "try { await ctx.db.insert('nosuch', {}) } catch (e) { return e.code }",
        "return await ctx.db.insert('nosuch', {}).catch(e => e.code)",
        "return await ctx.db.insert('nosuch', {}).then(() => 1, e => e.code)",
        "const [r] = await Promise.allSettled([ctx.db.insert('nosuch', {})]); return r.reason.code",
        "const p = ctx.db.insert('nosuch', {}); try { await Promise.all([p]) } catch (e) { return e.code }",
        "const f = async () => ctx.db.insert('nosuch', {}); try { await f() } catch (e) { return e.code }",
        "return await ctx.db.insert('nosuch', {}).finally(() => {}).catch(e => e.code)",
    ],
)
def test_a_failed_call_that_is_caught_is_no_error_of_the_run(world: World, shop: Shop, caught: str) -> None:
    shop.publish(caught)

    ended = shop.app.scripts.test("script")

    assert (ended.outcome, ended.result) == ("ok", "table_not_found"), ended.error
