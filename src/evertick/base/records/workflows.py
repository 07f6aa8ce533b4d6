"""The journal of a workflow's run: one row for each event, in the order in which the run's code saw them.

A run is described by its journal alone: delivered again in the same order, the rows lead the same code to the same
calls. Rows are only added. Their positions count from 0 without a gap.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from evertick.base.errors import LimitExceeded, Misuse, ValueTooLarge
from evertick.base.ids import JobId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.options import shown
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.stored import size_of

ROW_BYTES: Final = 64
"""What a row counts in the size of a journal, beside its texts."""


class CallKind(StrEnum):
    """What the code of a workflow can call."""

    QUERY = "query"
    MUTATION = "mutation"
    ACTION = "action"
    JOB = "job"
    """A step that runs as a job of its own: in a pool, or with a retry policy."""
    WORKFLOW = "workflow"
    """A child workflow."""
    SLEEP = "sleep"
    TIMER = "timer"
    """A timer of asyncio: of `asyncio.sleep`, `asyncio.timeout` and `asyncio.wait_for`."""
    EVENT = "event"
    """Waiting for an event, with or without a timeout."""


IN_TRANSACTION: Final = frozenset({CallKind.QUERY, CallKind.MUTATION})
"""Calls that run inside the transaction that writes their row: call and outcome are one row."""
ELSEWHERE: Final = frozenset({CallKind.ACTION, CallKind.JOB, CallKind.WORKFLOW})
"""Calls that go on elsewhere when the code gives them up, so that giving up is an event of its own."""


class RowKind(StrEnum):
    """What happened."""

    START = "start"
    """The run began: the first row of each journal."""
    STEP = "step"
    """A query or mutation was called and has ended: call and outcome in one row."""
    CALL = "call"
    """Something else was called, and has begun."""
    END = "end"
    """What was called has ended."""
    DROP = "drop"
    """The code has given up a call that goes on elsewhere."""
    PATCH = "patch"
    """`patched` returned True."""
    CANCEL = "cancel"
    """The run was asked to cancel."""


DELIVERED: Final = frozenset({RowKind.START, RowKind.STEP, RowKind.END, RowKind.CANCEL})
"""Rows that make the code run. The others tell what it did then, and are in the same commit as the row before them."""


class Row(NamedTuple):
    """One event. `seq` is the number of the call, from 1; 0 for patch and cancel. That of a start is the last of the
    generation before.

    `arguments` is the fingerprint of a call's arguments. `due_at` is when a call ends by itself; of a row that is
    delivered, when the run was restarted behind it. `attempt` is the claim of the run under which an action was begun.
    `sender` is who sent the event with which a call has ended (`runs.Sender`, as text).
    A named tuple: there are many of them.
    """

    position: int
    kind: RowKind
    seq: int
    name: str
    at: Instant
    call: CallKind | None = None
    arguments: str = ""
    due_at: Instant | None = None
    attempt: int | None = None
    outcome: Returned | Raised | None = None
    sender: str | None = None

    @property
    def seen_at(self) -> Instant:
        """When the run's code saw a row that is delivered, and went on: as it happened, or at the restart behind it."""
        return self.at if self.due_at is None else self.due_at

    def restarted(self, at: Instant) -> "Row":
        """The same row as the last one that a restart keeps. One that is not delivered makes no code go on."""
        return self._replace(due_at=max(at, self.at)) if self.kind in DELIVERED else self

    @property
    def is_child(self) -> bool:
        """Whether a child workflow was called; the outcome then has its id."""
        return self.kind is RowKind.CALL and self.call is CallKind.WORKFLOW

    @property
    def size(self) -> int:
        """What the row counts in the size of its journal, in bytes."""
        size = ROW_BYTES + size_of(self.name)
        if isinstance(self.outcome, Returned):
            size += size_of(self.outcome.result)
        elif self.outcome is not None:
            size += sum(map(size_of, (self.outcome.type, self.outcome.message, self.outcome.traceback)))
            size += size_of(self.outcome.data or "")
        return size


# -- Rows of workflow runs beside their jobs and journals: what identifies a run, and the messages it is sent.

STEP: Final = "step"
"""The kind of a completion that tells a run: `name` is the run's id, `context` the number of the call that has
ended.
"""

TRY_AGAIN_MS: Final = MINUTE_MS
"""A run whose code does not fit its journal is tried again after this time: the code may have been mended. So is one
whose tenant has no room for the jobs of its steps: others may have ended.
"""


