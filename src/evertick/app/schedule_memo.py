"""Memo: what is kept with a schedule beside its spec, target and state.

The user's own memo is a part of it. The rest is this floor's memory: what a definition looked like when it was given
(so that giving it again changes nothing), which requests were heard already, and where a cron was declared.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from evertick.base.errors import InvalidArguments, LimitExceeded
from evertick.base.instants import Instant

MEMO_BYTES_MAX: Final = 64 * 1024
EPOCH: Final = Instant(0)
REMEMBERED_MAX: Final = 100
"""Triggers and backfills of a schedule that can be asked about by their ids; the oldest are forgotten first."""

CODE: Final = "code"
RUN_TIME: Final = "run_time"


class KnownBackfill(NamedTuple):
    """A backfill as it was asked for. `times` is how many it asks for."""

    start_at: Instant
    end_at: Instant
    overlap: str | None
    times: int
    asked_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Memo:
    """The memo column. `spec_at` is since when the spec is what it is; `declared` a cron's spec before anchoring."""

    user: dict[str, Any] = field(default_factory=dict)
    request_id: str | None = None
    definition: str | None = None
    spec_at: Instant = EPOCH
    app: str | None = None
    source: str | None = None
    declared: str | None = None
    triggers: dict[str, Instant] = field(default_factory=dict)
    backfills: dict[str, KnownBackfill] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """As it is kept; what is empty is left out."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: value for name, value in values.items() if value not in (None, {}, 0)})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The memo of a schedule's row."""
        values: dict[str, Any] = json.loads(text)
        known = {name: value for name, value in values.items() if name in cls.__slots__}
        known["backfills"] = {name: KnownBackfill(*parts) for name, parts in known.get("backfills", {}).items()}
        return cls(**known)

    def with_trigger(self, request: str, at: Instant) -> Self:
        """The memo that remembers one more trigger."""
        return replace(self, triggers=_newest(self.triggers | {request: at}))

    def with_backfill(self, backfill_id: str, known: KnownBackfill) -> Self:
        """The memo that remembers one more backfill."""
        return replace(self, backfills=_newest(self.backfills | {backfill_id: known}))


def check_user_memo(memo: dict[str, Any] | None) -> dict[str, Any]:
    """The user's memo, if it can be kept. Raises InvalidArguments if it is not JSON, LimitExceeded if it is large."""
    if memo is None:
        return {}
    try:
        text = json.dumps(memo, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"the memo must be JSON: {error}") from error
    if not isinstance(memo, dict):
        raise InvalidArguments(f"the memo must be an object of JSON, not {type(memo).__name__}")
    if len(text) > MEMO_BYTES_MAX:
        raise LimitExceeded(f"the memo has {len(text)} bytes; the limit is {MEMO_BYTES_MAX}")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _newest(known: dict[str, Any]) -> dict[str, Any]:
    return dict(list(known.items())[-REMEMBERED_MAX:])
