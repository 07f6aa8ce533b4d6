"""A child that was taken over can at worst end its own run: it sends what it wants, and the supervisor believes nothing.

Here the children of a zygote execute Python instead of an engine, behind the real walls.
"""

# ruff: noqa: E501 - frames are as long as they are
import json
from collections.abc import Iterator

import pytest

from evertick.sandbox import (
    HostFunction,
    Kind,
    Language,
    Limits,
    Outcome,
    Parameter,
    Sandbox,
    ScriptRun,
    frames,
    monty,
    pool,
)
from evertick.sandbox.protocol import LOG_LINE_BYTES

TAKEN_OVER = """
import gc, json, mmap, os, signal, struct
from evertick.sandbox import javascript
def serve(descriptor):
    channel = javascript.Channel(descriptor)
    job = json.loads(channel.receive()[1:])
    def frame(body): return struct.pack("<I", len(body)) + body
    def write(data):
        while data: data = data[os.write(0, data):]
    if "honest" in job["source"]: write(frame(b"R1"))
    else:
        try: exec(job["source"], {"frame": frame, "write": write, "os": os, "channel": channel, "struct": struct, "json": json})
        except Exception as error: write(frame(b"R" + json.dumps(repr(error)).encode()))
    os.read(0, 1)
    os._exit(0)
javascript.serve = serve
from evertick.sandbox.zygote import main
"""
LIMITS = Limits(cpu_ms=5_000, wall_ms=20_000, argument_bytes=2_000, result_bytes=1_000, log_bytes=2_000, host_calls=100)
FUNCTIONS = {"get": HostFunction(lambda call, key: key, (Parameter("key", Kind.TEXT),))}
END = {"outcome": "error", "limit": None, "name": "E", "message": "m", "stack": "", "line": 1, "column": None}


