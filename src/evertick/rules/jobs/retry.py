"""Retry: whether a failed attempt is tried again, and when.

The wait doubles (or grows by `factor`) from `first_ms`, never exceeds `cap_ms`, and is then spread by jitter around
itself. Unlike full jitter, which can draw a wait of nearly zero, the wait never falls below half of itself.
"""

from typing import Final

from evertick.base.errors import Misuse
from evertick.base.ids import Entropy
from evertick.base.instants import Instant
from evertick.base.records.retry import FLOOR_MS, RetryPolicy

_EXPONENT_MAX: Final = 64


def retry_delay_ms(failures: int, policy: RetryPolicy, entropy: Entropy) -> int:
    """Milliseconds to wait after failure number `failures` (counted from 1), at least `FLOOR_MS`.

    Raises Misuse if `failures` is below 1.
    """
    wait = grown_ms(failures, policy)
    spread = wait * (1.0 - policy.jitter + 2.0 * policy.jitter * entropy.random())
    return max(FLOOR_MS, round(min(spread, float(policy.cap_ms))))


def grown_ms(failures: int, policy: RetryPolicy) -> float:
    """The wait after failure number `failures` before it is spread by jitter. Raises Misuse if that is below 1."""
    if failures < 1:
        raise Misuse(f"failures count from 1, not {failures}")
    return min(policy.first_ms * policy.factor ** min(failures - 1, _EXPONENT_MAX), float(policy.cap_ms))


def next_attempt_at(failures: int, policy: RetryPolicy, now: Instant, entropy: Entropy) -> Instant | None:
    """When to try again after failure number `failures`, or None when the attempts are used up."""
    if failures >= policy.attempts_max:
        return None
    return Instant(now + retry_delay_ms(failures, policy, entropy))
