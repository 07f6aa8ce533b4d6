"""What code could do that has taken over an engine: attempts, each in a child behind the real hardening.

    python -m tests.sandbox.escapes javascript|python

The children are those of the real zygote; instead of an engine, they execute an attempt. For Python, the program that
is loaded is the interpreter of this process, which then waits until it is sealed, as Monty does. Prints a JSON object
with what became of each attempt: `refused`, or what was reached.
"""

# ruff: noqa: E501 - attempts are as long as they are
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Final, Never

from evertick.sandbox import hardening, javascript, zygote

BEFORE: Final = """
import ctypes, errno, mmap, os, resource, select, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
def raw(number, *arguments):
    got = libc.syscall(number, *arguments)
    if got < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
memory = mmap.mmap(-1, 4096)
page = ctypes.addressof(ctypes.c_char.from_buffer(memory))
"""
"""What an attempt may use, beside the pid of its `parent`; it runs before the walls are complete."""

ATTEMPTS: Final = {
    "open a file": "open('/etc/passwd').read()",
    "list processes": "os.listdir('/proc')",
    "environment of the parent": "open(f'/proc/{parent}/environ').read()",
    "write a file": "open('/tmp/evertick_escape', 'w').write('x')",
    "own memory map": "open('/proc/self/maps').read()",
    "TCP to this machine": "socket.socket().connect(('127.0.0.1', 1))",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "unix socket": "socket.socket(socket.AF_UNIX)",
    "netlink": "socket.socket(16, socket.SOCK_RAW, 0)",
    "raw packets": "socket.socket(17, socket.SOCK_RAW, 0)",
    "socket pair": "socket.socketpair()",
    "pipe": "os.pipe()",
    "fork": "os.fork() or os._exit(0)",
    "execve": "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "signal to the parent": "os.kill(parent, 0)",
    "signal to everybody": "os.kill(-1, 0)",
    "RWX page": "mmap.mmap(-1, 4096, prot=7)",
    "setuid": "os.setuid(0)",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))",
    "cancel the CPU timer": "signal.setitimer(signal.ITIMER_PROF, 0)",
    "ignore the CPU timer": "signal.signal(signal.SIGPROF, signal.SIG_IGN)",
    "handle the CPU timer": "signal.signal(signal.SIGPROF, lambda *a: None)",
    "block the CPU timer": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF]); assert signal.SIGPROF in signal.pthread_sigmask(signal.SIG_BLOCK, [])",
    "1 GiB of memory": "bytearray(1 << 30)",
    "inherited descriptors": "found = []\nfor fd in range(3, 4096):\n  try: os.write(fd, b''); found.append(fd)\n  except OSError as e: assert e.errno == errno.EBADF\nassert found",
    "duplicate a descriptor": "os.dup(0)",
    "TCP fast open": "raw(44, 0, b'x', 1, 0x20000000, b'\\2\\0\\0\\1\\x7f\\0\\0\\1' + bytes(8), 16)",
    "send descriptors": "libc.sendmsg(0, bytes(56), 0) >= 0 or raw(46, 0, bytes(56), 0)",
    "ptrace": "raw(101, 16, parent, 0, 0)",
    "read another process": "raw(310, parent, 0, 0, 0, 0, 0)",
    "user namespace": "raw(272, 0x10000000)",
    "io_uring": "raw(425, 1, bytes(120))",
    "memfd": "raw(319, b'x', 0)",
    "shared memory of System V": "raw(29, 0, 4096, 0o1777)",
    "messages of System V": "raw(68, 0, 0o1777)",
    "semaphores of System V": "raw(64, 0, 1, 0o1777)",
    "message queue of POSIX": "raw(240, b'q', 0o102, 0o600, 0)",
    "keyring": "raw(250, 0, -3, 1)",
    "add a key": "raw(248, b'user', b'k', b'v', 1, -3)",
    "another timer": "raw(222, 0, 0, bytes(8))",
    "make code executable": "raw(10, ctypes.c_void_p(page), 4096, 5)",
    "executable by protection key": "raw(329, ctypes.c_void_p(page), 4096, 5, -1)",
    "pidfd": "raw(434, parent, 0)",
    "descriptor of another process": "raw(438, 3, 0, 0)",
    "bpf": "raw(321, 0, bytes(120), 120)",
    "perf": "raw(298, bytes(120), 0, -1, -1, 0)",
    "userfaultfd": "raw(323, 0)",
    "mount": "raw(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "chroot": "raw(161, b'/')",
    "clone": "raw(56, 17, 0, 0, 0, 0) or os._exit(0)",
    "clone3": "raw(435, bytes(88), 88) or os._exit(0)",
    "execveat": "raw(322, -100, b'/bin/true', 0, 0, 0)",
    "openat2": "raw(437, -100, b'/etc/passwd', bytes(24), 24)",
    "file by handle": "raw(304, -100, bytes(16), 0)",
    "executable data": "raw(135, 0x400000)",
    "dumpable": "raw(157, 4, 1, 0, 0, 0)",
    "another filter": "raw(317, 1, 0, bytes(16))",
    "signal to another by thread": "raw(234, parent, parent, 6)",
    "SIGKILL to itself": "raw(234, os.getpid(), raw(186), 9)",
    "x32 calls": "raw(0x40000000 | 39)",
    "local descriptor table": "raw(154, 0, bytes(16), 16)",
    "terminal input": "raw(16, 0, 0x5412, b'x')",
    "processors of another": "raw(203, parent, 8, bytes(8))",
    "priority": "raw(141, 0, 0, -5)",
    "name of the machine": "raw(63, bytes(400))",
    "limits by prlimit": "raw(302, 0, 0, 0, bytes(16))",
    "wait for events": "raw(291, 0)",
    "load a module": "raw(313, 0, b'', 0)",
    "reboot": "raw(169, 0, 0, 0)",
    "time of the machine": "raw(164, bytes(16), 0)",
}
"""By name; the numbers of system calls are those of x86_64, and mean nothing on another machine."""
STARTING: Final = {
    "stat": 4, "lstat": 6, "lseek": 8, "ioctl": 16, "getcwd": 79, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "fcntl": 72, "getdents64": 217, "sysinfo": 99, "uname": 63, "getppid": 110, "statx": 332,
    "epoll_create1": 291,
}  # fmt: skip
"""What an interpreter of Python calls at its start, beside what Monty does."""


