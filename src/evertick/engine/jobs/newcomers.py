"""Newcomers: tenants and queues that the last look of a loop did not find, where looks are kept.

Here is what a loop knows of them: whether something was scheduled since it searched for some, who came last, and
whether its last claim took some. `claims` searches and claims.
"""

from collections.abc import Sequence
from typing import Final

from evertick.base.instants import LONG_AGO, SECOND_MS, Instant
from evertick.base.records.jobs import Claim
from evertick.store.records.claims import Head

EVERY_MS: Final = 25
"""The least time from a search that found none to the next: a statement can take several milliseconds."""
KEPT_MS: Final = SECOND_MS
"""How long those that came last are tried before others are searched for: a try in vain is a statement."""


class Newcomers:
    """What one loop knows of newcomers."""

    def __init__(self) -> None:
        self.heard = False
        """Whether something was scheduled since the last search. It is set in any thread."""
        self.came = False
        """Whether the last claim took newcomers."""
        self.last: list[Head] = []
        """Heads of those that came last, if they were few, and left no job ready."""
        self._came_at = LONG_AGO
        self._found_none_at = LONG_AGO

    def came_last(self, now: Instant, known: Sequence[Head]) -> list[Head]:
        """Heads of those that came just now, to be tried without a search; without what a look has found since."""
        if not self.last or not 0 <= now - self._came_at < KEPT_MS:
            return []
        places = {head[:2] for head in known}
        return [head for head in self.last if head[:2] not in places]

    def note(self, heads: Sequence[Head], left: Sequence[Head], now: Instant) -> None:
        """Remember who came (`heads`, if they were few), but for those of which jobs are `left`."""
        places = {head[:2] for head in left}
        self.last = [head for head in heads if head[:2] not in places]
        self._came_at = now

    def see(self, claims: Sequence[Claim], now: Instant) -> int:
        """Note which of the claims are of those that came last; returns how many."""
        ranks = {head[:2]: head.rank for head in self.last}
        came = [claim for claim in claims if (claim.queue, claim.tenant) in ranks] if ranks else []
        if came:
            ranks.update({(claim.queue, claim.tenant): claim.rank for claim in came})
            self.last, self._came_at = [Head(*place, rank) for place, rank in ranks.items()], now
        return len(came)

    def begin_search(self, now: Instant) -> bool:
        """Whether to search: something was heard of, and no search was in vain just now. Then this one begins."""
        if not self.heard or 0 <= now - self._found_none_at < EVERY_MS:
            return False
        self.heard, self._found_none_at = False, now
        return True

    def found_some(self) -> None:
        """The search was not in vain."""
        self._found_none_at = LONG_AGO
