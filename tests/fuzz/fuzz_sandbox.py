"""Fuzz what the sandbox's supervisor reads of a child with atheris: an event, or `Malformed`, and nothing else.

    python tests/fuzz/fuzz_sandbox.py --runs 1000000 --jobs 2

A child that was taken over sends what it wants. Whatever it is, the supervisor must neither raise another exception,
nor keep more than the limits allow, nor compute for long. Exits with a status other than 0 at the first such frame.
"""

import argparse
import subprocess
import sys
import time

import atheris

with atheris.instrument_imports(include=["evertick.sandbox"]):
    from evertick.sandbox import frames, monty
    from evertick.sandbox.protocol import LOG_LINE_BYTES, MESSAGE_BYTES, STACK_BYTES, Limits

LIMITS = Limits(result_bytes=2_000, argument_bytes=2_000)
SLOW_NS = 200_000_000
PATIENCE = 4
STAGES = ("configure", "script", "main", "check")


def fuzz_javascript(data: atheris.FuzzedDataProvider) -> None:
    kind = data.PickValueInList([b"L", b"C", b"R", b"E", b""])
    judge(frames.read_event(kind + data.ConsumeBytes(4_000), LIMITS))


def fuzz_strict(data: atheris.FuzzedDataProvider) -> None:
    text = data.ConsumeUnicodeNoSurrogates(2_000)
    try:
        value = frames.strict(text)
    except frames.NotStrict:
        return
    if len(repr(value)) > 40 * len(text) + 400:
        raise RuntimeError(f"{text!r} became much larger")


def fuzz_python(data: atheris.FuzzedDataProvider) -> None:
    talk = monty.PythonProtocol("", ["get", "db.get"], {}, LIMITS, data.PickValueInList(["run", "check"]))
    talk.stage = data.PickValueInList(list(STAGES))
    for _ in range(data.ConsumeIntInRange(1, 4)):
        for event in talk.read(data.ConsumeBytes(1_000)):
            judge(event)


def fuzz_python_values(data: atheris.FuzzedDataProvider) -> None:
    """Events that are well formed, with values that are not."""
    talk = monty.PythonProtocol("", ["get", "db.get"], {}, LIMITS, "run")
    talk.stage = "main"
    nodes = monty.field(2, data.ConsumeBytes(60)) * data.ConsumeIntInRange(0, 3)
    for _ in range(data.ConsumeIntInRange(0, 30)):
        indices = bytes(data.ConsumeIntInRange(0, 127) for _ in range(data.ConsumeIntInRange(0, 8)))
        kind = data.PickValueInList([11, 12, 14, 8, 5])
        nodes += monty.field(2, monty.field(kind, monty.field(1, indices) if kind in {11, 12} else indices))
    if data.ConsumeBool():
        body = monty.field(6, monty.field(1, data.ConsumeIntInRange(0, 31)) + monty.field(2, nodes))
    else:
        name = data.PickValueInList(["ctx.get", "ctx.log", "foo", "ctx"])
        body = monty.field(2, monty.field(1, name) + monty.field(2, data.ConsumeBytes(8)) + monty.field(7, nodes))
    for event in talk.read(body):
        judge(event)


def fuzz_oversized(data: atheris.FuzzedDataProvider) -> None:
    judge(monty.PythonProtocol("", [], {}, LIMITS, "run").oversized(data.ConsumeBytes(300)))


TARGETS = (fuzz_javascript, fuzz_strict, fuzz_python, fuzz_python_values, fuzz_oversized)


def judge(event: frames.Event) -> None:
    """The promises: texts within their limits, and a result that is strict JSON."""
    if isinstance(event, frames.Returned):
        frames.strict(event.text)
        if len(event.text) > 6 * LIMITS.result_bytes:
            raise RuntimeError(f"a result of {len(event.text)} bytes")
    elif isinstance(event, frames.Logged) and len(event.text.encode()) > LOG_LINE_BYTES:
        raise RuntimeError("a line of log that is too long")
    elif isinstance(event, frames.Stopped) and event.error is not None:
        if len(event.error.message.encode()) > MESSAGE_BYTES + 100 or len(event.error.stack.encode()) > STACK_BYTES:
            raise RuntimeError("an error that is too long")
    elif isinstance(event, frames.Called) and len(repr(event.arguments)) > 40 * LIMITS.argument_bytes:
        raise RuntimeError("arguments that are too large")


def one_input(raw: bytes) -> None:
    """One input: its first byte picks the reader. What seems slow is measured again before anybody complains."""
    for _ in range(PATIENCE):
        begin = time.process_time_ns()
        data = atheris.FuzzedDataProvider(raw)
        try:
            TARGETS[data.ConsumeIntInRange(0, len(TARGETS) - 1)](data)
        except frames.Malformed:
            pass
        spent = time.process_time_ns() - begin
        if spent <= SLOW_NS:
            return
    raise RuntimeError(f"{raw!r} took {spent / 1e6:.0f} ms of the processor, {PATIENCE} times in a row")


def share(runs: int, seed: int, jobs: int) -> int:
    """Let several processes try an equal part each; 1 if any of them found something."""
    command = [sys.executable, __file__, "--runs", str(-(-runs // jobs)), "--seed"]
    children = [subprocess.Popen([*command, str(seed + number)]) for number in range(jobs)]
    failed = [child for child in children if child.wait()]
    print(f"{jobs} processes ran {runs} runs, {len(failed)} of them found something", flush=True)
    return int(bool(failed))


def main() -> None:
    """Run until `--runs` inputs were tried."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100_000, help="how many inputs to try")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins")
    parser.add_argument("--jobs", type=int, default=0, help="processes that share the inputs, each with its own seed")
    options = parser.parse_args()
    if options.jobs:
        sys.exit(share(options.runs, options.seed, options.jobs))
    atheris.Setup(
        [sys.argv[0], f"-runs={options.runs}", f"-seed={options.seed}", "-max_len=4096", "-timeout=20", "-verbosity=0"],
        one_input,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
