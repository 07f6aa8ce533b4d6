"""The zygote: a small process that forks a child for each run, and reports its end to the supervisor.

It is started with an empty environment, imports the JavaScript engine once, and never reads a customer's code. It
exchanges JSON messages with the supervisor over a SOCK_SEQPACKET socket:

    to the zygote   {"run": id, "language", "cpu_s", "memory_bytes"} with the child's end of the run's socket
                    {"kill": id}    {"seal": id}
    from it         {"ready": pid, "features", "engines"}    {"sealed": id}
                    {"ended": id, "signal", "status", "cpu_ms", "rss_kb"}    {"failed": id, "reason"}

It ends when the supervisor does: its end of the socket closes, or the parent of the process changes. Its children end
with it.
"""

import contextlib
import gc
import json
import os
import platform
import resource
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, Final, Never

from evertick.sandbox import hardening, javascript

PAGE: Final = resource.getpagesize()
SLACK_BYTES: Final = 16 << 20
"""The address space of a child in addition to twice its engine's memory, for copies of values at the boundary."""
PYTHON_BYTES: Final = 256 << 20
"""The address space that Monty reserves: the program, stacks, and the allocator's mostly unused arenas."""
PYTHON_DATA_BYTES: Final = 32 << 20
"""The part of it that is writable from the start: mostly a stack of 16 MiB."""
LOADING_S: Final = 0.05
"""The processor time of the start of an engine."""


def probe() -> hardening.KernelFeatures:
    """The features of this kernel, tested in children."""

    def forbidden() -> None:
        hardening.libc.prctl(38, 1, 0, 0, 0)
        hardening.install_filter(hardening.filter_of(os.getpid(), loads=False))
        os.getppid()  # not on the list

    def listening() -> None:
        hardening.libc.prctl(38, 1, 0, 0, 0)
        hardening.install_filter(hardening.filter_of(os.getpid(), loads=True), listener=True)

    known = platform.machine() in hardening.NUMBERS
    seccomp = known and _ended(forbidden) == -signal.SIGSYS
    return hardening.KernelFeatures(seccomp, seccomp and _ended(listening) == 0, hardening.landlock_version())


def _ended(function: Any) -> int:
    """The exit status of a child that calls the function; the negative signal if a signal ended it."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            function()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Child:
    """A run's process."""

    def __init__(self, run: int, pid: int) -> None:
        self.run, self.pid = run, pid
        self.handover: socket.socket | None = None
        self.listener = -1


