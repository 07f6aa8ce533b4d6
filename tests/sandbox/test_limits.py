"""Each limit of a run has its own outcome, and the supervisor enforces it."""

# ruff: noqa: E501 - scripts are as long as they are
import json
import threading
import time

import pytest

from evertick.base.errors import Misuse
from evertick.sandbox import (
    Ended,
    HostCall,
    HostError,
    HostFunction,
    Kind,
    Language,
    Level,
    Limits,
    Outcome,
    Parameter,
    Sandbox,
    ScriptRun,
    StopRun,
)
from tests.sandbox.conftest import javascript, python

PATIENT = Limits(cpu_ms=5_000, wall_ms=30_000)
LATE_MS = 600


def ended(sandbox: Sandbox, source: str, functions: dict[str, HostFunction], limits: Limits = PATIENT) -> Ended:
    return sandbox.run(ScriptRun("run", Language.JAVASCRIPT, source, {"input": {"n": 1}}, limits, functions))


def test_a_run_has_one_deadline_for_all_its_host_calls(sandbox: Sandbox) -> None:
    """Host calls in small pieces do not lengthen it."""
    function = HostFunction(lambda call: time.sleep(0.01))
    limits = PATIENT._replace(wall_ms=500, host_calls=100_000)

    end = ended(sandbox, "export default async ctx => { for (;;) await ctx.nap() }", {"nap": function}, limits)

    assert (end.outcome, end.limit) == (Outcome.TIMEOUT, "wall_ms")
    assert end.wall_ms <= 500 + LATE_MS


def test_a_host_function_that_hangs_does_not_hold_its_run(sandbox: Sandbox) -> None:
    """The run ends at its deadline, the function is told, and what it returns is dropped."""
    seen: list[HostCall] = []
    release = threading.Event()

    def hang(call: HostCall) -> str:
        seen.append(call)
        release.wait(60)
        return "late"

    limits = PATIENT._replace(wall_ms=500)
    end = ended(sandbox, "export default async ctx => await ctx.hang()", {"hang": HostFunction(hang)}, limits)
    release.set()

    assert (end.outcome, end.limit, end.result) == (Outcome.TIMEOUT, "wall_ms", None)
    assert end.wall_ms <= 500 + LATE_MS
    assert seen[0].cancelled and seen[0].remaining_ms() == 0
    assert sandbox.run(javascript("return 1")).result == "1"


def test_kill_ends_a_run_inside_of_a_host_function(sandbox: Sandbox) -> None:
    inside, release = threading.Event(), threading.Event()

    def hang(call: HostCall) -> None:
        inside.set()
        release.wait(60)

    ends: list[Ended] = []
    source = "export default async ctx => await ctx.hang()"
    run = ScriptRun("stuck", Language.JAVASCRIPT, source, {}, PATIENT, {"hang": HostFunction(hang)})
    thread = threading.Thread(target=lambda: ends.append(sandbox.run(run)))
    thread.start()
    assert inside.wait(30)

    assert sandbox.kill("stuck")

    thread.join(30)
    release.set()
    assert ends[0].outcome is Outcome.KILLED
    assert not sandbox.kill("stuck")


@pytest.mark.parametrize(("count", "outcome"), [(10, Outcome.OK), (11, Outcome.LIMIT)])
def test_host_calls_are_counted_by_the_supervisor(sandbox: Sandbox, count: int, outcome: Outcome) -> None:
    functions = {"a.one": HostFunction(lambda call: 1), "two": HostFunction(lambda call: 2, awaited=False)}
    source = f"export default async ctx => {{ for (let i = 1; i < {count}; i++) await ctx.a.one(); return ctx.two() }}"

    end = ended(sandbox, source, functions, PATIENT._replace(host_calls=10))

    assert end.outcome is outcome
    assert end.limit == (None if outcome is Outcome.OK else "host_calls")
    assert end.host_calls == {"a.one": count - 1, "two": 1}


@pytest.mark.parametrize(("size", "outcome"), [(98, Outcome.OK), (99, Outcome.OUTPUT)])
def test_the_size_of_a_result_is_counted_in_bytes(sandbox: Sandbox, size: int, outcome: Outcome) -> None:
    """`é` has two bytes; the quotes are part of the JSON."""
    body = f"return 'é'.repeat(49) + 'x'.repeat({size} - 98)"

    end = sandbox.run(javascript(body, limits=PATIENT._replace(result_bytes=100)))

    assert (end.outcome, end.limit) == (outcome, None if outcome is Outcome.OK else "result_bytes")


