"""Rules on instants: a list, a union of rules, a cached rule, and a rule within bounds."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol

from evertick.recurrence.spec.civil import SECOND_MAX


class InstantRule(Protocol):
    """A rule that fires at instants."""

    __slots__ = ()

    def next(self, after: int) -> int | None:
        """The first firing later than `after`, or None."""

    def prev(self, before: int) -> int | None:
        """The last firing earlier than `before`, or None."""

    def count(self, begin: int, end: int) -> int:
        """The number of firings in [begin, end)."""

    def moved_from(self, instant: int) -> list[int]:
        """The local times that a clock change skipped and moved to this instant; empty for rules in real time."""
        return []


class Instants(InstantRule):
    """A finite list of instants."""

    __slots__ = ("_instants",)

    def __init__(self, instants: Iterable[int]) -> None:
        self._instants = sorted(set(instants))

    def next(self, after: int) -> int | None:
        """The first instant later than `after`, or None."""
        at = bisect_right(self._instants, after)
        return self._instants[at] if at < len(self._instants) else None

    def prev(self, before: int) -> int | None:
        """The last instant earlier than `before`, or None."""
        at = bisect_left(self._instants, before)
        return self._instants[at - 1] if at else None

    def count(self, begin: int, end: int) -> int:
        """The number of instants in [begin, end)."""
        return max(0, bisect_left(self._instants, end) - bisect_left(self._instants, begin))


class CachedRule(InstantRule):
    """A rule that caches its last result, because its next firing may be a long search.

    A union queries all of its rules for every firing. Rules that fire later, or never again, need no further search.
    """

    __slots__ = ("_known", "_rule")

    def __init__(self, rule: InstantRule) -> None:
        self._rule = rule
        self._known: tuple[int, int | None] = (SECOND_MAX + 1, None)

    def next(self, after: int) -> int | None:
        """The first firing later than `after`, or None."""
        since, found = self._known  # one tuple, so that threads replace it atomically
        if since > after or (found is not None and found <= after):
            found = self._rule.next(after)
            self._known = after, found
        return found

    def prev(self, before: int) -> int | None:
        """The last firing earlier than `before`, or None."""
        return self._rule.prev(before)

    def count(self, begin: int, end: int) -> int:
        """The number of firings in [begin, end)."""
        return self._rule.count(begin, end)

    def moved_from(self, instant: int) -> list[int]:
        """See `InstantRule`."""
        return self._rule.moved_from(instant)


class Union:
    """The union of several rules; a shared instant fires once."""

    __slots__ = ("_disjoint", "_rules")

    def __init__(self, rules: Sequence[InstantRule], *, disjoint: bool = False) -> None:
        """`disjoint` promises that no two of the rules share an instant."""
        self._rules = tuple(rules)
        self._disjoint = disjoint

    def next(self, after: int) -> int | None:
        """The first firing of any rule later than `after`, or None."""
        best: int | None = None
        for rule in self._rules:
            found = rule.next(after)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def prev(self, before: int) -> int | None:
        """The last firing of any rule earlier than `before`, or None."""
        best: int | None = None
        for rule in self._rules:
            found = rule.prev(before)
            if found is not None and (best is None or found > best):
                best = found
        return best

    def count(self, begin: int, end: int) -> int:
        """The number of firings in [begin, end): those of the most frequent rule, and those that each of the others
        adds, by checking its firings.
        """
        counts = [rule.count(begin, end) for rule in self._rules]
        if self._disjoint:
            return sum(counts)
        busiest_first = [
            rule for _, _, rule in sorted(zip(counts, range(len(counts)), self._rules, strict=True), reverse=True)
        ]
        total = max(counts, default=0)
        for number, rule in enumerate(busiest_first):
            busier = busiest_first[:number]
            firing = rule.next(begin - 1) if busier else None
            while firing is not None and firing < end:
                total += not any(other.next(firing - 1) == firing for other in busier)
                firing = rule.next(firing)
        return total

    def moved_from(self, instant: int) -> list[int]:
        """The skipped local times of all rules that fire at this instant."""
        return [local for rule in self._rules for local in rule.moved_from(instant)]


class Bounded:
    """A rule from `first` to `last`, both included, without the instants in `removed`."""

    __slots__ = ("_first", "_last", "_removed", "_rule")

    def __init__(self, rule: InstantRule, first: int | None, last: int | None, removed: Iterable[int] = ()) -> None:
        self._rule = rule
        self._first, self._last = first, last
        self._removed = frozenset(removed)

    def next(self, after: int) -> int | None:
        """The first firing later than `after`, or None."""
        if self._first is not None and after < self._first:
            after = self._first - 1
        if self._last is not None and after >= self._last:
            return None  # a later firing could be a long search
        found = self._rule.next(after)
        while found in self._removed and found is not None:
            found = self._rule.next(found)
        return None if found is None or (self._last is not None and found > self._last) else found

    def prev(self, before: int) -> int | None:
        """The last firing earlier than `before`, or None."""
        if self._last is not None and before > self._last:
            before = self._last + 1
        if self._first is not None and before <= self._first:
            return None
        found = self._rule.prev(before)
        while found in self._removed and found is not None:
            found = self._rule.prev(found)
        return None if found is None or (self._first is not None and found < self._first) else found

    def count(self, begin: int, end: int) -> int:
        """The number of firings in [begin, end)."""
        if self._first is not None:
            begin = max(begin, self._first)
        if self._last is not None:
            end = min(end, self._last + 1)
        if begin >= end:
            return 0
        gone = sum(1 for at in self._removed if begin <= at < end and self._rule.next(at - 1) == at)
        return self._rule.count(begin, end) - gone

    def moved_from(self, instant: int) -> list[int]:
        """The skipped local times that fire at this instant, if it is within the bounds."""
        return self._rule.moved_from(instant) if self.next(instant - 1) == instant else []
