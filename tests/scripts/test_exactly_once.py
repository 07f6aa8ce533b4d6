"""A run happens once: what it writes is there with its end or not at all, whatever dies, conflicts or is away."""

from evertick import App, MutationCtx, SyncActionCtx
from evertick.functions import JobState
from evertick.testing import World
from tests.scripts.conftest import Shop

CLOSES = """
const [order] = await ctx.db.query('orders', {status: 'open'});
await ctx.db.insert('outbox', {attempt: ctx.run.attempt});
await ctx.kv.set('sum', (await ctx.kv.get('sum') ?? 0) + 1);
await ctx.crm.close(order._id);
"""


def rows(app: App, table: str = "outbox") -> int:
    return len(app.db.query(table).collect())


def test_a_run_whose_instance_dies_before_its_commit_has_not_happened(world: World, shop: Shop) -> None:
    world.call(shop.order, "open")
    shop.publish(CLOSES)
    world._faults.crash(shop.app.scripts.settings.functions["crm.close"].function, 2)

    job_id = shop.app.scripts.start("script")
    for _ in range(2):
        world.advance(1)
        assert rows(shop.app) == 0
        world.restart()
    world.advance(100_000)  # a suspect waits until a worker of the world looks for one, once a day

    assert world.job(job_id).state is JobState.SUCCESS
    assert [each["attempt"] for each in shop.app.db.query("outbox").collect()] == [1]
    [run] = shop.app.scripts.run(job_id)
    assert (run.attempt, run.deaths, run.outcome) == (3, 2, "ok")
    assert [each.outcome for each in shop.app.jobs.attempts(job_id)] == ["lost", "lost", "success"]


def test_a_script_runs_again_if_what_it_changes_was_changed_meanwhile(world: World, shop: Shop) -> None:
    order = world.call(shop.order, "open", 1)
    shop.app.scripts.tables("orders", write=["orders"])
    changes = [2]

    @shop.app.scripts.host("interfere")
    def interfere(ctx: SyncActionCtx) -> None:
        if changes:
            ctx.run_mutation(set_total, order, changes.pop())

    @shop.app.mutation(name="set_total")
    def set_total(ctx: MutationCtx, document_id: str, total: int) -> None:
        ctx.db.patch(document_id, {"total": total})

    shop.publish(
        "const [o] = await ctx.db.query('orders'); await ctx.interfere();"
        "await ctx.db.update(o._id, {total: o.total * 10}); return o.total"
    )
    job_id = shop.app.scripts.start("script")
    world.advance(1)

    found = world.get(order)
    assert (world.job(job_id).result, found and found["total"]) == (2, 20)

    changes[:] = [5, 6, 7, 8]
    job_id = shop.app.scripts.start("script")
    world.advance(1)
    assert world.job(job_id).error == (
        "WriteConflict: documents or values that the script read were changed before its end, in each of 3 tries"
    )
    [run] = shop.app.scripts.run(job_id)
    assert (run.outcome, run.staged, changes) == ("error", 0, [5])


def test_values_are_checked_as_documents_are(world: World, shop: Shop) -> None:
    values = [1]

    @shop.app.scripts.host("interfere")
    def interfere(ctx: SyncActionCtx) -> None:
        if values:
            text = str(values.pop())
            shop.app.environment.store.write(
                lambda tx: tx.put_script_value("n", text, tenant=ctx.tenant, now=0)  # type: ignore[arg-type]
            )

    shop.publish("const n = await ctx.kv.get('n') ?? 0; await ctx.interfere(); await ctx.kv.set('n', n + 10); return n")
    job_id = shop.app.scripts.start("script")
    world.advance(1)

    assert world.job(job_id).result == 1


def test_a_canceled_run_writes_nothing(world: World, shop: Shop) -> None:
    world.call(shop.order, "open")

    @shop.app.scripts.host("stop")
    def stop(ctx: SyncActionCtx) -> None:
        assert ctx.job_id is not None
        shop.app.jobs.cancel(ctx.job_id)

    shop.publish(CLOSES + "await ctx.stop();")
    job_id = shop.app.scripts.start("script")
    world.advance(1)

    assert (world.job(job_id).state, rows(shop.app)) == (JobState.CANCELED, 0)


def test_a_run_is_repeated_when_the_database_was_away_at_its_end(world: World, shop: Shop) -> None:
    world.call(shop.order, "open")
    outages = [True]

    @shop.app.scripts.host("outage")
    def outage(ctx: SyncActionCtx) -> None:
        world._faults.database_is_down = bool(outages and outages.pop())

    for name, source in (("end", CLOSES + "await ctx.outage();"), ("begin", "await ctx.outage();" + CLOSES)):
        shop.publish(source, name)
        outages[:] = [True]
        before = rows(shop.app)
        job_id = shop.app.scripts.start(name)
        world.advance(1)
        world._faults.database_is_down = False
        world.advance(5)

        assert world.job(job_id).state is JobState.SUCCESS
        assert rows(shop.app) == before + 1
        world.call(shop.order, "open")


def test_a_mutation_that_fails_at_the_end_fails_the_run(world: World, shop: Shop) -> None:
    shop.publish("await ctx.db.insert('outbox', {}); await ctx.crm.close('orders_' + '0'.repeat(28)); return 1")
    job_id = shop.app.scripts.start("script")
    world.advance(1)

    assert world.job(job_id).error == (
        "DocumentNotFound: crm.close: patch of a document that does not exist: orders_0000000000000000000000000000 "
        "(line 2, column 72)"
    )
    assert rows(shop.app) == 0
    assert shop.app.scripts.test("script").error == shop.app.scripts.run(job_id)[0].error
