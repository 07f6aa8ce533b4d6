"""The supervisor: starts the zygote, communicates with the children, and enforces every limit.

A run consists of a thread of the caller, a socket and a child. The thread reads the child's frames until the result,
the end of the socket or the deadline, and calls host functions for it. Then the child is always killed, and the zygote
reports the kernel's counts. The child is untrusted: a frame that no engine sends ends the run as `violation`.

The deadline of a run includes everything: the start of the child, host functions, sleeps. Host functions run in
separate threads, because one that hangs must not block the run: it is abandoned, and its result is dropped.

A zygote that dies takes its children with it; their runs end as `killed`, and a new one is started immediately.
It is also replaced regularly, because all children of a zygote have the same address space layout.
"""

import contextlib
import contextvars
import functools
import importlib.metadata
import importlib.util
import itertools
import json
import logging
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from evertick.base.errors import Misuse, SandboxUnavailable
from evertick.sandbox.frames import (
    HEADER,
    Called,
    EngineProtocol,
    JavaScriptProtocol,
    Logged,
    Malformed,
    Reply,
    Returned,
    Seal,
    Sleep,
    Stopped,
    cut,
)
from evertick.sandbox.hardening import KernelFeatures
from evertick.sandbox.javascript import EXIT_ENGINE, EXIT_MEMORY, EXIT_START
from evertick.sandbox.monty import VERSION, PythonProtocol
from evertick.sandbox.protocol import (
    LOG_LINE_BYTES,
    LOG_LINE_COST,
    Ended,
    HostCall,
    HostError,
    HostFunction,
    Isolation,
    Json,
    Kind,
    Language,
    Level,
    Limits,
    LogLine,
    Outcome,
    Parameter,
    ScriptError,
    ScriptRun,
    StopRun,
)

logger = logging.getLogger("evertick.sandbox")

BOOT: Final = """
import sys, types
package, library, control, monty = sys.argv[1:]
for name, path in (("evertick", package), ("evertick.sandbox", package + "/sandbox")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
if library:
    sys.path.append(library)
from evertick.sandbox.zygote import main
main(int(control), monty)
"""
"""The code of the zygote's Python: the packages are empty shells there, so that it loads only three modules."""
START_S: Final = 20.0
EXIT_S: Final = 10.0
"""The time limit for a zygote to report the end of a killed child; after it the zygote is replaced."""
ZYGOTE_RUNS: Final = 10_000
ZYGOTE_S: Final = 600.0
ENGINE_BYTES: Final = 18 << 20
"""The memory of a child before it runs the script."""
LEAST_BYTES: Final = 4 << 20
"""The smallest memory limit of an engine."""
STARTS: Final = 10
"""The number of attempts to start a child if zygotes die."""
IDLE_HELPERS: Final = 16
READ_BYTES: Final = 1 << 16
CALLS_MS: Final = 500
"""Processor time of the supervisor for a run, besides `cpu_ms`: a thousand calls need about a tenth of a second."""
REQUESTS_MAX: Final = 2_000
"""The limit of requests other than host calls, in addition to `host_calls`: imports, sleeps, unknown names."""
LOG_FACTOR: Final = 16
"""A script that logs this many times its `log_bytes` is ended; before that, further logs are dropped."""
NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,62}(\.[a-zA-Z][a-zA-Z0-9_]{0,62}){0,2}")
SIGNALS_OF_TIME: Final = {signal.SIGPROF, signal.SIGXCPU}
EXITS_OF_MEMORY: Final = {Language.JAVASCRIPT: EXIT_MEMORY, Language.PYTHON: 65}
"""The exit statuses of children without memory for a report."""
TYPES: Final[Mapping[Kind, tuple[tuple[type, ...], str]]] = {
    Kind.TEXT: ((str,), "a text"),
    Kind.INTEGER: ((int,), "a whole number"),
    Kind.NUMBER: ((int, float), "a number"),
    Kind.BOOLEAN: ((bool,), "true or false"),
    Kind.LIST: ((list,), "a list"),
    Kind.OBJECT: ((dict,), "an object"),
}


class Exit(NamedTuple):
    """The end of a child, as reported by the zygote."""

    signal: int
    status: int
    cpu_ms: int
    rss_kb: int


