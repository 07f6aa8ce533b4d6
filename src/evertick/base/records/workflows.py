"""The journal of a workflow's run: one row for each event, in the order in which the run's code saw them.

The journal completely describes a run: replayed in the same order, the rows lead the same code to the same calls. Rows
are only added. Their positions count from 0 without a gap.
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
"""The bytes that a row adds to the size of a journal, besides its texts."""


class CallKind(StrEnum):
    """The kind of a call that the code of a workflow makes."""

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
"""Calls that run in the transaction that writes their row: call and outcome are one row."""
BACKGROUND: Final = frozenset({CallKind.ACTION, CallKind.JOB, CallKind.WORKFLOW})
"""Calls that continue outside of the run when its code abandons them, so abandoning them is a separate event."""


class RowKind(StrEnum):
    """The kind of an event in the journal of a workflow's run."""

    START = "start"
    """The run began: the first row of each journal."""
    STEP = "step"
    """A query or mutation was called and has ended: call and outcome in one row."""
    CALL = "call"
    """Another kind of call has begun."""
    END = "end"
    """A call has ended."""
    DROP = "drop"
    """The code has abandoned a call that continues outside of the run."""
    PATCH = "patch"
    """`patched` returned True."""
    CANCEL = "cancel"
    """The run was asked to cancel."""


DELIVERED: Final = frozenset({RowKind.START, RowKind.STEP, RowKind.END, RowKind.CANCEL})
"""Rows that make the code run. The others record what it did then, and are in the same commit as the row before."""


class Row(NamedTuple):
    """One event of a run's journal.

    `seq` is the number of the call, from 1; it is 0 for a patch and for cancel. For a start it is the number of the
    last call before it. `arguments` is the fingerprint of the call's arguments. `due_at` is when a call ends by itself;
    for a delivered row it is the time of a restart after it, if there was one. `attempt` is the claim of the run under
    which an action was begun. `sender` is the sender of the event that ended the call, as the text of a `Sender`.

    A named tuple, because there are many of them.
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
        """The time at which the run's code received a delivered row: when it happened, or at the restart after it."""
        return self.at if self.due_at is None else self.due_at

    def restarted(self, at: Instant) -> "Row":
        """The row as the last one that a restart keeps. A row that is not delivered stays unchanged."""
        return self._replace(due_at=max(at, self.at)) if self.kind in DELIVERED else self

    @property
    def is_child(self) -> bool:
        """Whether a child workflow was called; its id is in the outcome."""
        return self.kind is RowKind.CALL and self.call is CallKind.WORKFLOW

    @property
    def size(self) -> int:
        """The bytes that the row adds to the size of its journal."""
        size = ROW_BYTES + size_of(self.name)
        if isinstance(self.outcome, Returned):
            size += size_of(self.outcome.result)
        elif self.outcome is not None:
            size += sum(map(size_of, (self.outcome.type, self.outcome.message, self.outcome.traceback)))
            size += size_of(self.outcome.data or "")
        return size


# -- Further rows of workflow runs: the record of a run, and the messages sent to it.

STEP: Final = "step"
"""The kind of a completion that notifies a run: `name` is the run's id, `context` the number of the call that has
ended.
"""

TRY_AGAIN_MS: Final = MINUTE_MS
"""A run whose code does not fit its journal is retried after this time: the code may have been corrected. So is a run
whose tenant has reached its limit of jobs: others may have ended.
"""


class RunRecord(NamedTuple):
    """The data of a workflow run that its job does not have. Both have the same id.

    `generation` counts how often it has continued as new; each generation has its own journal. `seed` is the source of
    its random numbers and ids. `parent_seq` is the number of the call with which the parent run waits for it.
    `progress` is what its code last reported, `attributes` are those of the run, both as JSON text. `restarted_from` is
    the run that it restarts or retries.
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
        """The seed of the current generation."""
        return f"{self.seed}/{self.generation}" if self.generation else self.seed


class Sender(NamedTuple):
    """Who sent an event, in the form of the actors in histories and the audit log: `token ops`, `cli:ada`,
    `app shop`, `function shop.approve`. `job_id` is the job whose function sent it, or the run whose step sent it.
    """

    name: str
    job_id: JobId | None = None

    def to_text(self) -> str:
        """The text for a column."""
        return json.dumps(self[: 1 if self.job_id is None else 2])

    @classmethod
    def from_text(cls, text: str | None) -> "Sender | None":
        """The sender in a column's text; None if an earlier release wrote none."""
        return None if text is None else cls(*json.loads(text))


