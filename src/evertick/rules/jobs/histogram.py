"""Spreads: many durations as counts in buckets of growing width, from which quantiles are computed.

Each power of two has four buckets, so a quantile is exact to an eighth. A spread of any number of durations has at most
a few dozen counts, and spreads of several workers can be added.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping

Spread = Mapping[int, int]
"""The number of durations in each bucket."""


def bucket_of(milliseconds: int) -> int:
    """The bucket of a duration."""
    if milliseconds <= 0:
        return 0
    bits = milliseconds.bit_length()
    return 4 * bits + (milliseconds << 3 >> bits & 3)


def duration_of(bucket: int) -> int:
    """A duration in the middle of a bucket, in milliseconds."""
    bits, quarter = divmod(bucket, 4)
    low, high = ((part << bits >> 3) for part in (4 + quarter, 5 + quarter))
    return (low + max(low, high - 1)) // 2


def quantile_ms(spread: Spread, share: float) -> int | None:
    """The duration that a share (such as 0.99) of all durations does not exceed. None if there are none."""
    left = share * sum(spread.values())
    for bucket in sorted(spread):
        left -= spread[bucket]
        if left <= 0:
            return duration_of(bucket)
    return None


def spread_to_text(spread: Spread) -> str:
    """The spread as JSON text."""
    return json.dumps({str(bucket): spread[bucket] for bucket in sorted(spread)}, separators=(",", ":"))


def spread_of_texts(texts: Iterable[str | None]) -> Counter[int]:
    """The sum of spreads that `spread_to_text` wrote. A text that cannot be read is ignored: no page depends on it."""
    found: Counter[int] = Counter()
    for text in texts:
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            spread = {} if text is None else json.loads(text)
            found.update({int(bucket): int(count) for bucket, count in spread.items()})
    return found
