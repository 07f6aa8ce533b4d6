"""Function references are typed: a wrong argument is a type error where it is written."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

from evertick.cli.init import command as init
from evertick.cli.init.command import KINDS

TEMPLATES = Path(init.__file__).parent / "templates"

PROGRAM = """
import sqlite3
from datetime import UTC, datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from evertick import ActionCtx, App, JobId, JobResult, MutationCtx, QueryCtx, Retry, Step, SyncActionCtx, every
from evertick.client import AsyncClient, Client
from evertick.testing import World

app = App("typed")


@app.mutation
def send(ctx: MutationCtx, body: str, *, author: str = "ada") -> str:
    ctx.scheduler.run_after(5, destruct, body)
    ctx.scheduler.run_after(timedelta(seconds=5), send, body, author="bob")
    ctx.scheduler.run_at(datetime.now(UTC), act, 1)
    ctx.scheduler.run_after(5, destruct, 5)  # E: call-overload
    ctx.scheduler.run_after(5, destruct)  # E: call-overload
    ctx.scheduler.run_after(5, destruct, body, 1)  # E: call-overload
    ctx.scheduler.run_after(5, send, body, auhtor="x")  # E: call-arg
    ctx.scheduler.run_after("5", destruct, body)  # E: call-overload
    ctx.scheduler.run_at("tomorrow", destruct, body)  # E: call-overload
    ctx.run_mutation(destruct, 5)  # E: call-overload
    ctx.run_mutation(count)  # E: call-overload
    n: int = ctx.run_query(count)
    text: str = ctx.run_query(count)  # E: assignment
    return f"{n}{text}"


@app.mutation(internal=True, timeout=2.5)
def destruct(ctx: MutationCtx, message_id: str) -> None:
    ctx.db.delete(message_id)


@app.query
def count(ctx: QueryCtx) -> int:
    ctx.db.insert("t", {})  # E: attr-defined
    ctx.scheduler  # E: attr-defined
    return 1


@app.action
async def act(ctx: ActionCtx, n: int) -> float:
    text: str = await ctx.run_mutation(send, "x")
    job_id: JobId = await ctx.scheduler.run_after(1, destruct, text)
    await ctx.scheduler.cancel(job_id)
    await ctx.scheduler.run_after(1, destruct, n)  # E: call-overload
    await ctx.run_mutation(send, 5)  # E: call-overload
    ctx.db  # E: attr-defined
    return n + await ctx.run_action(act, 1)


@app.action(timeout=timedelta(minutes=1))
def plain(ctx: SyncActionCtx, n: int) -> int:
    ctx.run_mutation(destruct, "x")
    ctx.run_mutation(destruct, n)  # E: call-overload
    return ctx.run_query(count)


@app.mutation
def done(ctx: MutationCtx, job_id: JobId, context: int, result: JobResult) -> None: ...


@app.workflow
async def order(step: Step, item: str) -> int:
    number: int = await step.run(count)
    text: str = await step.using(retry=Retry(3)).run(send, "x", author="bob")
    half: float = await step.run(act, 1)
    third: int = await step.run(plain, n=2)
    number = await step.workflow(order, item)
    number = await step.run(send, "x")  # E: arg-type
    text = await step.workflow(order, item)  # E: arg-type
    await step.run(send, 5)  # E: arg-type
    await step.run(send)  # E: call-arg
    await step.run(send, "x", auhtor="bob")  # E: call-arg
    await step.run(order, item)  # E: arg-type
    await step.workflow(send, "x")  # E: arg-type
    await step.workflow(count)  # E: arg-type
    await step.workflow(act, 1)  # E: arg-type
    await step.workflow(order, 5)  # E: arg-type
    step.using(retry=3)  # E: arg-type
    return number + len(text) + round(half) + third


async def awaited(session: AsyncSession, connection: AsyncConnection) -> None:
    job_id: JobId = await app.bind(session).run_after(1, send, "hello")
    ids: list[JobId] = await app.tenant("acme").bind(connection).run_after_many(1, [send.with_args("a")])
    app.bind(session).run_after(1, send, "x").upper()  # E: attr-defined
    await app.bind(session).using(key="k").run_after(1, send, 5)  # E: call-overload
    await app.bind(connection).cancel(ids[0] or job_id)
    once: str = await app.tenant("acme").aio.call_once("key", send, "hello")
    await app.aio.call_once(once, count)  # E: arg-type
    await app.tenant("acme").aio.tenants.get("acme")  # E: attr-defined