@pytest.fixture(scope="module")
def taken() -> Iterator[Sandbox]:
    """A sandbox whose children execute their source as Python, with `write` and `frame`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "BOOT", pool.BOOT.replace("from evertick.sandbox.zygote import main\n", TAKEN_OVER))
        opened = Sandbox()
        opened.start()
    with opened:
        yield opened


def end_of(sandbox: Sandbox, code: str, limits: Limits = LIMITS) -> tuple[str, str | None, str | None]:
    ended = sandbox.run(ScriptRun("run", Language.JAVASCRIPT, code, {}, limits, FUNCTIONS))
    assert len(ended.logs) <= limits.log_bytes // 16
    return ended.outcome.value, ended.limit, ended.result


def said(**members: object) -> bytes:
    return b"E" + json.dumps(END | members).encode()


MALFORMED = {
    "empty frame": b"",
    "unknown kind": b"Z",
    "frame of the supervisor": b"J{}",
    "reply of the supervisor": b"V1",
    "result that is empty": b"R",
    "result that is not JSON": b"R{",
    "result with more after it": b"R1 2",
    "result in single quotes": b"R{'a': 1}",
    "result that is not UTF-8": b'R"\xff"',
    "result with a lone surrogate in bytes": b'R"\xed\xa0\x80"',
    "result with a NUL": b"R1\0",
    "result with a member twice": b'R{"a": 1, "a": 2}',
    "result with a raw line break": b'R"\n"',
    "result that is too large": b'R"' + b"x" * 1_100 + b'"',
    "call without arguments": b"Cget",
    "call without a name": b"C\0[]",
    "call of an unknown function": b"Cdb.drop\0[]",
    "call of a name that is not ASCII": "Cgét\0[]".encode(),
    "call with a long name": b"C" + b"n" * 300 + b"\0[]",
    "call with an object": b"Cget\0{}",
    "call at no place": b'Cget@\0["k"]',
    "call at line 0": b'Cget@0:1\0["k"]',
    "call at a word": b'Cget@here\0["k"]',
    "call at a line too far": b'Cget@9999999999\0["k"]',
    "call with a text": b'Cget\0"k"',
    "call with broken arguments": b"Cget\0[",
    "call with bytes": b"Cget\0[\xff]",
    "call with a member twice": b'Cget\0[{"a":1,"a":2}]',
    "call that is too large": b'Cget\0["' + b"x" * 2_100 + b'"]',
    "log without a level": b"L",
    "log with an unknown level": b"Lxtext",
    "log that is not UTF-8": b"Li\xff",
    "log that is too long": b"Li" + b"x" * (LOG_LINE_BYTES + 1),
    "end that is empty": b"E",
    "end that is no object": b"E[]",
    "end that is not JSON": b"E{",
    "end without its members": b"E{}",
    "end with another member": said(result="1"),
    "end as ok": said(outcome="ok"),
    "end as a violation": said(outcome="violation"),
    "end as killed": said(outcome="killed"),
    "end as nothing": said(outcome=None),
    "end as a list": said(outcome=["error"]),
    "end with an unknown limit": said(outcome="limit", limit="rows_of_others"),
    "end with a limit that is a number": said(limit=5),
    "end with a limit that is a list": said(limit=["cpu_ms"]),
    "end with a name that is a number": said(name=1),
    "end with a message that is null": said(message=None),
    "end with a stack that is an object": said(stack={}),
    "end with a line that is a text": said(line="1"),
    "end with a line that is true": said(line=True),
    "end with a line of zero": said(line=0),
    "end with a line of minus one": said(line=-1),
    "end with a column that is huge": said(column=1 << 40),
    "end with a column that is a fraction": said(column=1.5),
    "end with NaN": b"E" + json.dumps(END).replace(": 1", ": NaN").encode(),
    "end that is too deep": b"E" + b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "end with a lone surrogate": b"E" + json.dumps(END).replace('"m"', '"\\\\ud800"').replace("\\\\", "\\").encode(),
    "end with a member twice": b"E" + json.dumps(END).encode()[:-1] + b', "name": "F"}',
}  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_frame_that_no_engine_sends_is_a_violation(taken: Sandbox, body: bytes) -> None:
    assert end_of(taken, f"write(frame({body!r}))") == ("violation", None, None)

    assert end_of(taken, "honest") == ("ok", None, "1")


@pytest.mark.parametrize(("code", "end"), [
    ("write(b'\\xff\\xff\\xff\\xff')", ("violation", None, None)),
    ("write(struct.pack('<I', 1 << 30) + b'R1')", ("violation", None, None)),
    ("write(b'\\5\\0\\0\\0R1'); os._exit(0)", ("violation", None, None)),
    ("write(b'\\5\\0'); os._exit(0)", ("violation", None, None)),
    ("os._exit(0)", ("violation", None, None)),
    ("os._exit(3)", ("violation", None, None)),
    ("os.getppid()", ("violation", None, None)),
    ("open('/etc/passwd')", ("violation", None, None)),
    ("os.abort()", ("crash", None, None)),
    ("import ctypes; ctypes.string_at(0)", ("crash", None, None)),
    ("x = bytearray(50 << 20); os.abort()", ("memory", "memory_bytes", None)),
    ("x = []\nwhile True: x.append(bytearray(1 << 20))", ("ok", None, '"MemoryError()"')),
    ("while True: pass", ("timeout", "cpu_ms", None)),
    ("write(frame(b'R1') + frame(b'R2'))", ("ok", None, "1")),
    ("write(frame(b'R1') + b'Z' * 100)", ("ok", None, "1")),
    ("write(frame(b'R1e999'))", ("output", "result_number", None)),
    ("write(frame(b'RNaN'))", ("output", "result_number", None)),
    ("write(frame(b'R' + b'[' * 400 + b']' * 400))", ("output", "result_depth", None)),
    ("write(frame(b'R\"\\\\ud800\"'))", ("output", "result_text", None)),
    ("for _ in range(101): write(frame(b'Cget\\0[\"k\"]')); channel.receive()", ("limit", "host_calls", None)),
    ("while True: write(frame(b'Li' + b'x' * 4000))", ("limit", "log_bytes", None)),
    ("while True: write(frame(b'Li'))", ("limit", "log_bytes", None)),
])  # fmt: skip
def test_a_child_that_was_taken_over_ends_only_its_own_run(
    taken: Sandbox, code: str, end: tuple[str, str | None, str | None]
) -> None:
    limits = LIMITS._replace(cpu_ms=300) if "pass" in code else LIMITS

    assert end_of(taken, code, limits) == end

    assert end_of(taken, "honest") == ("ok", None, "1")


@pytest.mark.parametrize("code", [
    "os.read(0, 1); os.read(0, 1)",
    "write(struct.pack('<I', 900) + b'R')",
    "while True:\n  write(frame(b'Li'))\n  for _ in range(3000000): pass",
])  # fmt: skip
def test_a_child_that_is_silent_or_slow_ends_at_the_deadline(taken: Sandbox, code: str) -> None:
    limits = LIMITS._replace(wall_ms=700, cpu_ms=60_000)
    ended = taken.run(ScriptRun("run", Language.JAVASCRIPT, code, {}, limits, FUNCTIONS))

    assert (ended.outcome, ended.limit) == (Outcome.TIMEOUT, "wall_ms")
    assert ended.wall_ms <= 700 + 600


def test_a_child_that_does_not_read_its_replies_ends_at_the_deadline(taken: Sandbox) -> None:
    limits = LIMITS._replace(wall_ms=700, argument_bytes=100_000, host_calls=100_000)
    code = "while True: write(frame(b'Cget\\0[\"' + b'k' * 90000 + b'\"]'))"

    assert end_of(taken, code, limits)[:2] == ("timeout", "wall_ms")


def test_what_a_child_makes_the_supervisor_compute_is_limited(taken: Sandbox) -> None:
    """Frames of many objects are cheap to send and dear to read."""
    limits = LIMITS._replace(cpu_ms=400, argument_bytes=400_000, host_calls=100_000)
    code = "body = frame(b'Cget\\0[' + b'{},' * 130000 + b'1]')\nwhile True: write(body); channel.receive()"

    ended = taken.run(ScriptRun("run", Language.JAVASCRIPT, code, {}, limits, FUNCTIONS))

    assert (ended.outcome, ended.limit) == (Outcome.TIMEOUT, "cpu_ms")
    assert ended.host_calls["get"] < 200


PYTHON_MALFORMED = {
    "no field": b"",
    "two events": monty.field(10, b"") + monty.field(10, b""),
    "unknown event": monty.field(13, b""),
    "a number": monty.field(6, 5),
    "a cut length": b"\x32\x05\x08",
    "a long number": b"\x32" + b"\xff" * 11,
    "an unknown kind of field": b"\x33",
    "a result that does not exist": monty.field(6, monty.field(1, 7)),
    "a list that contains itself": monty.field(6, monty.field(2, monty.field(2, monty.field(11, monty.field(1, b"\0"))))),
    "a text that is not UTF-8": monty.field(6, monty.field(2, monty.field(2, monty.field(8, b"\xff")))),
    "a value of two kinds": monty.field(6, monty.field(2, monty.field(2, monty.field(8, b"x") + monty.field(4, 1)))),
    "a float of three bytes": monty.field(6, monty.field(2, monty.field(2, monty.field(7, b"xxx")))),
    "a call of ctx itself": monty.field(2, monty.field(1, "ctx")),
    "a method of an object": monty.field(2, monty.field(1, "foo") + monty.field(5, b"x")),
    "arguments that do not exist": monty.field(2, monty.field(1, "ctx.get") + monty.field(2, b"\5")),
    "a wait for nothing": monty.field(5, b""),
    "a wait for an unknown call": monty.field(5, monty.field(1, b"\7")),
    "a dump": monty.field(9, b""),
}  # fmt: skip


@pytest.mark.parametrize("body", PYTHON_MALFORMED.values(), ids=PYTHON_MALFORMED.keys())
def test_an_event_that_monty_does_not_send_is_a_violation(body: bytes) -> None:
    talk = monty.PythonProtocol("", ["get"], {}, LIMITS, "run")
    talk.stage = "main"

    with pytest.raises(frames.Malformed):
        talk.read(body)


def test_a_small_event_with_a_huge_value_is_measured_and_not_built() -> None:
    """Forty doubled lists: 300 bytes that mean 2 ** 40 values."""
    nodes = monty.field(2, monty.field(8, "x"))
    for earlier in range(40):
        nodes += monty.field(2, monty.field(11, monty.field(1, bytes([earlier, earlier]))))
    talk = monty.PythonProtocol("", ["get"], {}, LIMITS, "run")
    talk.stage = "main"

    result = talk.read(monty.field(6, monty.field(1, 40) + monty.field(2, nodes)))
    call = talk.read(monty.field(2, monty.field(1, "ctx.get") + monty.field(2, bytes([40])) + monty.field(7, nodes)))

    assert result == [frames.Stopped(Outcome.OUTPUT, "result_bytes", None)]
    assert call == [frames.Stopped(Outcome.LIMIT, "argument_bytes", None)]


@pytest.mark.parametrize("value", [
    None, True, 0, -1, 2**63, -(2**63), -(2**63) - 1, 10**300, 1.5, -0.0, "", "é\U0001f600\0", [], {}, [[]], {"a": {"b": [1, None]}},
])  # fmt: skip
def test_values_survive_the_frames_of_monty(value: object) -> None:
    values = monty.Values()
    root = values.json(value)

    assert monty.read_nodes(values.written())[root].value == value


@pytest.mark.parametrize(("text", "what"), [
    ("1e999", "number"), ("-Infinity", "number"), ("9" * 1_001, "number"), ("[" * 65 + "]" * 65, "depth"),
    ("[" * 100_000, "depth"), ('"\\udfff"', "text"), ('{"\\ud800": 1}', "text"), ("", "json"), ("01", "json"), ("'x'", "json"),
    ('{"a":1,"a":1}', "json"), ("[1,]", "json"), ("\ufeff1", "json"),
])  # fmt: skip
def test_strict_json_says_what_is_wrong(text: str, what: str) -> None:
    with pytest.raises(frames.NotStrict) as raised:
        frames.strict(text)

    assert raised.value.what == what


@pytest.mark.parametrize("text", ["[" * 64 + "]" * 64, "9" * 1_000, "1e308", '"\\ud83d\\ude00"', '" \\u0000"', "-0"])
def test_strict_json_accepts_what_every_reader_can_hold(text: str) -> None:
    assert frames.strict(text) == json.loads(text)