def execute(code: str, names: dict[str, object]) -> Never:
    """Execute an attempt, and write what became of it to the only descriptor."""
    try:
        exec(code, names)
        os.write(0, b"reached")
    except BaseException as error:
        os.write(0, f"refused: {type(error).__name__} {error}"[:80].encode())
    os._exit(0)


LOADED: Final = (
    BEFORE
    + """
parent = os.getppid()
os.write(0, b'ready')
code = os.read(0, 65536).decode()
try:
    exec(code)
    os.write(0, b'reached')
except BaseException as error:
    os.write(0, f'refused: {type(error).__name__} {error}'[:80].encode())
os._exit(0)
"""
)


def try_one(served: zygote.Zygote, language: str, code: str, names: dict[str, object]) -> str:
    """What becomes of an attempt."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    if language == "javascript":
        javascript.serve = lambda descriptor: execute(code, names)
    wanted = {"run": 1, "language": language, "niceness": 0, "cpu_s": 5.0, "memory_bytes": 64 << 20}
    served.fork(wanted, theirs.fileno())
    theirs.close()
    child = served.by_run.pop(1)
    served.by_pid.pop(child.pid)
    if language == "python":
        until = time.monotonic() + 20
        while not select.select([ours], [], [], 0)[0] and time.monotonic() < until:
            for descriptor, _ in served.poll.poll(50):
                if descriptor in served.loading:
                    served.loads(served.loading[descriptor], descriptor)
        if ours.recv(5) != b"ready":
            return "the program was not loaded"
        served.seal(child)
        ours.send(code.encode())
    said = ours.recv(200).decode()
    ours.close()
    status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    return said or f"refused: signal {-status}"


def main(language: str) -> None:
    names: dict[str, object] = {"parent": os.getpid()}
    exec(BEFORE, names)
    control, _other = socket.socketpair()
    for descriptor in (250, 300, 1000):  # what a careless parent leaves open
        os.dup2(control.fileno(), descriptor, inheritable=True)
    served = zygote.Zygote(control, os.path.realpath(sys.executable) if language == "python" else "")
    signal.set_wakeup_fd(-1)
    if language == "python":
        load = hardening.load
        # This interpreter needs more than Monty: it may be anywhere, for root only, and makes other calls at its start.
        hardening.LOADER_FILES = ("/",)  # type: ignore[misc]
        hardening.NOBODY = 0  # type: ignore[misc]
        hardening.NUMBERS["x86_64"] |= STARTING
        hardening.LOADING += tuple(STARTING)  # type: ignore[misc]
        program = [b"python", b"-I", b"-S", b"-c", LOADED.encode()]
        hardening.load = lambda features, caps, parent, engine, _, handover: load(
            features, caps, parent, engine, program, handover
        )
    results = {"features": list(served.features)}
    for name, code in ATTEMPTS.items():
        if os.uname().machine == "x86_64" or "raw(" not in code:
            results[name] = try_one(served, language, code, names)
    results["nothing"] = try_one(served, language, "pass", names)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
