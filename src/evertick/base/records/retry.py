"""The retry policy of a job: how often a failed attempt is tried again, and how far apart."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from evertick.base.errors import Misuse, SchemaMismatch
from evertick.base.instants import DAY_MS, HORIZON_MS
from evertick.base.options import Rule, check_options, number, one_of_type, whole
from evertick.base.records.stored import Codec

ATTEMPTS_MAX: Final = 1000
FLOOR_MS: Final = 1


RULES: Final[Mapping[str, Rule]] = {
    "attempts_max": whole(1, ATTEMPTS_MAX),
    "first_ms": whole(FLOOR_MS, HORIZON_MS),
    "factor": number(1, 100),
    "cap_ms": whole(FLOOR_MS, HORIZON_MS),
    "jitter": number(0, 0.5),
}
"""What the parts of a retry policy take."""


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
        check_options(RULES, {name: getattr(self, name) for name in RULES}, "a retry policy: ")
        if self.cap_ms < self.first_ms:
            raise Misuse(f"the longest wait ({self.cap_ms} ms) is shorter than the first ({self.first_ms} ms)")

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


IS_RETRY: Final = one_of_type(RetryPolicy, "a policy such as Retry(5)")
"""What `retry=` takes, wherever it is given."""
RETRY: Final = Codec(RetryPolicy.to_json, RetryPolicy.from_json)
