"""Faults: what goes wrong in a simulated run, drawn from a seed or replayed from a plan.

A *fault* is "at the n-th opportunity of this kind, this happened". Every place where something can go wrong
asks `Faults.strikes(kind)`. Drawn faults are logged, and the log is a *plan*: with it, the same seed runs
exactly the same way without any drawing, and a minimiser can leave faults out one by one
(`tests.simulation.minimise`).

Faults have a random stream of their own, so that leaving one out does not change what the schedule draws. As
text, a plan is `kill@81,pause@15=3.0,crash/claim.before_commit@2`, short enough for a line of a failure
report.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Something that went wrong: its kind, at which opportunity of that kind (from 1), and a number that says
    more.

    The part of `kind` before a slash is its family: `crash/claim` is of the family `crash`. What `value`
    means is the kind's own affair: for a pause, its seconds.
    """

    kind: str
    at: int
    value: float = 1.0

    def __str__(self) -> str:
        return f"{self.kind}@{self.at}" + (f"={self.value!r}" if self.value != 1.0 else "")


Plan = tuple[Fault, ...]

FAULTS_MAX: Final = 5_000
"""Then no more strike. At the highest rates a worker can be killed at each of its starts for days; most runs have fewer
than 1,000.
"""


def plan_text(plan: Iterable[Fault]) -> str:
    """A plan as one line, in the order in which the faults are given."""
    return ",".join(map(str, plan))


def parse_plan(text: str) -> Plan:
    """The plan that `plan_text` wrote.

    Raises ValueError for text of another form.
    """
    faults = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        kind, mark, rest = word.rpartition("@")
        at, _, value = rest.partition("=")
        if not mark or not kind or not at.isdecimal():
            raise ValueError(f"{word!r} is no fault; one reads kind@number or kind@number=value")
        faults.append(Fault(kind, int(at), float(value) if value else 1.0))
    return tuple(faults)


class Faults:
    """The faults of one run.

    `rates` gives the chance of each kind, or of its family, at each opportunity; kinds without a rate never
    strike. The rates may be changed while the run goes on. With a `plan`, nothing is drawn: exactly the
    plan's faults strike.
    """

    def __init__(
        self, seed: int, *, rates: Mapping[str, float] | None = None, plan: Sequence[Fault] | None = None
    ) -> None:
        self.rates: dict[str, float] = dict(rates or {})
        self.log: list[Fault] = []
        self.opportunities: Counter[str] = Counter()
        self.is_calm = False
        self._random = random.Random(f"{seed}/faults")
        self._planned = None if plan is None else {(fault.kind, fault.at): fault for fault in plan}

    def strikes(self, kind: str, values: Sequence[float] = (1.0,)) -> Fault | None:
        """Does a fault of this kind happen now? Counts the opportunity; logs the fault if so.

        `values` are the numbers that a drawn fault may carry.
        """
        at = self.opportunities[kind] = self.opportunities[kind] + 1
        if self.is_calm or len(self.log) >= FAULTS_MAX:
            return None
        if self._planned is not None:
            fault = self._planned.get((kind, at))
        else:
            fault = self._draw(kind, at, values)
        if fault is not None:
            self.log.append(fault)
        return fault

    def calm(self) -> None:
        """No fault strikes from now on, planned ones included: the phase in which everything must come to
        rest.
        """
        self.is_calm = True

    @property
    def plan(self) -> Plan:
        """What struck so far, as a plan that makes it strike again."""
        return tuple(self.log)

    def _draw(self, kind: str, at: int, values: Sequence[float]) -> Fault | None:
        rate = self.rates.get(kind)
        if rate is None:
            rate = self.rates.get(kind.partition("/")[0], 0.0)
        if rate <= 0.0 or self._random.random() >= rate:
            return None
        return Fault(kind, at, self._random.choice(values) if len(values) > 1 else values[0])
