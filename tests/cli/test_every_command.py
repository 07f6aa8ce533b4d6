"""Every command of the command line: its good path, its JSON, and wrong input. What each does is tested elsewhere."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import click
import pytest

from evertick import App, MutationCtx, Step, every
from evertick.base.ids import WorkerId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.jobs import Worker
from evertick.cli.root import root
from tests.cli.desk import Command, work_off


@dataclass(frozen=True)
class Row:
    """A command. In its words PENDING, FAILED and DONE are ids of jobs, RUN, PAUSED and ENDED those of runs."""

    words: str
    """A call that works; empty without options, and where `elsewhere` tests a process."""
    wrong: str
    """A call that is refused."""
    code: int
    says: str
    """What its last line on stderr contains."""
    keys: tuple[str, ...] = ()
    """Keys of what it writes as JSON, or of the first of several; empty for a command without JSON."""
    elsewhere: str = ""
    """A module of tests and a test of the good path."""


HOURLY = "--interval 1h --function shop.bill"
NO_FILE = "there is no file nowhere.py"
NO_SCRIPT = "no script 'none'"
SOURCE = "export default async (ctx) => { ctx.log('seen'); return ctx.input; }\n"
NO_JOB = "no job job_01a204c0744f0008f37b7db4c446"
CHILDREN = "test_the_children_of_a_run_are_listed"
STARTED = "test_a_run_is_started_signaled_and_waited_for"
TOKENS = "test_a_token_is_made_listed_replaced_and_revoked"
APPLIED = "test_the_difference_is_shown_field_by_field"
UNKNOWN = "job_01a204c0744f0008f37b7db4c446"

GATEWAY = "test_gateway:test_a_gateway_runs_and_is_checked"
FLEET = "test_gateway_commands:test_every_command_of_gateways_prints_what_is_described"
NO_GATEWAY = "no gateway 'none'"

ROWS = {
    "init": Row("made", "made --template large", 2, "large"),
    "dev": Row("", "nowhere.py", 2, NO_FILE, elsewhere="test_dev:test_a_change_of_the_code_is_taken_over"),
    "run": Row("", "nowhere.send", 2, "no nowhere.py", elsewhere="test_run:test_words_are_read_by_the_signature"),
    "gateway run": Row("", "--config none.toml", 2, "none.toml", elsewhere=GATEWAY),
    "gateway check": Row("", "ftp://x --token-file t", 2, "t", elsewhere=GATEWAY),
    "gateway list": Row("", "--fields nope", 2, "nope", elsewhere=FLEET),
    "gateway get": Row("", "none", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway join-token": Row("", "..", 2, "..", elsewhere=FLEET),
    "gateway rotate": Row("", "none", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway remove": Row("", "none", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway cron list": Row("", "none", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway cron get": Row("", "none k", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway cron add": Row("", "none k --every 1h --builtin b", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway cron update": Row("", "none k --every 1h --at x", 2, "give one", elsewhere=FLEET),
    "gateway cron run": Row("", "none k", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway cron runs": Row("", "none k", 3, NO_GATEWAY, elsewhere=FLEET),
    "gateway cron remove": Row("", "none k", 3, NO_GATEWAY, elsewhere=FLEET),
    "job list": Row("", "--state gone", 2, "gone", ("id", "state")),
    "job get": Row("FAILED", UNKNOWN, 3, NO_JOB, ("id", "state", "args")),
    "job cancel": Row("PENDING", UNKNOWN, 3, NO_JOB, ("job_id", "still_runs")),
    "job stop": Row("PENDING", UNKNOWN, 3, NO_JOB, ("job_id", "still_runs")),
    "job cancel-all": Row("--function shop.bill --yes", "--function shop.bil --yes", 3, "shop.bil", ("count",)),
    "job attempts": Row("DONE", UNKNOWN, 3, NO_JOB, ("attempt", "outcome")),
    "job counts": Row("", "-o yaml", 2, "yaml", ("function", "pending")),
    "job logs": Row("DONE", UNKNOWN, 3, NO_JOB, ("level", "message")),
    "job retry": Row("FAILED", UNKNOWN, 3, NO_JOB, ("job_id", "retried_as")),
    "job run-now": Row("PENDING", UNKNOWN, 3, NO_JOB, ("job_id",)),
    "job reschedule": Row("PENDING --at tomorrow", "PENDING --at soon", 2, "soon", ("job_id",)),
    "logs": Row("--request DONE", "--level loud", 2, "loud", ("id", "function", "message")),
    "schedule create": Row(f"new {HOURLY}", "new --interval never --function x", 2, "never", ("id", "sentence")),
    "schedule list": Row("", "-q state:gone", 2, "gone", ("id", "state")),
    "schedule describe": Row("s", "none", 3, "none", ("id", "policies")),
    "schedule get": Row("s", "none", 3, "none", ("id", "policies")),
    "schedule update": Row("s --interval 2h", "none --interval 2h", 3, "none", ("id",)),
    "schedule edit": Row("", "none --yes", 3, "none", elsewhere="test_schedule_edit:test_what_is_edited_is_applied"),
    "schedule toggle": Row("s --pause --reason rest", "none --pause --reason rest", 3, "none", ("id", "state")),
    "schedule pause": Row("s --reason rest", "none --reason rest", 3, "none", ("id", "state")),
    "schedule resume": Row("s", "none", 3, "none", ("id", "next")),
    "schedule trigger": Row("s", "none", 3, "none", ("reason",)),
    "schedule backfill": Row(
        "s --start-time now-3h --end-time now", "s --start-time soon --end-time now", 2, "soon", ("asked",)
    ),
    "backfill list": Row("s", "none", 3, "none", ("id", "schedule", "times")),
    "backfill get": Row("s BACKFILL", "s none", 3, "no backfill 'none'", ("id", "done")),
    "backfill watch": Row("s BACKFILL", "s none", 3, "no backfill 'none'", ("id", "done")),
    "backfill stop": Row("s BACKFILL", "s none", 3, "no backfill 'none'", ("id", "done")),
    "schedule delete": Row("s --yes", "none --yes", 3, "none", ("id",)),
    "schedule preview": Row("--interval 1h", "--cron nonsense", 2, "nonsense", ("times",)),
    "schedule explain": Row("s --at now-90m", "s --at soon", 2, "soon", ("sentence",)),
    "schedule audit": Row("s", "none", 3, "none", ("clean",)),
    "schedule occurrences": Row("s", "none", 3, "none", ("nominal", "fate")),
    "schedule history": Row("s", "none", 3, "none", ("action", "actor")),
    "schedule export": Row("s", "none", 3, "none", ("schedules",)),
    "schedule apply": Row("", "none.yaml", 2, "none.yaml", elsewhere=f"test_schedule_files:{APPLIED}"),
    "cron list": Row("", "-q state:gone", 2, "gone", ("id", "kind")),
    "cron get": Row("c", "none", 3, "none", ("id", "kind")),
    "cron trigger": Row("c", "none", 3, "none", ("reason",)),
    "cron pause": Row("c --reason rest", "none --reason rest", 3, "none", ("id", "state")),
    "cron resume": Row("c", "none", 3, "none", ("id", "next")),
    "workflow list": Row("", "--state gone", 2, "gone", ("id", "state")),
    "workflow start": Row("", "nowhere.flow", 2, "no nowhere.py", elsewhere=f"test_workflow:{STARTED}"),
    "workflow get": Row("RUN", "none", 3, "no run 'none'", ("id", "progress")),
    "workflow children": Row("", "none", 3, "no run 'none'", elsewhere=f"test_workflow:{CHILDREN}"),
    "workflow wait": Row("ENDED", "none", 3, "no run 'none'", ("id", "result")),
    "workflow signal": Row("RUN go", "ENDED go", 5, "has ended (success)", ("run", "event", "awaited")),
    "workflow withdraw": Row("RUN left", "ENDED left", 3, "no event 'left' waits for run", ("name", "value")),
    "workflow cancel": Row("RUN", "ENDED", 5, "has ended already", ("id", "state")),
    "workflow terminate": Row("RUN", "ENDED", 5, "has ended already", ("id", "state")),
    "workflow pause": Row("RUN", "ENDED", 5, "has ended already", ("id", "state")),
    "workflow resume": Row("PAUSED", "RUN", 5, "is pending", ("id", "state")),
    "workflow restart": Row("ENDED", "ENDED --step none", 2, "a step 'none'", ("id", "state")),
    "workflow type list": Row("", "--fields nope", 2, "nope", ("name", "status")),
    "workflow type get": Row("shop.flow", "shop.flwo", 3, "'shop.flwo'", ("name", "status")),
    "workflow type pause": Row("shop.flow", "shop.bill", 2, "is a mutation, not a workflow", ("name", "status")),
    "workflow type resume": Row("shop.flow", "shop.flwo", 3, "'shop.flwo'", ("name", "status")),
    "workflow type deprecate": Row("shop.flow", "shop.flwo", 3, "'shop.flwo'", ("name", "status")),
    "workflow type delete": Row("shop.flow", "shop.flwo", 3, "'shop.flwo'", ("name", "status")),
    "workflow history": Row("ENDED", "none", 3, "no run 'none'", ("id", "events")),
    "script list": Row("", "--fields nope", 2, "nope", ("name", "published")),
    "script create": Row("new SOURCE", "new SOURCE --language perl", 2, "perl", ("name", "revision")),
    "script edit": Row("echo SOURCE", "none SOURCE", 3, NO_SCRIPT, ("name", "is_changed")),
    "script test": Row("echo --input 1", "none", 3, NO_SCRIPT, ("outcome", "staged")),
    "script publish": Row("echo", "none", 3, NO_SCRIPT, ("version", "sha256")),
    "script rollback": Row("echo 1", "echo 9", 3, "no version 9", ("version", "sha256")),
    "script run": Row("echo", "none", 3, NO_SCRIPT, ("job_id", "due_at")),
    "script get": Row("echo", "none", 3, NO_SCRIPT, ("name", "source")),
    "script versions": Row("echo", "none", 3, NO_SCRIPT, ("version", "sha256")),
    "script runs": Row("echo", "none", 3, NO_SCRIPT, ("outcome", "cpu_ms")),
    "script logs": Row("echo", "none", 3, NO_SCRIPT, ("job_id", "message")),
    "script limits": Row("cpu_ms=900", "cpu_ms=fast", 2, "cpu_ms", ("limits", "own")),
    "script delete": Row("echo", "none", 3, NO_SCRIPT, ("name",)),
    "data tables": Row("", "--fields nope", 2, "nope", ("table", "documents")),
    "data list": Row("bills --where card=ada", "bills --where n=7", 2, "no index of table 'bills'", ("id", "fields")),
    "data get": Row("BILL", "bills_7", 2, "not an id of a document", ("id", "fields")),
    "tenant list": Row("", "--fields nope", 2, "nope", ("tenant",)),
    "tenant get": Row("acme", "", 2, "Missing argument", ("tenant",)),
    "tenant set": Row("acme --jobs 5", "acme --jobs many", 2, "many", ("tenant",)),
    "pool list": Row("", "--fields nope", 2, "nope", ("pool", "ready")),
    "pool get": Row("mail", "a/b", 2, "a pool's name", ("pool", "limits")),
    "pool set": Row("mail --running 5", "mail --running many", 2, "many", ("pool", "limits")),
    "pool pause": Row("mail", "", 2, "Missing argument", ("pool",)),
    "pool resume": Row("mail", "", 2, "Missing argument", ("pool",)),
    "pool delete": Row("calls", "none", 3, "has no settings", ("pool", "limits")),
    "worker run": Row("", "nowhere.py", 2, NO_FILE, elsewhere="test_worker:test_it_runs_jobs_and_logs_json"),
    "worker list": Row("", "--fields nope", 2, "nope", ("id", "alive")),
    "serve": Row("", "nowhere.py", 2, NO_FILE, elsewhere="test_serve:test_it_serves_runs_jobs_and_ends_cleanly"),
    "mcp": Row("", "--tools all", 2, "unknown subject 'all'", elsewhere="test_mcp:test_a_process_works_on_a_database"),
    "open": Row("", "schedule", 2, "which server?", elsewhere="test_schedule_edit:test_pages_of_a_server_are_opened"),
    "api": Row("", "GET jobs", 2, "which server?", elsewhere="test_connections:test_requests_are_sent_as_they_are"),
    "token create": Row("me --scope edit", "me --scope root", 2, "root", ("secret", "scope")),
    "token list": Row("", "--fields nope", 2, "nope", elsewhere=f"test_token:{TOKENS}"),
    "token revoke": Row("", "none", 3, "no token 'none'", elsewhere=f"test_token:{TOKENS}"),
    "token rotate": Row("", "none", 3, "no token 'none'", elsewhere=f"test_token:{TOKENS}"),
    "status": Row("", "-o yaml", 2, "yaml", ("queues", "workers")),
    "doctor": Row("", "nowhere.py", 2, NO_FILE, elsewhere="test_doctor:test_code_that_fits_is_told_so"),
    "backup": Row("copy.db", "copy.db --db nonsense", 2, "nonsense", ("file", "bytes")),
    "copy": Row("sqlite:///moved.db", "sqlite:///moved.db --db nonsense", 2, "nonsense", ("source", "rows")),
    "migrate": Row("--db sqlite:///new.db", "--db nonsense", 2, "nonsense", ("steps",)),
    "version": Row("", "-o yaml", 2, "yaml", ("evertick",)),
    "completion": Row("bash", "csh", 2, "csh"),
}  # fmt: skip


def leaves(command: click.Command, path: str, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(ctx):
        inner = command.get_command(ctx, name)
        assert inner is not None
        yield from leaves(inner, f"{path} {name}".strip(), ctx)


LEAVES = dict(leaves(root, "", click.Context(root)))


def shop(app: App | None = None) -> App:
    """An app whose functions the commands call."""
    app = app or App("shop")
    app.table("bills", indexes={"by_card": ["card"]})

    @app.mutation(name="shop.bill")
    def bill(ctx: MutationCtx, fails: bool = False) -> None:
        ctx.log.info("billing")
        if fails:
            raise ValueError("no card")

    @app.workflow(name="shop.flow")
    async def flow(step: Step) -> str:
        return "done"

    @app.workflow(name="shop.old")
    async def old(step: Step) -> None: ...

    app.crons.add("c", every(hours=1), bill)
    app.scripts.tables("bills")
    return app


@pytest.fixture(scope="session")
def shop_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A database with jobs in several states, a schedule and a cron that have run, and a tenant with a limit."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    app = App("shop", database_url=f"sqlite:///{path}")
    shop(app)
    bill, flow, old = (app.functions.resolve(f"shop.{name}") for name in ("bill", "flow", "old"))
    app.schedules.create("s", when=every(hours=1), do=bill)
    app.schedules.trigger("s")
    done, failed = app.scheduler.run_after(0, bill), app.scheduler.run_after(0, bill, fails=True)
    bill_id = app.db.insert("bills", {"card": "ada", "amount": Decimal("12.30")})
    app.tenants.set("acme", jobs=10)
    app.pools.set("calls", running=1)
    ended = app.workflows.start(flow)
    made = app.environment.clock.now() - 60_000
    backfill = app.schedules.backfill("s", to_datetime(Instant(made)), to_datetime(Instant(made + 1)))
    app.scripts.create("echo", SOURCE, language="javascript")
    app.scripts.publish("echo")
    app.scripts.start("echo", 7)
    work_off(app, 6)
    source = path.with_name("script.js")
    source.write_text(SOURCE)
    run, paused = app.workflows.start(flow), app.workflows.start(flow)
    app.workflows.pause(paused)
    app.workflows.signal(run, "left", {"by": "mail"})
    app.workflows.types.deprecate(old)
    pending = app.scheduler.run_after(3600, bill)
    worker = Worker(WorkerId("worker_1"), Instant(0), Instant(0), "host", 1)
    app.environment.store.write(lambda transaction: transaction.register_worker(worker))
    token = app.tokens.create("ci")
    app.close()
    return path, {"PENDING": pending, "FAILED": failed, "DONE": done, "RUN": run, "ENDED": ended, "PAUSED": paused} | {
        "BACKFILL": backfill.id,
        "TOKEN": token.id,
        "BILL": bill_id,
        "SOURCE": str(source),
    }


@pytest.fixture
def ids(shop_file: tuple[Path, dict[str, str]], command: Command) -> dict[str, str]:
    """The same where commands in this folder look for it, and the ids of what is in it."""
    path, ids = shop_file
    Path(".evertick").mkdir()
    shutil.copy(path, ".evertick/shop.db")
    return ids


def test_every_command_has_a_row_or_a_test_of_its_own() -> None:
    assert set(ROWS) <= set(LEAVES)
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    for name in set(LEAVES) - set(ROWS):
        call = ", ".join(f'"{word}"' for word in name.split())
        assert any(call in text for text in texts), f"nothing in this folder calls `evertick {name}`"


@pytest.mark.parametrize("name", ROWS)
def test_a_good_call_its_json_and_a_wrong_one(name: str, ids: dict[str, str], command: Command) -> None:
    row = ROWS[name]

    def called(words: str, *more: str) -> tuple[int, str, str]:
        done = command(*name.split(), *(ids.get(word, word) for word in words.split()), *more)
        return done.code, done.out, done.err

    code, out, err = called(row.wrong)
    assert (code, out) == (row.code, "")
    assert err.splitlines()[-1].startswith("error: ")
    assert row.says in err.splitlines()[-1]
    if row.elsewhere:
        module, _, test = row.elsewhere.partition(":")
        assert callable(getattr(import_module(f"tests.cli.{module}"), test))
        return
    has_json = any("json" in getattr(each.type, "choices", ()) for each in LEAVES[name].params)
    assert has_json is bool(row.keys)
    if not has_json:
        assert called(row.words)[0] == 0
        return
    code, out, err = called(row.words, "-o", "json")
    assert code == 0, err
    data = json.loads(out)
    assert set(row.keys) <= set(data[0] if isinstance(data, list) else data)