@pytest.mark.parametrize("run", [
    javascript("for (let i = 0; i < 1000; i++) console.log('é'.repeat(100)); return 1", limits=PATIENT._replace(log_bytes=10_000)),
    python("for i in range(1000): print('é' * 100)\nreturn 1", limits=PATIENT._replace(log_bytes=10_000)),
    python("for i in range(5000): ctx.log('é' * 100)\nreturn 1", limits=PATIENT._replace(log_bytes=10_000)),
    python("for i in range(300): print('é' * 9000)\nreturn 1", limits=PATIENT._replace(log_bytes=10_000)),
    python("for i in range(3): ctx.log('é' * 600_000)\nreturn 1", limits=PATIENT._replace(log_bytes=10_000)),
], ids=["javascript", "python", "python-calls", "python-large", "python-large-calls"])  # fmt: skip
def test_logs_are_cut_at_their_limit_and_the_run_goes_on(sandbox: Sandbox, run: ScriptRun) -> None:
    end = sandbox.run(run)

    assert (end.outcome, end.result, end.logs_cut) == (Outcome.OK, "1", True)
    assert 9_000 <= sum(len(line.text.encode()) + 16 for line in end.logs) <= 10_000


def test_a_long_line_is_cut(sandbox: Sandbox) -> None:
    end = sandbox.run(javascript("console.log('x'.repeat(9000)); return 1"))

    assert [len(line.text) for line in end.logs] == [4_096]
    assert end.logs_cut


@pytest.mark.parametrize("language", list(Language))
def test_a_source_that_is_too_large_is_refused_before_it_has_a_process(sandbox: Sandbox, language: Language) -> None:
    end = sandbox.run(ScriptRun("run", language, "é" * 600, {}, Limits(source_bytes=1_000)))

    assert (end.outcome, end.limit, end.cpu_ms) == (Outcome.LIMIT, "source_bytes", 0)
    assert end.error is not None and "1200 bytes" in end.error.message


def test_arguments_that_are_larger_than_they_look_are_measured_first(sandbox: Sandbox) -> None:
    body = "let o = [1]; for (let i = 0; i < 28; i++) o = [o, o]; await api.insert('t', {o})"

    end = sandbox.run(javascript(body, limits=PATIENT._replace(argument_bytes=10_000)))

    assert (end.outcome, end.limit) == (Outcome.LIMIT, "argument_bytes")


@pytest.mark.parametrize(("kind", "good", "bad"), [
    (Kind.TEXT, ["''", "'é'"], ["5", "null", "['a']"]),
    (Kind.INTEGER, ["5", "-0", "5.0"], ["5.5", "'5'", "true", "1e400"]),
    (Kind.NUMBER, ["5", "5.5"], ["'5'", "false", "NaN"]),
    (Kind.BOOLEAN, ["true"], ["1", "'true'"]),
    (Kind.LIST, ["[]", "[1]"], ["{}", "'[]'"]),
    (Kind.OBJECT, ["{}", "{a: 1}"], ["[]", "'{}'"]),
    (Kind.JSON, ["null", "[{}]", "'x'"], []),
])  # fmt: skip
def test_arguments_are_checked_before_a_function_is_called(
    sandbox: Sandbox, kind: Kind, good: list[str], bad: list[str]
) -> None:
    called: list[object] = []
    functions = {"f": HostFunction(lambda call, value: called.append(value), (Parameter("value", kind),))}
    tries = "".join(f"try {{ await ctx.f({text}) }} catch (e) {{ codes.push(e.code) }}" for text in good + bad)

    end = ended(sandbox, f"export default async ctx => {{ const codes = []; {tries} return codes }}", functions)

    assert len(called) == len(good)
    assert json.loads(end.result or "") == ["invalid_argument"] * len(bad)


def test_texts_of_arguments_have_sizes_and_the_last_ones_may_be_left_out(sandbox: Sandbox) -> None:
    parameters = Parameter("a", Kind.TEXT, max_bytes=4), Parameter("b", Kind.INTEGER, required=False)
    functions = {"f": HostFunction(lambda call, a, b: [a, b], parameters)}
    source = """export default async ctx => {
      const got = [await ctx.f('éé'), await ctx.f('x', 1)];
      for (const args of [['ééx'], [], ['a', 1, 2]]) try { got.push(await ctx.f(...args)) } catch (e) { got.push(e.message) }
      return got }"""

    end = ended(sandbox, source, functions)

    assert json.loads(end.result or "") == [
        ["éé", None], ["x", 1], "f: a has more than 4 bytes", "f: a is missing", "f: takes at most 2 arguments, not 3",
    ]  # fmt: skip


