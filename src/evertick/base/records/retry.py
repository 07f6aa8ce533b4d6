"""The retry policy of a job: how often a failed attempt is tried again, and how far apart."""

import json
from dataclasses import dataclass
from typing import Final, Self

from evertick.base.errors import Misuse, SchemaMismatch
from evertick.base.instants import DAY_MS
from evertick.base.records.stored import Codec

ATTEMPTS_MAX: Final = 1000
FLOOR_MS: Final = 1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how far apart.

    `attempts_max` counts the first try too. The wait after failure number n is `first_ms * factor ** (n - 1)`, at
    most `cap_ms`, times a chance in [1 - jitter, 1 + jitter).
    """

    attempts_max: int
    first_ms: int = 250
    factor: float = 2.0
    cap_ms: int = DAY_MS
    jitter: float = 0.5

    def __post_init__(self) -> None:
        for name in ("attempts_max", "first_ms", "cap_ms"):
            if type(getattr(self, name)) is not int:
                raise Misuse(f"{name} of a retry policy must be a whole number, not {getattr(self, name)!r}")
        for name in ("factor", "jitter"):
            if type(getattr(self, name)) not in (int, float):
                raise Misuse(f"{name} of a retry policy must be a number, not {getattr(self, name)!r}")
        if not 1 <= self.attempts_max <= ATTEMPTS_MAX:
            raise Misuse(f"a retry policy takes 1 to {ATTEMPTS_MAX} attempts, not {self.attempts_max}")
        if self.first_ms < FLOOR_MS:
            raise Misuse(f"the first wait of a retry policy must be at least {FLOOR_MS} ms, not {self.first_ms}")
        if not 1.0 <= self.factor <= 100.0:
            raise Misuse(f"the factor of a retry policy must be from 1 to 100, not {self.factor}")
        if self.cap_ms < self.first_ms:
            raise Misuse(f"the longest wait ({self.cap_ms} ms) is shorter than the first ({self.first_ms} ms)")
        if not 0.0 <= self.jitter <= 0.5:
            raise Misuse(f"the jitter of a retry policy must be from 0 to 0.5, not {self.jitter}")

    def to_json(self) -> str:
        """The policy as JSON text."""
        return json.dumps([self.attempts_max, self.first_ms, self.factor, self.cap_ms, self.jitter])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The policy that `to_json` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = json.loads(text)
        if isinstance(values, dict):  # version 1 is a list
            raise SchemaMismatch("a retry policy was written by a newer release; update this one")
        return cls(*values)


def retry_of_run(workflow: str) -> Misuse:
    """The error for a retry policy of a whole run."""
    return Misuse(
        f"retry= is for mutations and actions: a run of {workflow} keeps what its steps returned, so it would fail "
        "again in the same way; give it to its steps: step.using(retry=...)"
    )


RETRY: Final = Codec(RetryPolicy.to_json, RetryPolicy.from_json)