def program(world: World) -> None:
    text: str = app.call(send, "hello", author="bob")
    number: int = app.call(plain, 1)
    wrong: int = app.call(send, "hello")  # E: assignment
    app.call(send, 5)  # E: call-overload
    app.call(send)  # E: call-overload
    app.scheduler.using(retry=Retry(3, first=0.5), on_complete=done, context=1).run_after(1, send, text)
    app.scheduler.using(retry=3).run_after(1, send, text)  # E: arg-type
    app.scheduler.run_after_many(1, [send.with_args("a"), destruct.with_args("b")])
    app.scheduler.run_after_many(1, [send.with_args(number)])  # E: arg-type
    app.bind(object()).run_after(1, send, wrong)  # E: call-overload
    app.bind(sqlite3.connect("x")).run_after(1, send, text).upper()
    again: str = app.call_once("key", send, "hello")
    app.call_once("key", count)  # E: arg-type
    app.scheduler.run_after(1, "app.send", "hello", author="bob")
    app.scheduler.run_at(datetime.now(UTC), "app.send", body="hello")
    app.crons.add("by name", every(minutes=1), "app.send", "hello")
    app.crons.add("by reference", every(minutes=1), send, 5)  # E: call-overload
    answer: float = world.call(act, 1)
    assert world.query("t")[0]["answer"] == answer
    world.call(act, "x")  # E: arg-type
    print(again, answer)


def remote(client: Client) -> None:
    job_id: JobId = client.scheduler.run_after(3600, "app.order", item="tea")
    client.scheduler.run_at(datetime.now(UTC), "app.order", item="tea")
    client.scheduler.using(key="tea").run_after(3600, send, "hello", author="bob")
    client.scheduler.run_after(3600, send, 5)  # E: call-overload
    client.scheduler.run_after(3600, "app.order", "tea")  # E: call-overload
    number: int = client.call("app.order", item="tea")
    number = client.call_once("key", "app.order", item="tea")
    text: str = client.call(send, "hello")
    text = client.call_once("key", send, "hello", author="bob")
    number = client.call(send, "hello")  # E: assignment
    client.call(send, 5)  # E: call-overload
    client.call_once("key", count)  # E: call-overload
    client.workflows.start("app.onboard", user="ada")
    print(job_id, number, text)


async def awaited_remote(client: AsyncClient) -> None:
    job_id: JobId = await client.scheduler.run_after(3600, "app.order", item="tea")
    await client.scheduler.run_at(datetime.now(UTC), send, "hello")
    number: int = await client.call("app.order", item="tea")
    number = await client.call_once("key", "app.order", item="tea")
    text: str = await client.call(send, "hello")
    await client.call(send, 5)  # E: call-overload
    await client.workflows.start("app.onboard", user="ada")
    print(job_id, number, text, len(await client.call(send, "hello")), len(await app.aio.call(send, "hello")))
"""


WANTED = {
    number: found.group(1)
    for number, line in enumerate(PROGRAM.splitlines(), start=1)
    if (found := re.search(r"# E: ([a-z-]+)", line))
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program in a file."""
    assert len(WANTED) > 25
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


OPTIONS = ["--strict", "--no-error-summary", "--hide-error-context", "--no-pretty"]


@pytest.mark.long
def test_mypy_accepts_right_calls_and_refuses_wrong_ones(program: Path) -> None:
    # In the cache of `make types`, which has looked at all that the program imports.
    output, errors, _ = api.run([*OPTIONS, str(program)])

    assert errors == ""
    complaints = re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]", output)
    assert {int(number): code for number, code in complaints} == WANTED, output


@pytest.mark.long
@pytest.mark.parametrize("template", KINDS)
def test_mypy_accepts_new_projects(tmp_path: Path, template: str) -> None:
    for name in ("app.py", "test_app.py"):
        text = (TEMPLATES / template / f"{name}.txt").read_text()
        (tmp_path / name).write_text(text.replace("$name", "shop"))
    output, errors, code = api.run([*OPTIONS, str(tmp_path / "app.py"), str(tmp_path / "test_app.py")])

    assert (output, errors, code) == ("", "", 0)


@pytest.mark.long
def test_so_does_pyright(program: Path) -> None:
    """In its strict mode, as basedpyright, which brings all that it needs as a wheel."""
    (program.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, program.name]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=120, check=False)

    complaints = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    assert {each["range"]["start"]["line"] + 1 for each in complaints} == set(WANTED), complaints