class DeadlinePassed(Exception):
    """The deadline of the run has passed."""


class ZygoteGone(Exception):
    """The zygote has died or was closed."""


class ActiveRun:
    """A run in progress."""

    def __init__(self, number: int, deadline: float) -> None:
        self.number = number
        self.deadline = deadline
        self.exit: Exit | None = None
        self.over = threading.Event()
        """Set when the zygote has reported the end of the child, or has died."""
        self.inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        """Messages to the run's thread besides its socket: sealed, done (of a host function), killed, gone."""
        self.killed = False

    def seconds_left(self) -> float:
        """Seconds until the deadline. Raises DeadlinePassed."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed
        return left


# --------------------------------------------------------------------------------------------------------------- zygote


class Zygote:
    """The supervisor's end of a zygote: its process, its socket, and the runs that it has."""

    def __init__(self, library: str, monty: str, on_death: Callable[["Zygote"], None]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        package = str(Path(__file__).parents[1])
        arguments = [sys.executable, "-I", "-S", "-c", BOOT, package, library, str(theirs.fileno()), monty]
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - no untrusted arguments
                arguments, env={}, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        ours.settimeout(START_S)
        try:
            hello = json.loads(ours.recv(READ_BYTES))
        except (OSError, ValueError) as error:
            ours.close()
            self.process.kill()
            self.process.wait()
            raise SandboxUnavailable("the sandbox's process does not start; see its standard error") from error
        ours.settimeout(None)
        self.control = ours
        self.features = KernelFeatures(*hello["features"])
        self.engines: dict[str, str] = hello["engines"]
        self.began = time.monotonic()
        self.started = 0
        self.lives: dict[int, ActiveRun] = {}
        self.lock = threading.Lock()
        self.dead = self.retired = False
        self._on_death = on_death
        threading.Thread(target=self._read, name="evertick-sandbox", daemon=True).start()

    @property
    def is_expired(self) -> bool:
        """Whether it has reached its age or its number of runs."""
        return self.started >= ZYGOTE_RUNS or time.monotonic() - self.began >= ZYGOTE_S

    def start(self, live: ActiveRun, run: ScriptRun) -> socket.socket:
        """Start the child of a run; return the supervisor's end of its socket. Raises ZygoteGone."""
        ours, theirs = socket.socketpair()
        message = {
            "run": live.number, "language": run.language.value, "niceness": run.niceness,
            "cpu_s": run.limits.cpu_ms / 1_000, "memory_bytes": run.limits.memory_bytes,
        }  # fmt: skip
        with theirs:
            with self.lock:
                if self.dead:
                    ours.close()
                    raise ZygoteGone
                self.lives[live.number] = live
                self.started += 1
            try:
                socket.send_fds(self.control, [json.dumps(message).encode()], [theirs.fileno()])
            except OSError as error:
                ours.close()
                self.dead = True  # set here before the reading thread notices it
                self.finish(live)
                raise ZygoteGone from error
        return ours

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. If the zygote has died, the message is lost, as are its children."""
        with contextlib.suppress(OSError):
            self.control.send(json.dumps(message).encode())

    def finish(self, live: ActiveRun) -> None:
        """Remove a run. A retired zygote ends after its last run."""
        with self.lock:
            self.lives.pop(live.number, None)
            last = self.retired and not self.lives
        if last:
            self.close()

    def retire(self) -> None:
        """End the process after its current runs."""
        with self.lock:
            self.retired = True
            last = not self.lives
        if last:
            self.close()

    def close(self) -> None:
        """End the process, and with it its children."""
        self.retired = True
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        while True:
            try:
                message = self.control.recv(READ_BYTES)
            except OSError:
                message = b""
            if not message:
                break
            self._handle(json.loads(message))
        with self.lock:
            self.dead = True
            lives = list(self.lives.values())
        self.process.kill()
        self.process.wait()
        self.control.close()
        for live in lives:
            live.inbox.put(("gone", None))
            live.over.set()
        self._on_death(self)

    def _handle(self, said: dict[str, Any]) -> None:
        with self.lock:
            live = self.lives.get(said.get("ended", said.get("sealed", said.get("failed", 0))))
        if live is None:
            return
        if "sealed" in said:
            live.inbox.put(("sealed", None))
            return
        if "failed" in said:
            logger.error("the sandbox cannot start a process: %s", said["reason"])
            live.exit = Exit(0, EXIT_START, 0, 0)
        else:
            live.exit = Exit(said["signal"], said["status"], said["cpu_ms"], said["rss_kb"])
        live.over.set()


# ---------------------------------------------------------------------------------------------------------- host calls


class Helpers:
    """Threads that call host functions; one that hangs is abandoned."""

    def __init__(self) -> None:
        self.idle: queue.SimpleQueue[queue.SimpleQueue[Callable[[], None]]] = queue.SimpleQueue()

    def submit(self, task: Callable[[], None]) -> None:
        try:
            tasks = self.idle.get_nowait()
        except queue.Empty:
            tasks = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(tasks,), name="evertick-sandbox-host", daemon=True).start()
        tasks.put(task)

    def _serve(self, tasks: "queue.SimpleQueue[Callable[[], None]]") -> None:
        while True:
            tasks.get()()
            if self.idle.qsize() >= IDLE_HELPERS:
                return
            self.idle.put(tasks)


def checked(parameters: Sequence[Parameter], arguments: Sequence[Json]) -> list[Json]:
    """The checked arguments for a host function. Raises TypeError if the script passed wrong ones."""
    if len(arguments) > len(parameters):
        raise TypeError(f"takes at most {len(parameters)} arguments, not {len(arguments)}")
    for parameter in parameters[len(arguments) :]:
        if parameter.required:
            raise TypeError(f"{parameter.name} is missing")
    given = [*arguments, *[None] * (len(parameters) - len(arguments))]
    return [_argument(parameter, value) for parameter, value in zip(parameters, given, strict=True)]


def _argument(parameter: Parameter, value: Json) -> Json:
    name, kind = parameter.name, parameter.kind
    if value is None:
        if parameter.required and kind is not Kind.JSON:
            raise TypeError(f"{name} is missing")
        return None
    if kind is not Kind.JSON:
        types, words = TYPES[kind]
        if kind is Kind.INTEGER and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, types) or (isinstance(value, bool) and kind is not Kind.BOOLEAN):
            raise TypeError(f"{name} must be {words}")
    if parameter.max_bytes is not None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text.encode()) > parameter.max_bytes:
            raise TypeError(f"{name} has more than {parameter.max_bytes} bytes")
    return value


# -------------------------------------------------------------------------------------------------------------- one run


class Conversation:
    """The supervisor's side of one run, in the thread of its caller."""

    def __init__(
        self, run: ScriptRun, live: ActiveRun, protocol: EngineProtocol, zygote: Zygote, helpers: Helpers
    ) -> None:
        self.run, self.live, self.protocol, self.zygote, self.helpers = run, live, protocol, zygote, helpers
        self.began = time.monotonic()
        self.began_cpu = time.thread_time()
        self.logs: list[LogLine] = []
        self.log_bytes = 0
        self.logs_cut = False
        self.calls: Counter[str] = Counter()
        self.turns = 0
        self.buffer = bytearray()

    def converse(self, child: socket.socket) -> Returned | Stopped | None:
        """Exchange frames until the run has ended; None if the child ended without a report."""
        try:
            self._send(child, self.protocol.begin())
            while True:
                events = self._read(child)
                # The supervisor's own processor time for a child is limited, too: large frames are cheap to send.
                if (time.thread_time() - self.began_cpu) * 1_000 > self.run.limits.cpu_ms + CALLS_MS:
                    message = "the calls and logs of the script need more processor time than cpu_ms allows"
                    return Stopped(Outcome.TIMEOUT, "cpu_ms", ScriptError("", message))
                for event in events:
                    if isinstance(event, Returned | Stopped):
                        return event
                    if (stopped := self._process(child, event)) is not None:
                        return stopped
        except DeadlinePassed:
            return Stopped(Outcome.TIMEOUT, "wall_ms", None)
        except Malformed as error:
            logger.error("the child of run %s broke the protocol: %s", self.run.id, error)
            return Stopped(Outcome.VIOLATION, None, ScriptError("", f"the process of the script sent {error}"))
        except (ConnectionError, ZygoteGone):
            return None

    def _send(self, child: socket.socket, data: bytes) -> None:
        child.settimeout(self.live.seconds_left())
        try:
            child.sendall(data)
        except TimeoutError:
            raise DeadlinePassed from None

    def _receive(self, child: socket.socket, size: int) -> bytes:
        while len(self.buffer) < size:
            child.settimeout(self.live.seconds_left())
            try:
                part = child.recv(READ_BYTES)
            except TimeoutError:
                raise DeadlinePassed from None
            if not part:
                raise ConnectionError
            self.buffer += part
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    def _read(self, child: socket.socket) -> Sequence[Any]:
        (size,) = HEADER.unpack(self._receive(child, 4))
        if size > self.protocol.longest:
            return [self.protocol.oversized(self._receive(child, min(size, self.protocol.head)))]
        return self.protocol.read(self._receive(child, size))

    def _process(self, child: socket.socket, event: Any) -> Stopped | None:
        """Process an event; return the end of the run, or None if it continues."""
        if isinstance(event, Logged):
            self._log(event)
            if self.protocol.cuts_logs and self.log_bytes > LOG_FACTOR * self.run.limits.log_bytes + READ_BYTES:
                return Stopped(Outcome.LIMIT, "log_bytes", None)
            if event.reply:
                self._send(child, event.reply)
            return None
        self.turns += 1
        if self.turns > self.run.limits.host_calls + REQUESTS_MAX:
            return Stopped(Outcome.LIMIT, "host_calls", None)
        if isinstance(event, Called):
            reply = self._call(event)
            if isinstance(reply, Stopped):
                return reply
            self._send(child, reply)
        elif isinstance(event, Sleep):
            self._wait(min(event.seconds, self.live.seconds_left()))
            self._send(child, event.data)
        elif isinstance(event, Seal):
            self.zygote.send({"seal": self.live.number})
            self._wait(None)
            self._send(child, event.data)
        elif isinstance(event, Reply):
            self._send(child, event.data)
        return None

    def _log(self, line: Logged) -> None:
        left = self.run.limits.log_bytes - self.log_bytes - LOG_LINE_COST
        encoded = len(line.text.encode())
        self.log_bytes += encoded + LOG_LINE_COST
        if encoded > left:
            self.logs_cut = True
        if left > 0:
            self.logs_cut = self.logs_cut or encoded >= LOG_LINE_BYTES
            self.logs.append(LogLine(self._elapsed(), line.level, cut(line.text, left)))

    def _elapsed(self) -> int:
        return int((time.monotonic() - self.began) * 1_000)

    def _wait(self, seconds: float | None) -> Any:
        """Wait for a message, at most until the deadline; None if `seconds` have passed. Raises ZygoteGone."""
        left = self.live.seconds_left()
        try:
            kind, content = self.live.inbox.get(timeout=left if seconds is None else seconds)
        except queue.Empty:
            if seconds is None:
                raise DeadlinePassed from None
            return None
        if kind in {"gone", "killed"}:
            raise ZygoteGone
        return content

    def _call(self, call: Called) -> bytes | Stopped:
        limits = self.run.limits
        function = self.run.functions.get(call.name)
        if function is None:
            raise Malformed("a call of a function that the script was not given")
        self.calls[call.name] += 1
        if self.calls.total() > limits.host_calls:
            return Stopped(Outcome.LIMIT, "host_calls", None)
        try:
            if call.fault is not None:
                raise TypeError(str(call.fault))
            arguments = checked(function.parameters, call.arguments)
        except TypeError as error:
            return self.protocol.raised(call, "TypeError", f"{call.name}: {error}", "invalid_argument")
        host_call = HostCall(self.run.id, call.name, self.live.deadline, call.place)
        try:
            result = self._result(function, host_call, arguments)
            size = len(json.dumps(result, allow_nan=False).encode())
            if size > limits.argument_bytes:
                raise HostError(f"the result has {size} bytes, more than {limits.argument_bytes}", "too_large")
        except HostError as error:
            return self.protocol.raised(call, "HostError", str(error), error.code)
        except StopRun as stop:
            return Stopped(stop.outcome, stop.limit, ScriptError("", str(stop)) if str(stop) else None)
        except (DeadlinePassed, ZygoteGone):
            raise
        except BaseException as error:  # an error of the developer's function; the script does not get its details
            logger.error("the host function %s failed in run %s", call.name, self.run.id, exc_info=error)
            return self.protocol.raised(
                call, "HostError", f"{call.name} failed; the service's log says why", "internal"
            )
        finally:
            host_call.cancel()
        return self.protocol.returned(call, result)

    def _result(self, function: HostFunction, host_call: HostCall, arguments: list[Json]) -> Json:
        inbox, context = self.live.inbox, contextvars.copy_context()

        def task() -> None:
            try:
                done = True, context.run(function.call, host_call, *arguments)
            except BaseException as error:
                done = False, error
            inbox.put(("done", (host_call, *done)))

        self.helpers.submit(task)
        while True:
            of, fine, value = self._wait(None)
            if of is host_call:
                if fine:
                    return value
                raise value


class Sandbox:
    """Runs scripts, each in a separate process that ends with the run. Thread-safe, for many concurrent runs.

    It is started by its first use, or by `start`. It needs Linux.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._zygote: Zygote | None = None
        self._closed = False
        self._numbers = itertools.count(1)
        self._runs: dict[str, tuple[ActiveRun, Zygote]] = {}
        self._helpers = Helpers()
        self._process = os.getpid()
        self.restarts = 0
        """The number of zygotes that died and were replaced, without replacements by age."""

    def start(self) -> None:
        """Start the zygote and probe the isolation. Raises SandboxUnavailable."""
        self._current()

    def close(self) -> None:
        """Kill all runs, which end as `killed`, and end the zygote."""
        with self._lock:
            self._closed = True
            zygote, self._zygote = self._zygote, None
            runs = list(self._runs)
        for run_id in runs:
            self.kill(run_id)
        if zygote is not None:
            zygote.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                zygote.process.wait(START_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def isolation(self, language: Language) -> Isolation:
        """The probed isolation of a language; starts the zygote if needed. Raises SandboxUnavailable."""
        zygote = self._current()
        if language.value not in zygote.engines:
            return Isolation(Level.NONE, _missing(language))
        return isolation_of(language, zygote.features)

    def run(self, run: ScriptRun) -> Ended:
        """Run a script to its end, for little more than `limits.wall_ms` at most.

        Raises SandboxUnavailable, and Misuse for a run in progress, for invalid names in `ctx` and invalid limits.
        """
        _check_names(run.functions, run.context)
        return self._execute(run, "run")

    def check(self, language: Language, source: str, limits: Limits | None = None) -> ScriptError | None:
        """The syntax error of a source, checked in a child; None if there is none. Raises SandboxUnavailable."""
        run = ScriptRun(f"check-{next(self._numbers)}", language, source, {}, limits or Limits())
        ended = self._execute(run, "check")
        if ended.outcome is Outcome.OK:
            return None
        if ended.outcome in {Outcome.KILLED, Outcome.INTERNAL}:
            raise SandboxUnavailable("the check of the script was interrupted; try again")
        return ended.error or ScriptError("", f"the check of the script ended as {ended.outcome}")

    def kill(self, run_id: str) -> bool:
        """End a run as `killed`; return False if no such run is in progress."""
        with self._lock:
            found = self._runs.get(run_id)
        if found is None:
            return False
        live, zygote = found
        live.killed = True
        live.inbox.put(("killed", None))
        zygote.send({"kill": live.number})
        return True

    def _current(self) -> Zygote:
        if sys.platform != "linux":
            raise SandboxUnavailable("scripts run on Linux only")
        with self._lock:
            if self._closed or os.getpid() != self._process:
                raise SandboxUnavailable("the sandbox is closed, or it belongs to another process")
            zygote = self._zygote
            if zygote is None or zygote.dead or zygote.is_expired:
                fresh = self._zygote = Zygote(_library(), _monty(), self._died)
                if zygote is not None:
                    zygote.retire()
                return fresh
            return zygote

    def _died(self, zygote: Zygote) -> None:
        """Replace a zygote that died unexpectedly, so that the next run does not have to wait."""
        if zygote.retired:
            return
        logger.error("the sandbox's process died with status %s; a new one is started", zygote.process.returncode)
        with self._lock:
            self.restarts += 1
            if self._zygote is zygote and not self._closed:
                with contextlib.suppress(SandboxUnavailable):  # the next run tries again, and raises it
                    self._current()

    def _execute(self, run: ScriptRun, mode: str) -> Ended:
        limits = run.limits
        if min(limits) < 1 or limits.memory_bytes < LEAST_BYTES:
            raise Misuse(f"limits are at least 1, and memory_bytes at least {LEAST_BYTES}: {limits}")
        level = self.isolation(run.language).level
        if (refused := _refused(run)) is not None:
            return Ended(*refused, isolation=level)
        live = ActiveRun(next(self._numbers), time.monotonic() + limits.wall_ms / 1_000)
        protocol = _protocol(run, mode)
        child, zygote = self._begin(run, live)
        conversation = Conversation(run, live, protocol, zygote, self._helpers)
        try:
            with child:
                said = conversation.converse(child)
                wall_ms = conversation._elapsed()
                zygote.send({"kill": live.number})
            if not live.over.wait(EXIT_S):
                zygote.process.kill()
                live.over.wait(EXIT_S)
        finally:
            zygote.finish(live)
            with self._lock:
                self._runs.pop(run.id, None)
        end = said if said is not None else _silent(run, live)
        if live.killed and not isinstance(end, Returned):
            end = Stopped(Outcome.KILLED, None, None)
        result = end.text if isinstance(end, Returned) else None
        outcome, limit, error = (Outcome.OK, None, None) if isinstance(end, Returned) else end
        if outcome is Outcome.VIOLATION:
            logger.error("the script of run %s violated the protocol: it may have escaped its engine", run.id)
        used = live.exit or Exit(0, 0, 0, 0)
        return Ended(
            outcome,
            limit,
            result,
            error or _sentence(outcome, limit, limits),
            tuple(conversation.logs),
            conversation.logs_cut,
            used.cpu_ms,
            wall_ms,
            used.rss_kb,
            dict(conversation.calls),
            level,
            _engine(run.language),
        )

    def _begin(self, run: ScriptRun, live: ActiveRun) -> tuple[socket.socket, Zygote]:
        for _ in range(STARTS):
            zygote = self._current()
            if run.language.value not in zygote.engines:
                raise SandboxUnavailable(_missing(run.language))
            with self._lock:
                if run.id in self._runs:
                    raise Misuse(f"the run {run.id!r} is already in progress")
                self._runs[run.id] = live, zygote
            try:
                return zygote.start(live, run), zygote
            except ZygoteGone:
                with self._lock:
                    del self._runs[run.id]
        raise SandboxUnavailable("the sandbox's process died {STARTS} times in a row")


def isolation_of(language: Language, features: KernelFeatures) -> Isolation:
    """The isolation of the children of a language on this kernel."""
    filtered = features.seccomp and (features.listener or language is Language.JAVASCRIPT)
    missing = [
        *([] if filtered else ["seccomp" if not features.seccomp else "listeners of seccomp (Linux 5.5)"]),
        *([] if features.landlock else ["Landlock (Linux 5.13)"]),
    ]
    level = Level.FULL if not missing else Level.PARTIAL if filtered or features.landlock else Level.NONE
    return Isolation(level, f"the kernel has no {' and no '.join(missing)}" if missing else "")


def _protocol(run: ScriptRun, mode: str) -> EngineProtocol:
    if run.language is Language.PYTHON:
        return PythonProtocol(run.source, list(run.functions), run.context, run.limits, mode, run.now_ms)
    names = [(name, function.awaited) for name, function in run.functions.items()]
    return JavaScriptProtocol(run.source, names, run.context, run.limits, mode, run.now_ms)


def _refused(run: ScriptRun) -> tuple[Outcome, str | None, None, ScriptError] | None:
    """The end of a run whose source is refused before a process is started; None if it is accepted."""
    size = len(run.source.encode(errors="surrogatepass"))
    if size > run.limits.source_bytes:
        message = f"the script has {size} bytes; the limit source_bytes is {run.limits.source_bytes}"
        return Outcome.LIMIT, "source_bytes", None, ScriptError("", message)
    try:
        run.source.encode()
    except UnicodeEncodeError:
        return Outcome.ERROR, None, None, ScriptError("SyntaxError", "the script contains a lone surrogate (\\ud83d)")
    return None


def _silent(run: ScriptRun, live: ActiveRun) -> Stopped:
    """The end of a run whose child reported nothing, derived from the kernel's report."""
    end = live.exit
    if end is None or live.killed:
        return Stopped(Outcome.KILLED, None, None)
    if end.signal in SIGNALS_OF_TIME or (end.signal == signal.SIGKILL and end.cpu_ms >= run.limits.cpu_ms):
        return Stopped(Outcome.TIMEOUT, "cpu_ms", None)
    if end.signal == signal.SIGSYS:
        return Stopped(
            Outcome.VIOLATION, None, ScriptError("", "the process of the script made a forbidden system call")
        )
    grown = end.rss_kb * 1_024 - ENGINE_BYTES
    if end.status == EXITS_OF_MEMORY[run.language] or (end.signal and grown > run.limits.memory_bytes // 2):
        return Stopped(Outcome.MEMORY, "memory_bytes", None)
    if end.signal == signal.SIGKILL:
        return Stopped(Outcome.KILLED, None, None)
    if end.status == EXIT_START:
        return Stopped(Outcome.INTERNAL, None, ScriptError("", "the process of the script did not start"))
    if end.signal or end.status == EXIT_ENGINE:
        message = f"the engine crashed ({signal.Signals(end.signal).name if end.signal else 'a panic'})"
        return Stopped(Outcome.CRASH, None, ScriptError("", message))
    return Stopped(Outcome.VIOLATION, None, ScriptError("", "the process of the script ended without a report"))


def _sentence(outcome: Outcome, limit: str | None, limits: Limits) -> ScriptError | None:
    """The message for an outcome without an error of the script."""
    if outcome is Outcome.OK:
        return None
    if limit in Limits._fields:
        return ScriptError("", f"the script exceeded its limit {limit} of {getattr(limits, limit)}")
    if limit is not None:
        return ScriptError("", f"the script exceeded its limit {limit}")
    return ScriptError(
        "", "the run was ended by the service" if outcome is Outcome.KILLED else f"the run ended as {outcome}"
    )


def _check_names(functions: Mapping[str, HostFunction], context: Mapping[str, Json]) -> None:
    """Raise Misuse for invalid or duplicate names in `ctx`."""
    taken = {"log", *context}
    for name in [*functions, *context]:
        if not NAME.fullmatch(name):
            raise Misuse(
                f"{name!r} is not a name for ctx: use letters, digits and _, with dots between at most three words"
            )
    for name in functions:
        words = name.split(".")
        if words[0] in taken or any(".".join(words[:count]) in functions for count in range(1, len(words))):
            raise Misuse(f"ctx already has {words[0]!r}, so it cannot have the function {name!r}")


def _missing(language: Language) -> str:
    package = "jsbox" if language is Language.JAVASCRIPT else f"pydantic-monty=={VERSION}"
    return f"scripts in {language} need the package {package}: pip install 'evertick[scripts]'"


def _library() -> str:
    """The directory from which the zygote imports the JavaScript engine; empty without it."""
    found = importlib.util.find_spec("jsbox")
    return str(Path(found.origin).parents[1]) if found is not None and found.origin else ""


def _monty() -> str:
    """The path of the Python engine; empty without it, or if it has another version."""
    try:
        package = importlib.metadata.distribution("pydantic-monty-runtime")
    except importlib.metadata.PackageNotFoundError:
        return ""
    if package.version != VERSION:
        return ""
    programs = [Path(str(file.locate())) for file in package.files or () if file.name == "monty"]
    return str(programs[0].resolve()) if programs else ""


@functools.cache
def _engine(language: Language) -> str:
    if language is Language.PYTHON:
        return f"monty {VERSION}"
    return f"quickjs-ng (jsbox {importlib.metadata.version('jsbox')})"