class Zygote:
    """The main loop: messages of the supervisor, ends of children, calls of loading children."""

    def __init__(self, control: socket.socket, monty: str) -> None:
        self.control = control
        self.parent = os.getppid()
        self.features = probe()
        self.engines: dict[str, str] = {}
        try:
            import jsbox  # noqa: F401 - its children run it

            self.engines["javascript"] = "quickjs-ng"
        except ImportError:
            pass
        self.monty = os.open(monty, os.O_PATH | os.O_CLOEXEC) if monty else -1
        if self.monty >= 0:
            self.engines["python"] = "monty"
        self.null = os.open("/dev/null", os.O_WRONLY)
        self.wakeup, writer = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.by_run: dict[int, Child] = {}
        self.by_pid: dict[int, Child] = {}
        self.loading: dict[int, Child] = {}  # by the polled descriptor
        self.poll = select.poll()
        for descriptor in (self.control.fileno(), self.wakeup):
            self.poll.register(descriptor, select.POLLIN)
        self.base = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE

    def serve(self) -> Never:
        """Serve until the supervisor ends."""
        if self.features.seccomp:
            for loads in (False, True):  # built once, before the first fork
                hardening.filter_of(0, loads=loads)
        gc.collect()
        gc.freeze()
        self.send({"ready": os.getpid(), "features": list(self.features), "engines": self.engines})
        while True:
            for descriptor, _ in self.poll.poll(5_000):
                if descriptor == self.wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.wakeup, 4096)
                    self.reap()
                elif descriptor in self.loading:
                    self.loads(self.loading[descriptor], descriptor)
                elif descriptor == self.control.fileno():
                    self.handle_message()
            if os.getppid() != self.parent:
                os._exit(0)

    def send(self, message: dict[str, Any]) -> None:
        try:
            self.control.send(json.dumps(message).encode())
        except OSError:
            os._exit(0)

    def handle_message(self) -> None:
        """Execute the next message."""
        message, descriptors, _, _ = socket.recv_fds(self.control, 65536, 1)
        if not message:
            os._exit(0)
        said = json.loads(message)
        if "run" in said:
            try:
                self.fork(said, descriptors[0])
            except OSError as error:
                self.send({"failed": said["run"], "reason": str(error)})
            finally:
                os.close(descriptors[0])
        elif "kill" in said and said["kill"] in self.by_run:
            os.kill(self.by_run[said["kill"]].pid, signal.SIGKILL)
        elif "seal" in said:
            if said["seal"] in self.by_run:
                self.seal(self.by_run[said["seal"]])
            self.send({"sealed": said["seal"]})

    def fork(self, said: dict[str, Any], descriptor: int) -> None:
        """Fork the child of a run. Raises OSError."""
        python = said["language"] == "python"
        ours, theirs = socket.socketpair() if python else (None, None)
        extra_bytes = 2 * said["memory_bytes"] + SLACK_BYTES
        caps = hardening.Caps(
            said["cpu_s"] + LOADING_S,
            (PYTHON_BYTES if python else self.base) + extra_bytes,
            (PYTHON_DATA_BYTES if python else self.base) + extra_bytes,
        )
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self.become(caps, me, descriptor, theirs, said["niceness"])
            finally:
                os._exit(javascript.EXIT_START)
        child = self.by_run[said["run"]] = self.by_pid[pid] = Child(said["run"], pid)
        if ours is not None and theirs is not None:
            theirs.close()
            child.handover = ours
            self.waits(child, ours.fileno())

    def become(
        self, caps: hardening.Caps, parent: int, descriptor: int, theirs: socket.socket | None, niceness: int
    ) -> None:
        """In the child: harden the process, then run the engine. Raises OSError."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.nice(niceness)
        os.dup2(descriptor, 0)
        if theirs is None:
            program = hardening.filter_of(os.getpid(), loads=False) if self.features.seccomp else b""
            hardening.close_descriptors(1)
            hardening.harden(self.features, caps, parent, program)
            javascript.serve(0)
        os.dup2(0, 1)
        os.dup2(self.null, 2)
        # Above the descriptors of the next lines, so that none is overwritten before it is copied.
        high, engine = (os.dup2(one, at, inheritable=False) for one, at in ((theirs.fileno(), 64), (self.monty, 65)))
        os.dup2(high, hardening.HANDOVER, inheritable=False)
        os.dup2(engine, 3, inheritable=False)
        theirs.detach()
        hardening.close_descriptors(5)
        handover = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, hardening.HANDOVER)
        hardening.load(self.features, caps, parent, 3, [b"monty", b"subprocess"], handover)

    def waits(self, child: Child, descriptor: int) -> None:
        self.loading[descriptor] = child
        self.poll.register(descriptor, select.POLLIN)

    def forget(self, descriptor: int) -> None:
        if self.loading.pop(descriptor, None):
            self.poll.unregister(descriptor)

    def loads(self, child: Child, descriptor: int) -> None:
        """Receive the listener of a child that loads its engine, or allow its next call."""
        if descriptor == child.listener:
            if not hardening.let_through(descriptor):
                self.seal(child)
            return
        handover, child.handover = child.handover, None
        self.forget(descriptor)
        if handover is not None:
            with handover:
                _, listeners, _, _ = socket.recv_fds(handover, 64, 1)
            if listeners:
                child.listener = listeners[0]
                self.waits(child, child.listener)

    def seal(self, child: Child) -> None:
        """Make the loader's calls of a child fail from now on."""
        if child.listener >= 0:
            self.forget(child.listener)
            os.close(child.listener)
            child.listener = -1

    def reap(self) -> None:
        """Report the ends of children."""
        while self.by_pid:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            child = self.by_pid.pop(pid)
            del self.by_run[child.run]
            self.seal(child)
            if child.handover is not None:
                self.forget(child.handover.fileno())
                child.handover.close()
            code = os.waitstatus_to_exitcode(status)
            self.send(
                {
                    "ended": child.run,
                    "signal": max(0, -code),
                    "status": max(0, code),
                    "cpu_ms": round((used.ru_utime + used.ru_stime) * 1_000),
                    "rss_kb": used.ru_maxrss,
                }
            )


def main(control: int, monty: str) -> Never:
    """Run the zygote on an inherited socket; `monty` is the path of the Python engine, or empty."""
    os.environ.clear()
    os.environ["TZ"] = "UTC0"
    time.tzset()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the supervisor handles them, and may let runs end
        signal.signal(number, signal.SIG_IGN)
    Zygote(socket.socket(fileno=control), monty).serve()