class RunRecord(NamedTuple):
    """What a run has beside its job, whose id it shares.

    `generation` counts how often it has continued as new; each has a journal of its own. `seed` is where its chance and
    ids come from. `parent_seq` is the number of the call by which its parent, the parent of its job, waits for it.
    `progress` is what its code last reported, `attributes` are those of the run, both as JSON text. `restarted_from` is
    the run of which it is the restart, or which it retries.
    """

    id: JobId
    seed: str
    generation: int = 0
    parent_seq: int | None = None
    progress: str | None = None
    attributes: str | None = None
    restarted_from: JobId | None = None

    @property
    def seed_of_generation(self) -> str:
        """The seed of the present generation."""
        return f"{self.seed}/{self.generation}" if self.generation else self.seed


class Sender(NamedTuple):
    """Who sent an event, as histories and the audit log name those who change something: `token ops`, `cli:ada`,
    `app shop`, `function shop.approve`. `job_id` is the job whose function sent it, or the run whose step did.
    """

    name: str
    job_id: JobId | None = None

    def to_text(self) -> str:
        """As a column has it."""
        return json.dumps(self[: 1 if self.job_id is None else 2])

    @classmethod
    def from_text(cls, text: str | None) -> "Sender | None":
        """From a column; None where an earlier release wrote none."""
        return None if text is None else cls(*json.loads(text))


class MessageKind(StrEnum):
    """What a message is about."""

    EVENT = "event"
    """An event that was sent; its value is the outcome's result."""
    ENDED = "ended"
    """A job or child workflow that the run called has ended."""
    CANCEL = "cancel"
    """The run is to cancel."""


class NewMessage(NamedTuple):
    """A message as it is sent. A run takes only one of those with the same `key`.

    `name` is that of an event; `seq` the number of the call that has ended. `sender` is a `Sender` as text.
    """

    run_id: JobId
    kind: MessageKind
    name: str = ""
    seq: int = 0
    outcome: Returned | Raised | None = None
    key: str | None = None
    sender: str | None = None


class SentEvent(NamedTuple):
    """An event that waits to be taken. `size` counts the characters of its value as JSON, `id` is the message's."""

    name: str
    key: str | None
    sent_at: Instant
    size: int
    id: int
    sender: Sender | None


class Message(NamedTuple):
    """A message that waits to be taken. Those of one run have growing ids, in the order in which they were sent."""

    id: int
    run_id: JobId
    kind: MessageKind
    name: str
    seq: int
    outcome: Returned | Raised | None
    sender: str | None = None


# -- The states of runs of workflows as others see them, and which runs a list is to show.


class RunState(StrEnum):
    """What others see of a run."""

    PENDING = "pending"
    """It has not begun."""
    RUNNING = "running"
    """It has begun, and works or waits."""
    PAUSED = "paused"
    """It takes no further step until it is resumed, whether it has begun or not."""
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"


OPEN: Final = (RunState.PENDING, RunState.RUNNING, RunState.PAUSED)
"""The states of runs that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of workflows to list. Every field that is set narrows the choice.

    `open_states` are those of OPEN; runs that have ended are chosen by the states of their jobs. `prefix` begins the
    key of a run, or its id. `attributes` are names with values as JSON text; a run has all of them. `started_from` is
    inside the range of moments, `started_until` is not. `roots` leaves out those that another run has called.
    """

    open_states: tuple[RunState, ...] = ()
    prefix: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    started_from: Instant | None = None
    started_until: Instant | None = None
    roots: bool = False


# -- Workflow types: whether a workflow of the code may be started. One that the database does not know is active.


class WorkflowStatus(StrEnum):
    """Whether runs of a workflow start. Runs that have begun go on, whatever it is."""

    ACTIVE = "active"
    PAUSED = "paused"
    """None starts until it is resumed; schedules skip their times."""
    DEPRECATED = "deprecated"
    """As paused, and meant to stay so."""
    DELETED = "deleted"
    """As deprecated, not listed, and its schedules are removed at their next time; crons of the code stay and skip."""


class WorkflowType(NamedTuple):
    """A workflow by its name, and the status it was given at `changed_at`."""

    name: str
    status: WorkflowStatus
    changed_at: Instant


# -- Attributes of workflow runs: a few names with plain values, by which lists find runs.