@pytest.mark.parametrize("language", list(Language))
def test_a_script_can_catch_a_host_error_and_not_a_stop(sandbox: Sandbox, language: Language) -> None:
    def fail(call: HostCall, how: str) -> None:
        if how == "stop":
            raise StopRun(Outcome.LIMIT, "rows", "the tenant has no rows left")
        raise HostError("no such table", "not_found") if how == "error" else ZeroDivisionError("secret")

    sources = {
        Language.JAVASCRIPT: """export default async ctx => { const got = [];
            for (const how of ['error', 'bug']) try { await ctx.fail(how) } catch (e) { got.push(`${e.code}: ${e.message}`) }
            console.log(JSON.stringify(got)); try { await ctx.fail('stop') } catch (e) {} return 1 }""",
        Language.PYTHON: """import json
def main(ctx):
  got = []
  for how in ('error', 'bug'):
    try:
      ctx.fail(how)
    except RuntimeError as e:
      got.append(str(e))
  print(json.dumps(got))
  try:
    ctx.fail('stop')
  except BaseException:
    pass
  return 1
""",
    }
    functions = {"fail": HostFunction(fail, (Parameter("how", Kind.TEXT),))}

    end = sandbox.run(ScriptRun("run", language, sources[language], {}, PATIENT, functions))

    assert (end.outcome, end.limit) == (Outcome.LIMIT, "rows")
    assert end.error is not None and end.error.message == "the tenant has no rows left"
    caught = json.loads(end.logs[0].text)
    assert caught == ["not_found: no such table", "internal: fail failed; the service's log says why"]


def test_a_result_of_a_host_function_that_is_too_large_or_no_json_is_an_error(sandbox: Sandbox) -> None:
    functions = {"large": HostFunction(lambda call: "x" * 2_000), "odd": HostFunction(lambda call: {1, 2})}
    source = """export default async ctx => { const got = [];
      for (const f of [ctx.large, ctx.odd]) try { await f() } catch (e) { got.push(e.code) }
      return got }"""

    end = ended(sandbox, source, functions, PATIENT._replace(argument_bytes=1_000))

    assert end.result == '["too_large","internal"]'


@pytest.mark.parametrize(("body", "error"), [
    ("\n  null.x", ("TypeError", 2, 3)),
    ("\n\n    throw new RangeError('far')", ("RangeError", 3, 15)),
    ("const f = () => { throw new Error('in') };\n f()", ("Error", 1, None)),
])  # fmt: skip
def test_errors_of_javascript_have_the_customers_own_lines(
    sandbox: Sandbox, body: str, error: tuple[str, int, int | None]
) -> None:
    source = f"export default async function (ctx) {{{body}\n}}"

    end = sandbox.run(ScriptRun("run", Language.JAVASCRIPT, source, {}, PATIENT))

    assert end.outcome is Outcome.ERROR and end.error is not None
    assert (end.error.name, end.error.line) == error[:2]
    assert error[2] in {None, end.error.column}
    assert "eval_script" not in end.error.stack


def test_errors_of_python_have_the_customers_own_lines(sandbox: Sandbox) -> None:
    source = "def f():\n  return [][3]\n\ndef main(ctx):\n  return f()\n"

    end = sandbox.run(ScriptRun("run", Language.PYTHON, source, {}, PATIENT))

    assert end.outcome is Outcome.ERROR and end.error is not None
    assert (end.error.name, end.error.line, end.error.column) == ("IndexError", 2, 10)
    assert "script.py:5" in end.error.stack and "script.py:2" in end.error.stack


@pytest.mark.parametrize(("language", "source", "fault"), [
    (Language.JAVASCRIPT, "export default async ctx => 1", None),
    (Language.JAVASCRIPT, "throw 1; export default 1", None),
    (Language.JAVASCRIPT, "export default 1;\nlet x y", ("SyntaxError", 2)),
    (Language.PYTHON, "import nosuch\nraise ValueError\ndef main(ctx): return 1", None),
    (Language.PYTHON, "async def main(ctx): return 1", None),
    (Language.PYTHON, "main = lambda ctx: 1", None),
    (Language.PYTHON, "if True:\n  def main ( ctx ): return 1", None),
    (Language.PYTHON, "main2 = 1\ndef domain(ctx): return main2", ("", None)),
    (Language.PYTHON, "def main(ctx):\n  return (1", ("SyntaxError", 2)),
    (Language.PYTHON, "def main(ctx):\n  yield 1", ("NotImplementedError", 2)),
])  # fmt: skip
def test_a_check_parses_and_executes_nothing(
    sandbox: Sandbox, language: Language, source: str, fault: tuple[str, int] | None
) -> None:
    found = sandbox.check(language, source)

    assert (found and (found.name, found.line)) == fault


