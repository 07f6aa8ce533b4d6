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

from evertick.sandbox import Language, Level, Sandbox, walls
from tests.sandbox.escapes import ATTEMPTS

LANGUAGES = ["javascript", *(["python"] if platform.machine() == "x86_64" else [])]
ALLOW, NOTIFY, REFUSE, KILL = walls.ALLOW, walls.NOTIFY, walls.REFUSE, walls.KILL
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
    assert sandbox.isolation(Language(language)).level is Level.FULL, "this machine lacks walls that the tests need"
    found = escapes(language)

    assert found.pop("nothing") == "reached"
    assert found.pop("walls") == [True, True, walls.landlock_version()]  # type: ignore[comparison-overlap]
    assert found.keys() == ATTEMPTS.keys() or platform.machine() != "x86_64"
    assert {name: said for name, said in found.items() if not said.startswith("refused")} == {}


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
    walls._filter.cache_clear()
    program = walls.filter_of(PID, loads=loads)
    walls._filter.cache_clear()
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
        ("sendmsg", (walls.HANDOVER,), ALLOW if loads else KILL),
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

    assert not dangerous & set(walls.RUNNING)
    assert set(walls.RUNNING) | set(walls.LOADING) | set(walls.REFUSED) | {"mmap", "mprotect", "tgkill", "sendmsg"} == {
        name for table in walls.NUMBERS.values() for name in table
    }
