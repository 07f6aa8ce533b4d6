"""Lifecycle: pause and resume, limited actions, results of runs, the next wake-up, the removal.

Pure helpers, each for one question. `decide.py` uses most of them; the evaluator uses `next_wake` and `retires_at`.
"""

from functools import lru_cache
from typing import Final

from evertick.base.durations import full_length
from evertick.base.instants import Instant, to_iso
from evertick.rules.schedules.backfill import portion
from evertick.rules.schedules.events import RunEnded
from evertick.rules.schedules.fates import FAILURES, Origin, Reason, RunOutcome
from evertick.rules.schedules.policies import Policies
from evertick.rules.schedules.state import Pause, Run, RunEnd, ScheduleState, Stop, cut

PAUSED_BY_FAILURE: Final = "pause_on_failure"
"""The actor of a pause by the schedule itself."""

NOMINAL: Final = "{nominal}"

_iso: Final = lru_cache(maxsize=256)(to_iso)  # many schedules have the same times


def run_id(template: str, nominal_at: Instant) -> str:
    """The id of a run: the template with `{nominal}` replaced, as in `report-2022-06-17T11:03:00Z`.

    A template without the placeholder gives every run the same id.
    """
    return template.replace(NOMINAL, _iso(nominal_at)) if NOMINAL in template else template


def started_because(origin: Origin, *, waited: bool, late: bool) -> Reason:
    """The reason of a start. If several apply, the order is: it has waited, it was requested, it is late."""
    if waited:
        return Reason.AFTER_WAIT
    if origin is Origin.TRIGGER:
        return Reason.TRIGGERED
    if origin is Origin.BACKFILL:
        return Reason.BACKFILLED
    return Reason.CAUGHT_UP if late else Reason.ON_TIME


def result_and_failure(
    last_result: RunEnd | None, last_failure: RunEnd | None, event: RunEnded
) -> tuple[RunEnd | None, RunEnd | None]:
    """The last result and the last failure after a run ended.

    A success becomes the last result and erases failures up to then. A failure keeps the result. A canceled or
    terminated run keeps both. The time when a run ended counts, not when that was noticed: an end that is noticed late
    does not override a later end.
    """
    end = RunEnd(key=event.key, ended_at=event.at, ref=event.ref, message=cut(event.message))
    result_at = last_result.ended_at if last_result else None
    failure_at = last_failure.ended_at if last_failure else None
    if event.outcome is RunOutcome.SUCCESS:
        if failure_at is not None and failure_at <= event.at:
            last_failure = None
        if result_at is None or result_at <= event.at:
            last_result = end
    elif event.outcome in FAILURES:
        erased = result_at is not None and result_at > event.at
        older = failure_at is not None and failure_at > event.at
        if not erased and not older:
            last_failure = end
    return last_result, last_failure


def pause_after(event: RunEnded, run_name: str, policies: Policies) -> Pause | None:
    """The pause after a run has failed or timed out, if the policy `pause_on_failure` is set; otherwise None."""
    if not policies.pause_on_failure or event.outcome not in FAILURES:
        return None
    what = "timed out" if event.outcome is RunOutcome.TIMED_OUT else "failed"
    note = f"paused because run {run_name} {what}" + (f": {event.message}" if event.message else "")
    return Pause(at=event.at, by=PAUSED_BY_FAILURE, note=cut(note))


def times_out_at(run: Run, policies: Policies) -> Instant | None:
    """When a run has been open for too long. None if there is no limit, or if it was terminated already."""
    if policies.run_timeout_ms is None or run.stop in (Stop.TERMINATE, Stop.TIME_OUT):
        return None
    return Instant(run.started_at + policies.run_timeout_ms)


def timeout_message(policies: Policies) -> str:
    """The message of a run that was terminated because it timed out."""
    limit = "" if policies.run_timeout_ms is None else f" of {full_length(policies.run_timeout_ms)}"
    return f"the run was open for longer than the run_timeout{limit} of its schedule"


def pause_detail(pause: Pause) -> str:
    """The text for a pause in the ledger."""
    by = f" by {pause.by}" if pause.by else ""
    note = f": {pause.note}" if pause.note else ""
    return f"paused{by} since {to_iso(pause.at)}{note}"


def wake_between_times(state: ScheduleState, now: Instant) -> Instant | None:
    """When the schedule must be evaluated for internal reasons.

    These are: its pause ends, a kept time comes, a backfill can continue, a run times out. The end of a run needs no
    time here: it is an event.
    """
    if state.pause is None and not state.ahead and not state.backfills and state.policies.run_timeout_ms is None:
        return None
    instants = [occurrence.actual_at for occurrence in state.ahead]
    instants += [at for run in state.running if (at := times_out_at(run, state.policies)) is not None]
    if state.pause is not None and state.pause.until is not None:
        instants.append(state.pause.until)
    if any(portion(state, backfill) > 0 for backfill in state.backfills):
        instants.append(now)
    return max(now, min(instants)) if instants else None


def next_wake(state: ScheduleState, *, wake_at: Instant | None, next_actual_at: Instant | None) -> Instant | None:
    """When to evaluate a schedule again; None if nothing but an event can change it.

    `wake_at` is the plan's, `next_actual_at` the spec's next time with its jitter. A paused schedule does not wake for
    its times: they are processed, and recorded as skipped, at its next evaluation (resumed, updated, deleted). A
    schedule that ended needs none of them. If the target may not run, the schedule still wakes: it skips and advances.
    """
    if state.paused or state.ending is not None:
        next_actual_at = None
    instants = [instant for instant in (wake_at, next_actual_at) if instant is not None]
    return min(instants) if instants else None


def retires_at(state: ScheduleState, retention_ms: int) -> Instant | None:
    """When a completed schedule may be removed. None while it is needed.

    The time counts from the last start, update or resumption. A paused schedule is not removed.
    """
    if not state.completed or state.paused:
        return None
    return Instant(state.touched_at + retention_ms)
