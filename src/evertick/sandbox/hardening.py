"""Hardening of a child: restrictions that the kernel enforces on a process, for any code in it.

Runs in the zygote's children after `fork` and before the first byte of a customer's code is read. Imports nothing of
Evertick. The restrictions:

* no descriptors but the run's own socket, no privileges, limits on memory, files and processor time;
* * a CPU timer whose signal ends the process, which the process can neither stop nor block nor handle;
* Landlock: no files, no TCP, no abstract sockets, no signals to others;
* seccomp: a short list of system calls; any other call kills the process.

JavaScript runs in a fork of the zygote, so its filter is final from the start. The Python engine is a separate
program, which is loaded by `execveat` and the dynamic linker. Its filter sends the calls that only loading needs to a
listener, the zygote, which allows them. The zygote closes the listener before the customer's code is sent
(`seal`); from then on these calls fail with ENOSYS.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import platform
import resource
import signal
import socket
import struct
from pathlib import Path
from typing import Final, NamedTuple

libc = ctypes.CDLL(None, use_errno=True)

NUMBERS: Final[dict[str, dict[str, int]]] = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
        "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "access": 21, "sched_yield": 24,
        "mremap": 25, "madvise": 28, "getpid": 39, "sendmsg": 46, "clone": 56, "exit": 60, "readlink": 89,
        "gettimeofday": 96, "getrusage": 98, "sigaltstack": 131, "prctl": 157, "arch_prctl": 158, "gettid": 186,
        "futex": 202, "sched_getaffinity": 204, "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228,
        "exit_group": 231, "tgkill": 234, "openat": 257, "newfstatat": 262, "set_robust_list": 273, "prlimit64": 302,
        "getrandom": 318, "execveat": 322, "rseq": 334, "clone3": 435, "faccessat2": 439,
    },
    "aarch64": {
        "faccessat": 48, "openat": 56, "close": 57, "read": 63, "write": 64, "pread64": 67, "ppoll": 73,
        "readlinkat": 78, "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94, "set_tid_address": 96,
        "futex": 98, "set_robust_list": 99, "clock_gettime": 113, "sched_getaffinity": 123, "sched_yield": 124,
        "restart_syscall": 128, "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
        "rt_sigreturn": 139, "getrusage": 165, "prctl": 167, "gettimeofday": 169, "getpid": 172, "gettid": 178,
        "sendmsg": 211, "brk": 214, "munmap": 215, "mremap": 216, "clone": 220, "mmap": 222, "mprotect": 226,
        "madvise": 233, "prlimit64": 261, "getrandom": 278, "execveat": 281, "rseq": 293, "clone3": 435,
        "faccessat2": 439,
    },
}  # fmt: skip
"""The numbers of the filtered system calls, by machine; some calls of x86_64 have other names on aarch64."""
AUDIT: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHERS: Final = {"seccomp": (317, 277), "landlock": (444, 444), "close_range": (436, 436), "execveat": (322, 281)}
"""System calls without a glibc function: their numbers on x86_64 and aarch64. Landlock's three are consecutive."""

RUNNING: Final = (
    "read", "write", "close", "munmap", "brk", "rt_sigreturn", "sched_yield", "mremap", "madvise", "getpid", "gettid",
    "futex", "sched_getaffinity", "restart_syscall", "clock_gettime", "gettimeofday", "getrusage", "exit",
    "exit_group", "getrandom",
)  # fmt: skip
"""The calls of a running engine. `write` and `read` can only use the run's own socket: nothing else is open."""
REFUSED: Final = ("rt_sigaction", "rt_sigprocmask", "sigaltstack")
"""Calls of `abort`, which works without them. A process could use them to ignore the signal of its CPU timer."""
LOADING: Final = (
    "execveat", "openat", "newfstatat", "fstat", "pread64", "access", "faccessat", "faccessat2", "readlink",
    "readlinkat", "arch_prctl", "set_tid_address", "set_robust_list", "rseq", "prlimit64", "poll", "ppoll", "prctl",
    "clone", "clone3", "rt_sigaction", "rt_sigprocmask", "sigaltstack",
)  # fmt: skip
"""Calls of the dynamic linker and of the start of the Python engine, which scripts do not need."""

NOBODY: Final = 65534
OWN_PID: Final = 0x7FFFFFFE
"""A placeholder for the pid in filters that are built before the fork; no process has it."""
HANDOVER: Final = 4
"""The descriptor on which a process that loads an engine sends its listener; it is closed by `execveat`."""
LOADER_DESCRIPTORS: Final = 8
LOADER_FILES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/nix/store")
"""Paths that the dynamic linker may read, by Landlock."""

