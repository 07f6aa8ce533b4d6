"""Retry: whether a failed attempt is tried again, and when.

The wait doubles (or grows by `factor`) from `first_ms`, never exceeds `cap_ms`, and is then spread by jitter around
itself. Unlike full jitter, which can draw a wait of nearly zero, the wait never falls below half of itself.
"""

import json
from dataclasses import dataclass
from typing import Final, Self

from evertick.base.errors import Misuse
from evertick.base.ids import Entropy
from evertick.base.instants import DAY_MS, Instant

ATTEMPTS_MAX: Final = 1000
FLOOR_MS: Final = 1
_EXPONENT_MAX: Final = 64


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
        """The policy as it is kept with a job."""
        return json.dumps([self.attempts_max, self.first_ms, self.factor, self.cap_ms, self.jitter])

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The policy of a job's row."""
        return cls(*json.loads(text))


def retry_delay_ms(failures: int, policy: RetryPolicy, entropy: Entropy) -> int:
    """Milliseconds to wait after failure number `failures` (counted from 1), at least `FLOOR_MS`.

    Raises Misuse if `failures` is below 1.
    """
    if failures < 1:
        raise Misuse(f"failures count from 1, not {failures}")
    grown = policy.first_ms * policy.factor ** min(failures - 1, _EXPONENT_MAX)
    wait = min(grown, float(policy.cap_ms))
    spread = wait * (1.0 - policy.jitter + 2.0 * policy.jitter * entropy.random())
    return max(FLOOR_MS, round(min(spread, float(policy.cap_ms))))


def next_attempt_at(failures: int, policy: RetryPolicy, now: Instant, entropy: Entropy) -> Instant | None:
    """When to try again after failure number `failures`, or None when the attempts are used up."""
    if failures >= policy.attempts_max:
        return None
    return Instant(now + retry_delay_ms(failures, policy, entropy))