@pytest.mark.parametrize("language", list(Language))
def test_a_check_has_limits(sandbox: Sandbox, language: Language) -> None:
    assert sandbox.check(language, "(" * 200_000) is not None
    assert sandbox.check(language, "x" * 300_000) is not None


@pytest.mark.parametrize("source", ["export const x = 1", "export default 5", "def main(): pass"])
def test_a_script_without_a_function_says_what_is_expected(sandbox: Sandbox, source: str) -> None:
    end = sandbox.run(ScriptRun("run", Language.JAVASCRIPT, source, {}, PATIENT))

    assert end.outcome is Outcome.ERROR and end.error is not None and end.error.message


def test_the_context_arrives_whole_and_ctx_is_made_from_the_functions(sandbox: Sandbox) -> None:
    context = {
        "input": {"a": [1, 2.5, None, "é\u2028", 2**60]},
        "run": {"id": "r1"},
        "tenant": {"id": "t", "__proto__": 1},
    }
    functions = {"db.get": HostFunction(lambda call: 1), "time.format": HostFunction(lambda call: "x", awaited=False)}
    js = "export default ctx => [ctx.input, ctx.run, ctx.tenant.id, Object.keys(ctx).sort(), ctx.time.format()]"
    py = "def main(ctx):\n  return [ctx.input, ctx.run, ctx.tenant['id'], ctx.db.get(), ctx.time.format()]"

    results = [
        sandbox.run(ScriptRun("run", language, source, context, PATIENT, functions)).result
        for language, source in ((Language.JAVASCRIPT, js), (Language.PYTHON, py))
    ]

    assert json.loads(results[0] or "")[1:] == [
        {"id": "r1"}, "t", ["db", "input", "log", "run", "tenant", "time"], "x",
    ]  # fmt: skip
    assert json.loads(results[0] or "")[0]["a"][:4] == [1, 2.5, None, "é\u2028"]
    assert json.loads(results[1] or "") == [context["input"], {"id": "r1"}, "t", 1, "x"]


@pytest.mark.parametrize("names", [["a-b"], ["a.b.c.d"], ["__proto__"], [""], ["log"], ["input.x"], ["a", "a.b"]])
def test_names_that_ctx_cannot_have_are_refused(sandbox: Sandbox, names: list[str]) -> None:
    functions = {name: HostFunction(lambda call: 1) for name in names}

    with pytest.raises(Misuse):
        ended(sandbox, "export default ctx => 1", functions)


@pytest.mark.parametrize("limits", [
    Limits(cpu_ms=0), Limits(cpu_ms=-50), Limits(wall_ms=0), Limits(memory_bytes=1 << 20), Limits(host_calls=-1),
])  # fmt: skip
def test_limits_that_are_none_are_refused(sandbox: Sandbox, limits: Limits) -> None:
    with pytest.raises(Misuse):
        sandbox.run(javascript("return 1", limits=limits))


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize("source", ["\0", "x\0y", "\ud800", "", "\ufeff", "\n" * 1_000])
def test_an_odd_source_is_an_error_of_the_script(sandbox: Sandbox, language: Language, source: str) -> None:
    end = sandbox.run(ScriptRun("run", language, source, {}, PATIENT))

    assert (end.outcome, end.limit) == (Outcome.ERROR, None)
    assert end.error is not None and end.error.message


def test_the_least_memory_is_enough_for_a_small_script(sandbox: Sandbox) -> None:
    for run in (javascript, python):
        assert sandbox.run(run("return 1", limits=PATIENT._replace(memory_bytes=4 << 20))).result == "1"


def test_every_end_has_its_figures(sandbox: Sandbox) -> None:
    end = sandbox.run(javascript("let n = 0; for (let i = 0; i < 1e5; i++) n += i; console.warn('w'); return n"))

    assert (end.outcome, end.isolation, end.engine) == (
        Outcome.OK,
        sandbox.isolation(Language.JAVASCRIPT).level,
        end.engine,
    )
    assert end.cpu_ms > 0 and end.wall_ms > 0 and end.max_rss_kb > 1_000 and end.engine.startswith("quickjs-ng")
    assert [(line.level, line.text) for line in end.logs] == [("warning", "w")]
    assert end.isolation is not Level.NONE


def test_many_runs_at_once_have_their_own_logs_and_results(sandbox: Sandbox) -> None:
    ends: dict[int, Ended] = {}

    def one(number: int) -> None:
        run = javascript if number % 2 else python
        body = f"console.log({number}); return {number}" if number % 2 else f"print({number})\nreturn {number}"
        ends[number] = sandbox.run(run(body, f"run-{number}", PATIENT))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert {number: (end.result, end.logs[0].text) for number, end in ends.items()} == {
        number: (str(number), str(number)) for number in range(12)
    }
