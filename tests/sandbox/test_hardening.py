"""What the kernel refuses to a child, whatever code runs in it."""

import functools
import json
import platform
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from evertick.sandbox import Language, Level, Outcome, Sandbox, SandboxUnavailable, hardening, pool
from tests.sandbox.conftest import javascript, python
from tests.sandbox.escapes import ATTEMPTS

LANGUAGES = ["javascript", *(["python"] if platform.machine() == "x86_64" else [])]
ALLOW, NOTIFY, REFUSE, KILL = hardening.ALLOW, hardening.NOTIFY, hardening.REFUSE, hardening.KILL
PID = 4_711


@functools.cache
def escapes(language: str) -> dict[str, str]:
    """What became of each attempt, in children of a zygote of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.escapes", language],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_code_that_has_taken_over_an_engine_reaches_nothing(sandbox: Sandbox, language: str) -> None:
    """The control attempt, which does nothing, succeeds."""
    isolation = sandbox.isolation(Language(language))
    if isolation.level is not Level.FULL:
        pytest.skip(f"this machine lacks walls that hold code which has taken over an engine: {isolation.reason}")
    found = escapes(language)

    assert found.pop("nothing") == "reached"
    assert found.pop("features") == [True, True, hardening.landlock_version()]  # type: ignore[comparison-overlap]
    assert found.keys() == ATTEMPTS.keys() or platform.machine() != "x86_64"
    assert {name: said for name, said in found.items() if not said.startswith("refused")} == {}


@pytest.mark.parametrize(("probed", "levels", "word"), [
    ((True, True, 7), ("full", "full"), ""),
    ((True, False, 7), ("full", "partial"), "listeners"),
    ((True, True, 0), ("partial", "partial"), "Landlock"),
    ((False, False, 7), ("partial", "partial"), "seccomp"),
    ((True, False, 0), ("partial", "none"), "listeners"),
    ((False, False, 0), ("none", "none"), "no seccomp"),
])  # fmt: skip
def test_the_level_is_full_only_with_all_walls(
    probed: tuple[bool, bool, int], levels: tuple[str, str], word: str
) -> None:
    """Without seccomp it is `partial` at best: Landlock alone leaves much open."""
    found = [pool.isolation_of(language, hardening.KernelFeatures(*probed)) for language in Language]

    assert tuple(one.level for one in found) == levels
    assert word in found[1].reason
    assert all((one.level is Level.FULL) == (one.reason == "") for one in found)


def test_scripts_run_where_the_kernel_has_no_walls_and_the_runs_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they should is for the service to decide."""
    probe = "zygote.probe = lambda: hardening.KernelFeatures(False, False, 0)"
    bare = f"from evertick.sandbox import zygote, hardening\n{probe}\nmain("
    monkeypatch.setattr(pool, "BOOT", pool.BOOT.replace("main(", bare))
    with Sandbox() as weak:
        ends = [weak.run(javascript("return 1")), weak.run(python("return 1")), weak.run(javascript("for (;;);"))]

    assert [end.outcome for end in ends] == [Outcome.OK, Outcome.OK, Outcome.TIMEOUT]
    assert {end.isolation for end in ends} == {Level.NONE}


def test_without_its_package_a_language_is_refused_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_monty", lambda: "")
    monkeypatch.setattr(pool, "_library", lambda: "")
    with Sandbox() as empty:
        for run in (javascript("return 1"), python("return 1")):
            with pytest.raises(SandboxUnavailable, match="pip install"):
                empty.run(run)
            assert empty.isolation(run.language).level is Level.NONE


def decide(program: bytes, machine: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What a filter decides about a call: its instructions, executed."""
    data = struct.pack("IIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    code = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
        elif operation == 0x06:
            return int(value)
        else:
            test = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += yes if test else no


X86, ARM = 0xC000003E, 0xC00000B7


@pytest.mark.parametrize(("machine", "audit", "numbers"), [
    ("x86_64", X86, {"read": 0, "write": 1, "mmap": 9, "mprotect": 10, "rt_sigaction": 13, "tgkill": 234, "openat": 257,
                     "execveat": 322, "sendmsg": 46, "clone3": 435, "socket": 41, "setitimer": 38, "kill": 62}),
    ("aarch64", ARM, {"read": 63, "write": 64, "mmap": 222, "mprotect": 226, "rt_sigaction": 134, "tgkill": 131,
                      "openat": 56, "execveat": 281, "sendmsg": 211, "clone3": 435, "socket": 198, "setitimer": 103,
                      "kill": 129}),
])  # fmt: skip
@pytest.mark.parametrize("loads", [False, True])
def test_a_filter_decides_by_number_and_arguments(
    monkeypatch: pytest.MonkeyPatch, machine: str, audit: int, numbers: dict[str, int], loads: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    hardening._filter.cache_clear()
    program = hardening.filter_of(PID, loads=loads)
    hardening._filter.cache_clear()
    rest = NOTIFY if loads else KILL
    table: list[tuple[str, tuple[int, ...], int]] = [
        ("read", (), ALLOW),
        ("write", (), ALLOW),
        ("mmap", (0, 4096, 3), ALLOW),
        ("mmap", (0, 4096, 7), NOTIFY if loads else REFUSE),
        ("mprotect", (0, 4096, 1), ALLOW),
        ("mprotect", (0, 4096, 5), NOTIFY if loads else REFUSE),
        ("rt_sigaction", (27,), NOTIFY if loads else REFUSE),
        ("tgkill", (PID, 5, signal.SIGABRT), ALLOW),
        ("tgkill", (PID, 5, signal.SIGKILL), KILL),
        ("tgkill", (PID + 1, 5, signal.SIGABRT), KILL),
        ("openat", (), rest),
        ("execveat", (), rest),
        ("clone3", (), rest),
        ("sendmsg", (hardening.HANDOVER,), ALLOW if loads else KILL),
        ("sendmsg", (0,), KILL),
        ("socket", (), KILL),
        ("setitimer", (), KILL),
        ("kill", (), KILL),
    ]

    assert [
        (name, arguments, decide(program, audit, numbers[name], arguments)) for name, arguments, _ in table
    ] == table
    assert decide(program, X86 + ARM - audit, numbers["read"]) == KILL
    assert decide(program, 0x40000003, numbers["read"]) == KILL, "32-bit calls"
    assert decide(program, audit, 0x40000000 | numbers["read"]) == KILL, "x32 calls"


def test_only_calls_that_an_engine_makes_are_allowed() -> None:
    """A new name in the list is a decision."""
    dangerous = {"openat", "execveat", "sendmsg", "clone", "clone3", "prctl", "prlimit64", "rt_sigaction", "pread64"}

    assert not dangerous & set(hardening.RUNNING)
    assert set(hardening.RUNNING) | set(hardening.LOADING) | set(hardening.REFUSED) | {
        "mmap",
        "mprotect",
        "tgkill",
        "sendmsg",
    } == {name for table in hardening.NUMBERS.values() for name in table}
