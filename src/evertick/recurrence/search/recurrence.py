"""The compiled form of a spec, which finds its times.

Instants are integers of seconds since the Unix epoch. `next` and `prev` are strict, so iterating never repeats a time;
both return None only if there is no further time between the years 1 and 9999. Jitter is not applied here: these are
nominal times (see `jitter`).
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Final

from evertick.recurrence.search.exclusions import Exclusions
from evertick.recurrence.search.instant_rules import Bounded, InstantRule, Instants, Union
from evertick.recurrence.spec.civil import SECOND_MIN
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.zones.zones import Zone

_MERGED_FROM: Final = 4
"""With more rules than this, iteration caches the next time of each rule."""


class Recurrence:
    """All the times of a spec."""

    __slots__ = ("_empty", "_raw", "_whole", "exclusions", "next", "prev", "rules", "spec", "zone")

    next: Callable[[int], int | None]
    """`next(after)`: the first time later than the instant `after`, or None."""

    prev: Callable[[int], int | None]
    """`prev(before)`: the last time earlier than the instant `before`, or None."""

    def __init__(
        self,
        spec: Spec,
        zone: Zone,
        rules: tuple[InstantRule, ...],
        exclusions: Exclusions | None,
        raw: Callable[[], "Recurrence"] | None = None,
    ) -> None:
        """`raw` compiles the spec without its exclusions and bounds, for `following_nominal`; None if it has none."""
        self.spec = spec
        self.zone = zone
        self.rules = rules
        self.exclusions = exclusions
        whole: InstantRule = Instants(()) if not rules else rules[0] if len(rules) == 1 else Union(rules)
        if spec.start is not None or spec.end is not None:
            whole = Bounded(whole, spec.start, spec.end)
        self._whole = whole
        self._raw = raw
        self._empty: bool | None = None
        # The search itself, without a method around it, saves a call for every time.
        self.next = whole.next
        self.prev = whole.prev

    def iterate(self, after: int) -> Iterator[int]:
        """Every time later than `after`, in order."""
        if len(self.rules) > _MERGED_FROM:
            yield from self._merged(after)
            return
        following = self.next
        at = following(after)
        while at is not None:
            yield at
            at = following(at)

    def _merged(self, after: int) -> Iterator[int]:
        """As `iterate`, for many rules: only rules that have just fired are searched again."""
        rules, start, end = self.rules, self.spec.start, self.spec.end
        if start is not None:
            after = max(after, start - 1)
        coming = [(at, number) for number, rule in enumerate(rules) if (at := rule.next(after)) is not None]
        heapify(coming)
        while coming and (end is None or coming[0][0] <= end):
            at = coming[0][0]
            yield at
            while coming and coming[0][0] == at:
                number = coming[0][1]
                following = rules[number].next(at)
                if following is None:
                    heappop(coming)
                else:
                    heapreplace(coming, (following, number))

    def preview(self, number: int, after: int) -> list[int]:
        """The next `number` times later than `after`; fewer if there are no more."""
        if len(self.rules) > _MERGED_FROM:
            return list(islice(self._merged(after), max(number, 0)))
        times: list[int] = []
        following = self.next
        at = following(after) if number > 0 else None
        while at is not None:
            times.append(at)
            if len(times) == number:
                break
            at = following(at)
        return times

    def between(self, begin: int, end: int, limit: int | None = None) -> list[int]:
        """The times in [begin, end), at most `limit` of them."""
        times: list[int] = []
        if limit is not None and limit <= 0:
            return times
        for at in self.iterate(begin - 1):
            if at >= end:
                break
            times.append(at)
            if len(times) == limit:
                break
        return times

    def count(self, begin: int, end: int) -> int:
        """The number of times in [begin, end). A single source is counted without iterating."""
        return self._whole.count(begin, end)

    def matches(self, instant: int) -> bool:
        """Whether the instant is one of the times."""
        return self.next(instant - 1) == instant

    def following_nominal(self, instant: int) -> int | None:
        """The next time later than `instant`, ignoring exclusions, start and end; it limits the jitter."""
        if self._raw is not None:
            raw = self._raw()
            self._raw = lambda: raw  # compiled once, when first needed
            return raw.next(instant)
        return self.next(instant)

    def is_empty(self) -> bool:
        """Whether the spec never fires, neither in the past nor in the future. The result is exact."""
        if self._empty is None:
            # One rule that fires within the bounds is enough; the others need no search.
            start, end = self.spec.start, self.spec.end
            firsts = (rule.next(SECOND_MIN - 1 if start is None else start - 1) for rule in self.rules)
            self._empty = not any(first is not None and (end is None or first <= end) for first in firsts)
        return self._empty

    def has_ended(self, after: int) -> bool:
        """Whether the spec fires at least once, but never after the instant `after`."""
        return self.next(after) is None and not self.is_empty()