KILL: Final = 0x80000000
NOTIFY: Final = 0x7FC00000
ALLOW: Final = 0x7FFF0000
REFUSE: Final = 0x00050000 | errno.EPERM
RECEIVE: Final = 0xC0502100
"""ioctl of a listener: the next call that waits for it; `struct seccomp_notif` has 80 bytes."""
RESPOND: Final = 0xC0182101
CONTINUE: Final = 1


class KernelFeatures(NamedTuple):
    """The kernel features of this machine, probed by `probe`. Available features are always used."""

    seccomp: bool
    listener: bool
    """Whether a filter may send calls to a listener, which the Python engine needs."""
    landlock: int
    """The version of Landlock's interface; 0 without it."""


class Caps(NamedTuple):
    """The limits of one process."""

    cpu_s: float
    address_space: int
    data: int
    """The writable part of it; reserved addresses count once they become writable."""


def failed(step: str) -> OSError:
    """An OSError for the libc call that has just failed."""
    number = ctypes.get_errno()
    return OSError(number, f"{step}: {os.strerror(number)}")


def other(name: str, *arguments: object, offset: int = 0) -> int:
    """Make one of the calls in `OTHERS`; -1 if it fails, or if the machine is unknown."""
    machine = platform.machine()
    if machine not in NUMBERS:
        return -1
    return int(libc.syscall(OTHERS[name][machine == "aarch64"] + offset, *arguments))


# ------------------------------------------------------------------------------------------------------------- seccomp


class Filter:
    """Builds a BPF program that filters system calls."""

    def __init__(self, machine: str) -> None:
        self.numbers = NUMBERS[machine]
        self.code: list[tuple[int, int, int, int]] = []
        self.add(0x20, 4)  # the machine: 32-bit calls have other numbers
        self.add(0x15, AUDIT[machine], 1, 0)
        self.add(0x06, KILL)
        self.add(0x20, 0)
        if machine == "x86_64":  # x32 calls
            self.add(0x35, 0x40000000, 0, 1)
            self.add(0x06, KILL)

    def add(self, operation: int, value: int, yes: int = 0, no: int = 0) -> None:
        self.code.append((operation, yes, no, value))

    def always(self, names: tuple[str, ...], action: int) -> None:
        for name in names:
            if name in self.numbers:
                self.add(0x15, self.numbers[name], 0, 1)
                self.add(0x06, action)

    def argument(
        self, name: str, position: int, value: int, action: int, otherwise: int, *, bits: bool = False
    ) -> None:
        """Add `action` if the low half of an argument is `value`, or with `bits`, if it has any bit of `value`."""
        self.add(0x15, self.numbers[name], 0, 4)
        self.add(0x20, 16 + 8 * position)
        self.add(0x45 if bits else 0x15, value, 0, 1)
        self.add(0x06, action)
        self.add(0x06, otherwise)

    def signals(self) -> None:
        """Allow `tgkill(own pid, any thread, SIGABRT)`: an engine that aborts is a crash, not a violation."""
        self.add(0x15, self.numbers["tgkill"], 0, 6)
        self.add(0x20, 16)
        self.add(0x15, OWN_PID, 0, 3)
        self.add(0x20, 32)
        self.add(0x15, signal.SIGABRT, 0, 1)
        self.add(0x06, ALLOW)
        self.add(0x06, KILL)

    def program(self) -> bytes:
        self.add(0x06, KILL)
        return b"".join(struct.pack("HBBI", operation, yes, no, value) for operation, yes, no, value in self.code)


def filter_of(pid: int, *, loads: bool) -> bytes:
    """The filter of a child; `loads` if it still has to load its engine."""
    return _filter(loads).replace(struct.pack("I", OWN_PID), struct.pack("I", pid))


@functools.cache
def _filter(loads: bool) -> bytes:
    """The filter with `OWN_PID` in place of the pid."""
    built = Filter(platform.machine())
    built.always(RUNNING, ALLOW)
    executable = NOTIFY if loads else REFUSE
    built.argument("mmap", 2, 4, executable, ALLOW, bits=True)
    built.argument("mprotect", 2, 4, executable, ALLOW, bits=True)
    built.signals()
    if loads:
        built.argument("sendmsg", 0, HANDOVER, ALLOW, KILL)
        built.always(LOADING, NOTIFY)
    else:
        built.always(REFUSED, REFUSE)
    return built.program()