ATTRIBUTES_MAX: Final = 20
"""Attributes of one run."""
NAME_CHARS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 255
INTEGER_MAX: Final = 2**63 - 1

Value = str | int | bool
_INTEGER: Final = re.compile("-?(0|[1-9][0-9]{0,18})")
_NEXT: Final = r'(?=\s{1,20}[^\s="]+=|\Z)'
_WORD: Final = re.compile(rf'[^=]*=(?:".*?"{_NEXT}|.*?{_NEXT})', re.DOTALL)
"""A name, =, and a value up to the next name."""


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as they were given; None stands for one that is removed.

    Raises Misuse for names and values that cannot be, ValueTooLarge for a text that is too long.
    """
    if not isinstance(given, Mapping):
        raise Misuse(f"attributes are names with values, {{'customer': 'c7'}}, not {shown(given)}")
    for name, value in given.items():
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
            raise Misuse(
                f"{shown(name)} cannot name an attribute: it is printable text of 1 to {NAME_CHARS_MAX} characters"
            )
        _check_value(name, value)
    return dict(given)


def changed(attributes: Mapping[str, Value], changes: Mapping[str, Any]) -> dict[str, Value]:
    """Attributes after changes that are `checked`. Raises LimitExceeded if they are too many."""
    merged = {name: value for name, value in {**attributes, **changes}.items() if value is not None}
    if len(merged) > ATTRIBUTES_MAX:
        raise LimitExceeded(f"a run has at most {ATTRIBUTES_MAX} attributes, and these are {len(merged)}")
    return merged


def to_text(attributes: Mapping[str, Value]) -> str:
    """Attributes as JSON text, the same for the same ones; "" for none."""
    return json.dumps(attributes, sort_keys=True) if attributes else ""


def from_text(text: str | None) -> dict[str, Value]:
    """Attributes from `to_text`."""
    return json.loads(text) if text else {}


def value_text(value: Value) -> str:
    """A value as the index has it: JSON, so that 7, true and their texts differ."""
    return json.dumps(value, ensure_ascii=False)


def word_of(value: Value) -> str:
    """A value as a word of a command line or an address, which `from_word` reads as the same value."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if from_word(value) == value else f'"{value}"'


def from_word(word: str) -> Value:
    """The value of a word: 7 is a number, true and false are booleans, "7" in quotes is a text, and so is all else."""
    if word in ("true", "false"):
        return word == "true"
    if _INTEGER.fullmatch(word):
        return int(word)
    return word[1:-1] if _is_quoted(word) else word


def from_words(words: Sequence[str]) -> dict[str, Value]:
    """Attributes of the words of a command line or an address, `name=value`. Raises Misuse."""
    found: dict[str, Value] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise Misuse(f"an attribute is name=value, such as stage=paid, not {word[:100]!r}")
        if name in found:
            raise Misuse(f"the attribute {name[:100]!r} is there twice, and a run has one value of it")
        found[name] = from_word(value)
    return found


def words_of(attributes: Mapping[str, Value]) -> str:
    """Attributes as a line, which `words_in` takes apart: texts with a space are in quotes."""
    words = ((name, word_of(value)) for name, value in attributes.items())
    return " ".join(
        f'{name}="{word}"' if re.search(r"\s", word) and not _is_quoted(word) else f"{name}={word}"
        for name, word in words
    )


def words_in(line: str) -> list[str]:
    """The words `name=value` of a line, with spaces between; a value in quotes ends with them.

    A space before anything but another `name=` belongs to the value: `note=to be checked paid=true` are two words.
    """
    line, at, found = line.strip(), 0, list[str]()
    while at < len(line):
        word = _WORD.match(line, at)
        end = len(line) if word is None else word.end()
        found.append(line[at:end].strip())
        at = end
    return found


def _is_quoted(word: str) -> bool:
    return len(word) > 1 and word[0] == word[-1] == '"'


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, str):
        if len(value) > TEXT_CHARS_MAX:
            raise ValueTooLarge(
                f"the attribute {name!r} is a text of {len(value)} characters; the limit is {TEXT_CHARS_MAX}"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Misuse(f"the attribute {name!r} is a text with a lone surrogate, which has no UTF-8")
    elif type(value) is int:
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise Misuse(f"the attribute {name!r} is a number beyond 64 bits; write it as a text")
    elif value is not None and not isinstance(value, bool):
        raise Misuse(f"the attribute {name!r} is {type(value).__name__}; it takes str, int or bool, None to remove it")
