"""Rows of workflow runs beside their jobs and journals: what identifies a run, and the messages it is sent."""

import json
from enum import StrEnum
from typing import Final, NamedTuple

from evertick.base.ids import JobId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.outcomes import Raised, Returned

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
