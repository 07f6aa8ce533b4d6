"""The words of the sandbox: what a run is given, what it may use, and how it ended.

Everything here is a value without behaviour that touches a process. The supervisor (`pool.py`) enforces the limits,
because a child that was taken over would not; the children learn them only to fail early and with a better message.
"""

import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

Json = Any  # None, bool, int, float, str, list or dict, as `json.loads` makes them


class Language(StrEnum):
    """What a script is written in."""

    JAVASCRIPT = "javascript"
    PYTHON = "python"


class Outcome(StrEnum):
    """How a run ended. Customers can cause all but the last two; only `violation` and `crash` suggest an attack."""

    OK = "ok"
    ERROR = "error"
    """The script raised an error of its own; `Ended.error` has it."""
    TIMEOUT = "timeout"
    """The limit is `cpu_ms` or `wall_ms`."""
    MEMORY = "memory"
    OUTPUT = "output"
    """The result is too large or is not JSON: `result_bytes`, `result_depth`, `result_number`, `result_text`."""
    LIMIT = "limit"
    """A countable limit: `host_calls`, `source_bytes`, or one that a host function has named with `StopRun`."""
    VIOLATION = "violation"
    """The child did what no script can do: a forbidden system call, or a frame that is not of the protocol."""
    CRASH = "crash"
    """The engine crashed, and memory was not the reason."""
    KILLED = "killed"
    """The service ended the run: `Sandbox.kill`, `Sandbox.close`, or the death of the zygote."""
    INTERNAL = "internal"
    """The sandbox could not be prepared; the customer's code was not started."""


class Limits(NamedTuple):
    """What one run may use. Sizes are bytes of UTF-8, counted by the supervisor."""

    cpu_ms: int = 1_000
    wall_ms: int = 10_000
    memory_bytes: int = 64 << 20
    result_bytes: int = 256 << 10
    log_bytes: int = 256 << 10
    argument_bytes: int = 1 << 20
    """Of all arguments of one call of a host function, and of its result."""
    host_calls: int = 1_000
    source_bytes: int = 256 << 10


RESULT_DEPTH: Final = 64
"""How deep lists and objects may be inside of each other, in results and arguments."""
INTEGER_DIGITS: Final = 1_000
"""The digits of the longest integer in a result or an argument."""
MESSAGE_BYTES: Final = 2 << 10
"""The longest message of an error; the rest is cut."""
STACK_BYTES: Final = 4 << 10
LOG_LINE_BYTES: Final = 4 << 10
LOG_LINE_COST: Final = 16
"""What a line counts in addition to its text, in `Limits.log_bytes`: empty lines cost memory, too."""


class Kind(StrEnum):
    """The type of a parameter of a host function."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    OBJECT = "object"
    JSON = "json"
    """Any value of JSON."""


class Parameter(NamedTuple):
    """One argument of a host function, as the supervisor checks it before the function is called."""

    name: str
    kind: Kind = Kind.JSON
    required: bool = True
    """Otherwise a script may leave it out, or pass null (None); the function then gets None."""
    max_bytes: int | None = None
    """Of a text, or of the JSON of another value; None leaves it to `Limits.argument_bytes`."""


class Place(NamedTuple):
    """A place in a script; lines and columns begin at 1."""

    line: int | None
    column: int | None


NOWHERE: Final = Place(None, None)
"""The place that an engine does not report."""


class HostCall:
    """What a host function learns about its call: whose it is, and until when it is worth anything.

    The run does not wait beyond its deadline. A function that takes long asks `cancelled` between its steps, or passes
    `remaining_ms()` to what it waits for; what it returns afterwards is dropped.
    """

    def __init__(self, run_id: str, name: str, deadline: float, place: Place = NOWHERE) -> None:
        self.run_id = run_id
        self.name = name
        self.place = place
        """Where in the script the call is."""
        self.deadline = deadline
        """On the clock `time.monotonic()`."""
        self._canceled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether the call is over: the run has ended, or its deadline has passed."""
        return self._canceled.is_set() or time.monotonic() >= self.deadline

    def remaining_ms(self) -> int:
        """Milliseconds until the deadline of the run; 0 if it has ended."""
        return 0 if self._canceled.is_set() else max(0, int((self.deadline - time.monotonic()) * 1_000))

    def cancel(self) -> None:
        """Nothing that the function still does is of use; the supervisor says so."""
        self._canceled.set()


