"""A schedule as Temporal's documents tell it: one buffer, gone through entry by entry, and nothing clever.

It is written from the description of the six policies alone, without a look at `evertick.rules`, so that random stories
can be told to both. It differs from Temporal where we do on purpose: an entry that may not start replaces no other.
"""

from dataclasses import dataclass, field

from evertick.base.instants import MINUTE_MS
from evertick.rules.schedules.policies import Overlap

EVERY_MS = 5 * MINUTE_MS
STOPPERS = {Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER}


@dataclass(frozen=True)
class Entry:
    """Something that wants to start; `scheduled` if the spec named it."""

    at: int
    overlap: Overlap
    scheduled: bool


@dataclass
class ReferenceModel:
    """A schedule of every five minutes. Runs are named by their nominal times."""

    overlap: Overlap
    window_ms: int
    pause_on_failure: bool
    remaining: int | None
    paused: bool
    now: int
    seen: int = 0
    running: list[int] = field(default_factory=list)
    buffer: list[Entry] = field(default_factory=list)
    asked: dict[int, Overlap] = field(default_factory=dict)
    starts: list[tuple[int, int]] = field(default_factory=list)
    stops: list[tuple[int, int, Overlap]] = field(default_factory=list)
    skipped: int = 0
    missed: int = 0

    def advance(self, until: int) -> None:
        """Time passes, and each time of the spec is seen when it comes."""
        while self.seen + EVERY_MS <= until:
            self.seen += EVERY_MS
            self.now = self.seen
            if not self.paused and self.remaining != 0:
                self.add([Entry(self.seen, self.overlap, scheduled=True)])
        self.now = until

    def come_back(self, at: int) -> None:
        """Nobody looked until `at`; all times since then are generated at once."""
        self.now, found = at, []
        while self.seen + EVERY_MS <= at:
            self.seen += EVERY_MS
            if self.paused or self.remaining == 0:
                continue
            if at - self.seen > self.window_ms:
                self.missed += 1
            else:
                found.append(Entry(self.seen, self.overlap, scheduled=True))
        self.add(found)

    def close(self, run: int, status: str) -> None:
        """A run closes."""
        self.running.remove(run)
        self.asked.pop(run, None)
        self.paused = self.paused or (self.pause_on_failure and status in {"failed", "timed_out"})
        self.add([])

    def add(self, entries: list[Entry]) -> None:
        """Entries arrive; the whole buffer is gone through."""
        self.buffer += entries
        entries, self.buffer = self.buffer, []
        chosen: Entry | None = None
        is_running = bool(self.running)
        for entry in entries:
            if entry.overlap is Overlap.ALLOW_ALL:
                if not self.is_refused(entry):
                    self.start(entry)
            elif not is_running and (chosen is None or entry.overlap in STOPPERS):
                chosen = chosen if self.is_refused(entry) else entry
            elif entry.overlap is Overlap.SKIP or (entry.overlap is Overlap.BUFFER_ONE and self.buffer):
                self.skipped += 1
            else:
                self.buffer.append(entry)
        if chosen is not None:
            self.start(chosen)
        stoppers = [entry.overlap for entry in self.buffer if entry.overlap in STOPPERS]
        if is_running and stoppers:
            self.stop(Overlap.TERMINATE_OTHER if Overlap.TERMINATE_OTHER in stoppers else Overlap.CANCEL_OTHER)

    def stop(self, how: Overlap) -> None:
        """Ask every run, once, and once more if terminate follows cancel."""
        for run in self.running:
            if self.asked.get(run) not in {how, Overlap.TERMINATE_OTHER}:
                self.asked[run] = how
                self.stops.append((run, self.now, how))

    def is_refused(self, entry: Entry) -> bool:
        """May it not start although its turn has come?"""
        if not entry.scheduled:
            return False
        if not self.paused and self.now - entry.at > self.window_ms:
            self.missed += 1
            return True
        return self.paused or self.remaining == 0

    def start(self, entry: Entry) -> None:
        """It starts now."""
        if entry.scheduled and self.remaining is not None:
            self.remaining -= 1
        self.running.append(entry.at)
        self.starts.append((entry.at, self.now))
