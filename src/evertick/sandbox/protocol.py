"""The values of the sandbox: the input, the limits and the result of a run.

Nothing here starts or controls a process. The supervisor (`pool.py`) enforces the limits, because a compromised child
would not; the children get them only to fail early and with a better message.
"""

import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

Json = Any  # None, bool, int, float, str, list or dict, as `json.loads` makes them


class Language(StrEnum):
    """The language of a script."""

    JAVASCRIPT = "javascript"
    PYTHON = "python"


class Outcome(StrEnum):
    """The outcome of a run. Scripts can cause all but the last two; only `violation` and `crash` suggest an attack."""

    OK = "ok"
    ERROR = "error"
    """The script raised an error, which is in `Ended.error`."""
    TIMEOUT = "timeout"
    """The limit is `cpu_ms` or `wall_ms`."""
    MEMORY = "memory"
    OUTPUT = "output"
    """The result is too large or is not JSON: `result_bytes`, `result_depth`, `result_number`, `result_text`."""
    LIMIT = "limit"
    """A countable limit: `host_calls`, `source_bytes`, or the `limit` of a `StopRun`."""
    VIOLATION = "violation"
    """The child did something no script can do: a forbidden system call, or a frame outside of the protocol."""
    CRASH = "crash"
    """The engine crashed, and memory was not the reason."""
    KILLED = "killed"
    """The service ended the run: `Sandbox.kill`, `Sandbox.close`, or the death of the zygote."""
    INTERNAL = "internal"
    """The sandbox could not be prepared; the customer's code was not started."""


class Limits(NamedTuple):
    """The limits of one run. Sizes are bytes of UTF-8, counted by the supervisor."""

    cpu_ms: int = 1_000
    wall_ms: int = 10_000
    memory_bytes: int = 64 << 20
    result_bytes: int = 256 << 10
    log_bytes: int = 256 << 10
    argument_bytes: int = 1 << 20
    """The limit of all arguments of one host call, and of its result."""
    host_calls: int = 1_000
    source_bytes: int = 256 << 10


RESULT_DEPTH: Final = 64
"""The nesting limit of lists and objects in results and arguments."""
INTEGER_DIGITS: Final = 1_000
"""The digits of the longest integer in a result or an argument."""
MESSAGE_BYTES: Final = 2 << 10
"""The length limit of an error's message; the rest is cut."""
STACK_BYTES: Final = 4 << 10
LOG_LINE_BYTES: Final = 4 << 10
LOG_LINE_COST: Final = 16
"""The bytes that a line adds to `log_bytes` besides its text: empty lines cost memory, too."""


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
    """One argument of a host function, which the supervisor checks before the call."""

    name: str
    kind: Kind = Kind.JSON
    required: bool = True
    """If False, a script may omit it, or pass null (None); the function then gets None."""
    max_bytes: int | None = None
    """The limit of a text, or of the JSON of another value; None means only `Limits.argument_bytes`."""


class Place(NamedTuple):
    """A place in a script; lines and columns count from 1."""

    line: int | None
    column: int | None


NOWHERE: Final = Place(None, None)
"""The place of a call if the engine does not report it."""


class HostCall:
    """The call of a host function: its run and its deadline.

    The run does not wait beyond its deadline. A long function checks `cancelled` between its steps, or uses
    `remaining_ms()` as a timeout; later results are dropped.
    """

    def __init__(self, run_id: str, name: str, deadline: float, place: Place = NOWHERE) -> None:
        self.run_id = run_id
        self.name = name
        self.place = place
        """The place of the call in the script."""
        self.deadline = deadline
        """By the clock `time.monotonic()`."""
        self._canceled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether the call is over: the run has ended, or its deadline has passed."""
        return self._canceled.is_set() or time.monotonic() >= self.deadline

    def remaining_ms(self) -> int:
        """Milliseconds until the deadline of the run; 0 if it has ended."""
        return 0 if self._canceled.is_set() else max(0, int((self.deadline - time.monotonic()) * 1_000))

    def cancel(self) -> None:
        """Mark the call as over. Called by the supervisor."""
        self._canceled.set()


class HostFunction(NamedTuple):
    """A function of the host that a script may call as `ctx.<name>`; names may have dots: `db.get`.

    `call(host_call, *arguments)` runs in a thread of the supervisor and returns a value of JSON. It may raise
    `HostError`, which the script can catch, or `StopRun`, which it cannot. Other exceptions are written to the
    log of the service; the script learns only that there was one.
    """

    call: Callable[..., Json]
    parameters: tuple[Parameter, ...] = ()
    awaited: bool = True
    """Whether it returns a promise in JavaScript, or else the value itself, as `ctx.time.format`. In Python it is never
    awaited.
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
    """One run of a script. `id` is the caller's, unique among the runs in progress; `Sandbox.kill` takes it."""

    id: str
    language: Language
    source: str
    context: Mapping[str, Json]
    """The members of `ctx` that are not functions: `input`, `run`, `tenant`."""
    limits: Limits = Limits()
    functions: Mapping[str, HostFunction] = {}
    """The functions of `ctx` by dotted name. The script can call no others."""
    now_ms: int | None = None
    """The time of the script's clock, which then stands still; None means the machine's clock."""
    niceness: int = 0
    """The niceness of its process, as for `os.nice`."""


class LogLine(NamedTuple):
    """A line that a script has logged, `at_ms` after its start."""

    at_ms: int
    level: str
    """debug, info, warning or error."""
    text: str


class ScriptError(NamedTuple):
    """An error of a script; lines and columns of the script count from 1."""

    name: str
    message: str
    stack: str = ""
    line: int | None = None
    column: int | None = None


class Level(StrEnum):
    """How well the process that runs a script is isolated."""

    FULL = "full"
    """Code that has taken over the engine can reach nothing: seccomp, Landlock, limits, no descriptors."""
    PARTIAL = "partial"
    """Some protections are missing; `Isolation.reason` lists them."""
    NONE = "none"
    """No protection except the engine itself."""


class Isolation(NamedTuple):
    """The probed isolation of one language on this machine."""

    level: Level
    reason: str = ""
    """The reason why it is not `full`; empty if it is."""


class Ended(NamedTuple):
    """The result of a run, and the resources that it used."""

    outcome: Outcome
    limit: str | None = None
    """The name of the limit that was exceeded: a field of `Limits`, `result_depth`, or the `limit` of a `StopRun`."""
    result: str | None = None
    """JSON text, if the outcome is OK."""
    error: ScriptError | None = None
    """The error of the script, or a message about the limit."""
    logs: tuple[LogLine, ...] = ()
    logs_cut: bool = False
    """Whether lines or parts of lines are missing because of `log_bytes` and the like."""
    cpu_ms: int = 0
    """The child's processor time, by the kernel. The supervisor's processor time is limited, but not included."""
    wall_ms: int = 0
    max_rss_kb: int = 0
    host_calls: Mapping[str, int] = {}
    isolation: Level = Level.NONE
    engine: str = ""
    """For example `quickjs-ng (jsbox 0.1.3)`."""