class MessageKind(StrEnum):
    """The kind of a message to a run."""

    EVENT = "event"
    """An event that was sent; its value is the outcome's result."""
    ENDED = "ended"
    """A job or child workflow that the run called has ended."""
    CANCEL = "cancel"
    """The run is to cancel."""


class NewMessage(NamedTuple):
    """A message to send. A run takes only one message with the same `key`.

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


# -- The states of runs of workflows for users, and the filter of lists of runs.


class RunState(StrEnum):
    """The state of a workflow run, as shown to users."""

    PENDING = "pending"
    """It has not begun."""
    RUNNING = "running"
    """It has begun, and works or waits."""
    PAUSED = "paused"
    """It takes no further step until it is resumed. It may not have begun yet."""
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"


OPEN: Final = (RunState.PENDING, RunState.RUNNING, RunState.PAUSED)
"""The states of runs that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A filter of a list of runs. All fields that are set must match.

    `open_states` are those of OPEN; runs that have ended are selected by the states of their jobs. `prefix` is a prefix
    of the key or the id. `attributes` maps names to values as JSON text; all must match. `started_from` is inclusive,
    `started_until` exclusive. `roots` excludes runs that another run has called.
    """

    open_states: tuple[RunState, ...] = ()
    prefix: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    started_from: Instant | None = None
    started_until: Instant | None = None
    roots: bool = False


# -- Workflow types: whether a workflow may be started. One without a row in the database is active.


class WorkflowStatus(StrEnum):
    """Whether runs of a workflow start. Runs that have begun continue in every status."""

    ACTIVE = "active"
    PAUSED = "paused"
    """No run starts until it is resumed; schedules skip their times."""
    DEPRECATED = "deprecated"
    """As paused, and meant to be permanent."""
    DELETED = "deleted"
    """As deprecated, not listed, and its schedules are removed at their next time; crons in the code stay and skip."""


class WorkflowType(NamedTuple):
    """A workflow by its name, and the status it was given at `changed_at`."""

    name: str
    status: WorkflowStatus
    changed_at: Instant


# -- Attributes of workflow runs: names with plain values, for searching runs.

ATTRIBUTES_MAX: Final = 20
"""The largest number of attributes of one run."""
NAME_CHARS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 255
INTEGER_MAX: Final = 2**63 - 1

Value = str | int | bool
_INTEGER: Final = re.compile("-?(0|[1-9][0-9]{0,18})")
_NEXT: Final = r'(?=\s{1,20}[^\s="]+=|\Z)'
_WORD: Final = re.compile(rf'[^=]*=(?:".*?"{_NEXT}|.*?{_NEXT})', re.DOTALL)
"""A name, =, and a value up to the next name."""


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given attributes after a check; None removes an attribute.

    Raises Misuse for invalid names and values, ValueTooLarge for a text that is too long.
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
    """The attributes after changes that passed `checked`. Raises LimitExceeded if they are too many."""
    merged = {name: value for name, value in {**attributes, **changes}.items() if value is not None}
    if len(merged) > ATTRIBUTES_MAX:
        raise LimitExceeded(f"a run has at most {ATTRIBUTES_MAX} attributes, and these are {len(merged)}")
    return merged


def to_text(attributes: Mapping[str, Value]) -> str:
    """Attributes as canonical JSON text; "" for none."""
    return json.dumps(attributes, sort_keys=True) if attributes else ""


def from_text(text: str | None) -> dict[str, Value]:
    """Attributes from `to_text`."""
    return json.loads(text) if text else {}


def value_text(value: Value) -> str:
    """A value as JSON for the index, so that 7 and "7" differ."""
    return json.dumps(value, ensure_ascii=False)


def word_of(value: Value) -> str:
    """A value as a word of a command line or a URL; `from_word` returns the same value."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if from_word(value) == value else f'"{value}"'


def from_word(word: str) -> Value:
    """The value of a word: 7 is a number, true and false are booleans; "7" in quotes and everything else is a text."""
    if word in ("true", "false"):
        return word == "true"
    if _INTEGER.fullmatch(word):
        return int(word)
    return word[1:-1] if _is_quoted(word) else word


def from_words(words: Sequence[str]) -> dict[str, Value]:
    """The attributes in words `name=value` of a command line or a URL. Raises Misuse."""
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
    """Attributes as a line for `words_in`: texts with a space are in quotes."""
    words = ((name, word_of(value)) for name, value in attributes.items())
    return " ".join(
        f'{name}="{word}"' if re.search(r"\s", word) and not _is_quoted(word) else f"{name}={word}"
        for name, word in words
    )


def words_in(line: str) -> list[str]:
    """The words `name=value` of a line, separated by spaces; a value in quotes ends at the closing quote.

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
