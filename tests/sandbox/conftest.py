"""What the tests of the sandbox share: one sandbox, and scripts around bodies of programs."""

from collections.abc import Iterator

import pytest

from evertick.sandbox import HostFunction, Kind, Language, Limits, Parameter, Sandbox, ScriptRun

FUNCTIONS = {
    "get": HostFunction(lambda call, key: key, (Parameter("key", Kind.TEXT),)),
    "insert": HostFunction(
        lambda call, table, row: None, (Parameter("table", Kind.TEXT), Parameter("row", Kind.OBJECT))
    ),
}
QUICK = Limits(cpu_ms=150, wall_ms=20_000)
"""Little processor time, and much patience: other tests run at the same time."""


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def javascript(body: str, run_id: str = "run", limits: Limits = QUICK) -> ScriptRun:
    """A run of a body of JavaScript with `api` and `ctx`."""
    api = "const api = {log: x => ctx.log(x), get: ctx.get, insert: ctx.insert, aget: ctx.get};"
    source = f"let with_; export default async function (ctx) {{ {api} {body}\n}}"
    return ScriptRun(run_id, Language.JAVASCRIPT, source, {"input": {}}, limits, FUNCTIONS)


def python(body: str, run_id: str = "run", limits: Limits = QUICK) -> ScriptRun:
    """A run of a body of Python with `get`, `insert` and `ctx`; its last expression is the result."""
    *lines, last = body.split("\n")
    if is_expression(last):
        last = f"return {last}"
    indented = "\n".join(f"  {line}" for line in (*lines, last))
    source = f"def main(ctx):\n  get = ctx.get\n  insert = ctx.insert\n{indented}\n"
    return ScriptRun(run_id, Language.PYTHON, source, {"input": {}}, limits, FUNCTIONS)


def is_expression(line: str) -> bool:
    """Whether a line of Python has a value."""
    try:
        compile(line, "line", "eval")
    except (SyntaxError, MemoryError):
        return False
    return True