class HostFunction(NamedTuple):
    """A function of the host that a script may call as `ctx.<name>`; names may have dots: `db.get`.

    `call(host_call, *arguments)` runs in a thread of the supervisor and returns a value of JSON. It may raise
    `HostError`, which the script can catch, or `StopRun`, which it cannot. Of other exceptions the script learns
    nothing but that there was one; the log of the service has them.
    """

    call: Callable[..., Json]
    parameters: tuple[Parameter, ...] = ()
    awaited: bool = True
    """Whether it returns a promise in JavaScript; otherwise the value itself, as for `ctx.time.format`. In Python, it
    is never awaited.
    """


class HostError(Exception):
    """A failure of a host function that the script may catch: an Error with `code` in JavaScript."""

    def __init__(self, message: str, code: str = "host_error") -> None:
        super().__init__(message)
        self.code = code


class StopRun(Exception):
    """Raised by a host function to end the run at once: a quota was exceeded, or the run has lost its claim."""

    def __init__(self, outcome: Outcome, limit: str | None = None, message: str = "") -> None:
        super().__init__(message)
        self.outcome = outcome
        self.limit = limit


class ScriptRun(NamedTuple):
    """One run of a script. `id` is the caller's, unique among the runs that are under way; `Sandbox.kill` takes it."""

    id: str
    language: Language
    source: str
    context: Mapping[str, Json]
    """What `ctx` has apart from functions: `input`, `run`, `tenant`."""
    limits: Limits = Limits()
    functions: Mapping[str, HostFunction] = {}
    """By dotted name: what this script was given. `ctx` is made from it, and nothing else can be called."""
    now_ms: int | None = None
    """What the script's clock shows, which then stands still; None is the machine's clock."""
    niceness: int = 0
    """How much its process leaves the processors to others, as `os.nice` takes it."""


class LogLine(NamedTuple):
    """A line that a script has logged, `at_ms` after its start."""

    at_ms: int
    level: str
    """debug, info, warning or error."""
    text: str


class ScriptError(NamedTuple):
    """An error of a script, with the customer's own lines; both begin at 1."""

    name: str
    message: str
    stack: str = ""
    line: int | None = None
    column: int | None = None


class Level(StrEnum):
    """How well a child is walled in."""

    FULL = "full"
    """Code that has taken over the engine reaches nothing: seccomp, Landlock, limits, no descriptors."""
    PARTIAL = "partial"
    """Some walls are missing; `Isolation.reason` names them."""
    NONE = "none"
    """No wall but the engine's own."""


class Isolation(NamedTuple):
    """What was probed on this machine for one language."""

    level: Level
    reason: str = ""
    """Why it is not `full`; empty if it is."""


class Ended(NamedTuple):
    """How a run ended, and what it used."""

    outcome: Outcome
    limit: str | None = None
    """The name of the limit that was exceeded: a field of `Limits`, `result_depth`, or what `StopRun` named."""
    result: str | None = None
    """JSON text, if the outcome is OK."""
    error: ScriptError | None = None
    """Of the script itself, or a sentence about the limit."""
    logs: tuple[LogLine, ...] = ()
    logs_cut: bool = False
    """Whether lines or parts of lines are missing because of `log_bytes` and the like."""
    cpu_ms: int = 0
    """Of the child, by the kernel's account. What it makes the supervisor compute is limited, but not part of this."""
    wall_ms: int = 0
    max_rss_kb: int = 0
    host_calls: Mapping[str, int] = {}
    isolation: Level = Level.NONE
    engine: str = ""
    """`quickjs-ng (jsbox 0.1.3)`."""
