"""Drives runs without a database: outcomes come from a list, or from a seeded generator."""

import json
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evertick.base.errors import ReplayMismatch
from evertick.base.instants import Instant
from evertick.base.outcomes import LOST_WORKER, Raised, Returned
from evertick.base.records.workflows import IN_TRANSACTION, CallKind, Row
from evertick.rules.workflows.calls import Call, timed_out
from evertick.rules.workflows.replay import replay
from evertick.rules.workflows.run import Run
from evertick.rules.workflows.step import Step

STARTED_AT = Instant(1_000_000)
ROWS_MAX = 400


class Plain:
    """A function as steps take it; in these tests nothing of it runs."""

    def __init__(self, kind: CallKind, name: str, *aliases: str) -> None:
        self.call_kind: Any = kind
        self.name = name
        self.aliases = aliases
        self.events = None

    def with_args(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def encode_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return json.dumps([*args, kwargs] if args or kwargs else {})

    def decode_result(self, text: str) -> Any:
        return json.loads(text)


QUERY = Plain(CallKind.QUERY, "query")
MUTATION = Plain(CallKind.MUTATION, "mutation")
ACTION = Plain(CallKind.ACTION, "action")
CHILD = Plain(CallKind.WORKFLOW, "child")

Code = Callable[..., Coroutine[Any, Any, Any]]


class LoggedRun(Run):
    """A run that keeps every call its code has made, with the length of the journal at that moment."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log: list[tuple[Any, ...]] = []

    def _admit(self, call: Call) -> None:
        super()._admit(call)
        if call.seq:
            self.log.append((self.position, call.seq, call.kind, call.name, call.fingerprint))

    def give_up(self, call: Call) -> None:
        if call.seq in self.open_calls and not self.is_evicted:
            self.log.append((self.position, call.seq, "given up"))
        super().give_up(call)


def run_of(code: Code, *args: Any, run_id: str = "run_1", seed: str | None = None) -> LoggedRun:
    """A run of plain code: `async def code(step, *args)`."""

    async def body(run: Run) -> str:
        return json.dumps(await code(Step(run, Plain(CallKind.WORKFLOW, code.__name__)), *args))

    return LoggedRun(run_id, body, seed=seed or run_id)


@dataclass
class Driver:
    """A run and its journal."""

    run: LoggedRun
    rows: list[Row] = field(default_factory=list)
    now: Instant = STARTED_AT

    @classmethod
    def started(cls, code: Code, *args: Any, **options: Any) -> "Driver":
        """A run whose code has been called and waits for the first time."""
        driver = cls(run_of(code, *args, **options))
        driver.deliver(driver.run.start_row(driver.now))
        return driver

    def deliver(self, row: Row) -> None:
        """Deliver a row and write what the code then calls."""
        self.rows.append(row)
        self.run.deliver(row)
        self.write()

    def write(self) -> None:
        """Write what the code has called."""
        self.rows.extend(row for row, _ in self.run.take_rows(at=self.now, attempt=1))

    def end(self, name: str, result: Any = None, error: Raised | None = None) -> None:
        """End the oldest open call of that name."""
        call = next(call for call in self.run.open_calls.values() if call.name == name)
        if call.due_at is not None and (error is not None or call.kind is not CallKind.EVENT):
            self.now = max(self.now, call.due_at)
        timer = call.kind in (CallKind.SLEEP, CallKind.TIMER)
        outcome = None if timer else error or Returned(json.dumps(result))
        if call.kind in IN_TRANSACTION:
            assert outcome is not None
            assert self.run.next_step is call
            self.deliver(self.run.step_row(call, outcome, self.now))
        else:
            self.deliver(self.run.end_row(call, outcome, self.now))

    def fail(self, name: str, type: str = "ValueError", message: str = "no") -> None:
        """End the oldest open call of that name with an error."""
        self.end(name, error=Raised(type, message))

    def cancel(self) -> None:
        """Ask the run to cancel."""
        self.deliver(self.run.cancel_row(self.now))

    @property
    def waits_for(self) -> list[str]:
        """The names of the open calls."""
        return [call.name for call in self.run.open_calls.values()]

    @property
    def result(self) -> Any:
        """What the workflow returned."""
        end = self.run.end
        assert isinstance(end, Returned), end
        return json.loads(end.result)

    def replayed(self, code: Code, *args: Any, rows: Sequence[Row] | None = None) -> LoggedRun:
        """Another run of the same id, brought to where the journal ends (or `rows` do)."""
        again = run_of(code, *args, run_id=self.run.id)
        try:
            replay(again, self.rows if rows is None else rows)
        except ReplayMismatch:
            again.evict()
            raise
        return again

    def go_on(self, rng: random.Random, *, cancel: float = 0.0, rows_max: int = ROWS_MAX) -> None:
        """Go on to the end, with outcomes in random order; sometimes the run is asked to cancel."""
        self.write()
        while not self.run.has_ended and len(self.rows) < rows_max:
            if not self.run.cancel_requested and rng.random() < cancel:
                self.cancel()
                continue
            step = self.run.next_step
            ways = [step] * 2 if step else []
            ways += [call for call in self.run.open_calls.values() if call.kind not in IN_TRANSACTION]
            call = rng.choice(ways)
            self.now = Instant(self.now + rng.randint(0, 300))
            self._end_by_chance(call, rng)

    def _end_by_chance(self, call: Call, rng: random.Random) -> None:
        if call.kind in (CallKind.SLEEP, CallKind.TIMER):
            self._end(call, None)
        elif call.kind is CallKind.EVENT and call.due_at is not None and rng.random() < 0.5:
            self._end(call, Raised("TimeoutError", "late"))
        elif call.due_at is not None and call.runs_as_job and rng.random() < 0.5:
            self._end(call, timed_out(call))
        elif rng.random() < 0.1:
            self._end(call, Raised(rng.choice(["ValueError", LOST_WORKER, "Canceled"]), "no"))
        else:
            self._end(call, Returned(json.dumps(call.name)))

    def _end(self, call: Call, outcome: Returned | Raised | None) -> None:
        if call.due_at is not None and not isinstance(outcome, Returned):
            self.now = max(self.now, call.due_at)
        if call.kind in IN_TRANSACTION:
            assert outcome is not None
            self.deliver(self.run.step_row(call, outcome, self.now))
        else:
            self.deliver(self.run.end_row(call, outcome, self.now))


def ending(run: Run) -> str:
    """How a run ended, to be compared."""
    return repr(run.end)