def install_filter(program: bytes, *, listener: bool = False) -> int:
    """Install the filter on this thread, the only one; return the listener's descriptor, or 0. Raises OSError."""
    body = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(body)))
    done = other("seccomp", 1, 8 if listener else 0, header)
    if done < 0:
        raise failed("seccomp")
    return done


def let_through(listener: int) -> bool:
    """Allow the next call of a listener; return False if there is none. Never called after `seal`."""
    request = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, request)
        fcntl.ioctl(listener, RESPOND, struct.pack("QqiI", *struct.unpack_from("Q", request), 0, 0, CONTINUE))
    except OSError:  # the process has died meanwhile
        return False
    return True


# ------------------------------------------------------------------------------------------------------------ Landlock


def landlock_version() -> int:
    """The version of the kernel's Landlock; 0 without it."""
    return max(0, other("landlock", None, 0, 1))


def restrict_files(version: int, readable: tuple[str, ...] = (), program: int | None = None) -> None:
    """Forbid files except `readable` and `program`, TCP, abstract sockets and signals to others. Raises OSError."""
    files = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):
        files |= (version >= since) << bit
    whole = struct.pack("QQQ", files, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = other("landlock", whole, len(whole), 0)
    if ruleset < 0:
        raise failed("landlock")
    for path in readable:
        if Path(path).exists():
            entry = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = 1 | 4 | 8 if Path(path).is_dir() else 4
            if other("landlock", ruleset, 1, struct.pack("=Qi", allowed, entry), 0, offset=1) != 0:
                raise failed("landlock rule")
            os.close(entry)
    if program is not None and other("landlock", ruleset, 1, struct.pack("=Qi", 1 | 4, program), 0, offset=1) != 0:
        raise failed("landlock rule")
    if other("landlock", ruleset, 0, offset=2) != 0:
        raise failed("landlock")
    os.close(ruleset)


# ---------------------------------------------------------------------------------------------------------- the process


def close_descriptors(first: int) -> None:
    """Close every descriptor from `first` on, however high. Raises OSError if one stays open."""
    if other("close_range", first, 0xFFFFFFFF, 0) == 0:
        return
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) >= first:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(path.name))


def limit_process(caps: Caps, parent: int) -> None:
    """Set resource limits, an unprivileged user, and death with the parent. Raises OSError."""
    for limit, value in (
        (resource.RLIMIT_AS, caps.address_space),
        (resource.RLIMIT_DATA, caps.data),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_CPU, int(caps.cpu_s) + 2),  # SIGKILL, should the timer below fail
    ):
        resource.setrlimit(limit, (value, value))
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    for option, value in (
        (4, 0),
        (38, 1),
        (1, signal.SIGKILL),
    ):  # not dumpable, no new privileges, dies with its parent
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise failed("prctl")
    if os.getppid() != parent:
        os._exit(0)


def start_timer(caps: Caps) -> None:
    """Start counting processor time; SIGPROF ends the process at the limit."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, caps.cpu_s)


def harden(features: KernelFeatures, caps: Caps, parent: int, program: bytes) -> None:
    """Harden a child that runs its engine itself. `program` is `filter_of` its pid. Raises OSError."""
    limit_process(caps, parent)
    if features.landlock:
        restrict_files(features.landlock)
    for limit, most in ((resource.RLIMIT_NPROC, 0), (resource.RLIMIT_NOFILE, 1)):
        resource.setrlimit(limit, (most, most))
    start_timer(caps)
    if features.seccomp:
        install_filter(program)


def load(
    features: KernelFeatures, caps: Caps, parent: int, engine: int, arguments: list[bytes], handover: socket.socket
) -> None:
    """Harden a child and execute another program: `engine`, opened with O_PATH. Raises OSError, and never returns.

    The listener is sent over `handover`, whose descriptor is `HANDOVER`; its receiver must allow the calls of the
    loader.
    """
    limit_process(caps, parent)
    if features.landlock:
        restrict_files(features.landlock, LOADER_FILES, engine)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOADER_DESCRIPTORS, LOADER_DESCRIPTORS))
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    environment = (ctypes.c_char_p * 1)(None)
    program = filter_of(os.getpid(), loads=True) if features.listener else b""
    start_timer(caps)
    if features.listener:
        socket.send_fds(handover, [b"listener"], [install_filter(program, listener=True)])
    other("execveat", engine, b"", argv, environment, 0x1000)
    raise failed("execveat")
