"""Minimise: from a run that failed under many faults to the few that it takes.

`minimise` knows nothing of what is simulated: it is given a function that runs a plan and answers how the run
failed. First it leaves out halves, quarters and so on (delta debugging), then single faults, until none can
be spared; then it tries to make the numbers of those that are left smaller. A smaller plan counts only if the
run fails in the same way: otherwise one would end at another bug.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.simulation.faults import Fault, Plan, plan_text

Run = Callable[[Plan], str | None]
"""Runs a plan. None: all held. Else the kind of failure: short, and equal for equal failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimised:
    """What was found: the failure, the plan that is enough for it, and how many runs it took."""

    failure: str
    plan: Plan
    runs: int

    def __str__(self) -> str:
        return f"{self.failure}: {plan_text(self.plan) or 'no fault needed'} ({self.runs} runs)"


class _Search:
    """The best plan so far, and the means to ask for a better one."""

    def __init__(self, run: Run, plan: Plan, failure: str, runs_max: int) -> None:
        self.plan = plan
        self.runs = 0
        self._run = run
        self._failure = failure
        self._runs_max = runs_max

    @property
    def exhausted(self) -> bool:
        return self.runs >= self._runs_max

    def accept(self, plan: Plan) -> bool:
        """Run a candidate and keep it if it fails in the same way."""
        if self.exhausted:
            return False
        self.runs += 1
        if self._run(plan) != self._failure:
            return False
        self.plan = plan
        return True


def minimise(
    run: Run, plan: Sequence[Fault], failure: str, *, values: Sequence[float] = (), runs_max: int = 2_000
) -> Minimised:
    """The fewest faults of `plan` under which `run` still ends in `failure`.

    `values` are smaller numbers to try for faults that carry one (the seconds of a pause), in any order.
    After `runs_max` runs the best plan so far is returned.

    Raises ValueError if the plan as given does not end in `failure`: then the run is not repeatable.
    """
    search = _Search(run, tuple(plan), failure, runs_max)
    if not search.accept(tuple(plan)):
        raise ValueError(f"the plan does not end in {failure!r} when it is run again; is the run deterministic?")
    _leave_out(search)
    _shrink_values(search, sorted(values))
    return Minimised(failure=failure, plan=search.plan, runs=search.runs)


def _leave_out(search: _Search) -> None:
    """Leave out chunks of the plan, half of it at first, until not even a single fault can be spared."""
    size = max(1, len(search.plan) // 2)
    while not search.exhausted:
        spared = False
        start = 0
        while start < len(search.plan):
            less = search.plan[:start] + search.plan[start + size :]
            if search.accept(less):
                spared = True  # what followed has moved to `start`
            else:
                start += size
        if size == 1 and not spared:
            return
        size = max(1, min(size // 2, len(search.plan) // 2))


def _shrink_values(search: _Search, values: Sequence[float]) -> None:
    """Give each fault the smallest number with which the run still fails."""
    for index in range(len(search.plan)):
        fault = search.plan[index]
        for value in values:
            if value >= fault.value or fault.value == 1.0:
                break
            smaller = replace(fault, value=value)
            if search.accept((*search.plan[:index], smaller, *search.plan[index + 1 :])):
                break
