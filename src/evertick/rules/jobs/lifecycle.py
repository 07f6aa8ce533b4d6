"""The life of a job: the transitions between its states, and the result of an attempt that ended.

Pure: the engine passes in what happened, gets the row's next values, and writes them under the fence.

    pending ──claimed──> in_progress ──returned──> success
       ^                      │ ├──gave up───────> failed
       └──── will retry ──────┘ └──canceled──────> canceled       (pending ──canceled──> canceled)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from evertick.base.errors import Misuse, SchemaMismatch
from evertick.base.ids import Entropy
from evertick.base.instants import Instant
from evertick.base.outcomes import LOST_WORKER, QUARANTINED, WORKER_STOPPED, Canceled, Outcome, Raised, Returned
from evertick.base.records.history import LogLine
from evertick.base.records.jobs import FLOOR_MS, JOB_ERROR, Claim, JobEnd, JobError, JobState, RetryPolicy
from evertick.base.records.stored import Stored

# -- Retry: whether a failed attempt is tried again, and when.
#
# The wait doubles (or grows by `factor`) from `first_ms`, never exceeds `cap_ms`, and is then spread around its value
# by jitter. Unlike full jitter, which can draw a wait of nearly zero, the result is never below half of that value.

_EXPONENT_MAX: Final = 64


def retry_delay_ms(failures: int, policy: RetryPolicy, entropy: Entropy) -> int:
    """Milliseconds to wait after failure number `failures` (counted from 1), at least `FLOOR_MS`.

    Raises Misuse if `failures` is below 1.
    """
    wait = grown_ms(failures, policy)
    spread = wait * (1.0 - policy.jitter + 2.0 * policy.jitter * entropy.random())
    return max(FLOOR_MS, round(min(spread, float(policy.cap_ms))))


def grown_ms(failures: int, policy: RetryPolicy) -> float:
    """The wait in milliseconds after failure number `failures`, without jitter. Raises Misuse for a number below 1."""
    if failures < 1:
        raise Misuse(f"failures count from 1, not {failures}")
    return min(policy.first_ms * policy.factor ** min(failures - 1, _EXPONENT_MAX), float(policy.cap_ms))


def next_attempt_at(failures: int, policy: RetryPolicy, now: Instant, entropy: Entropy) -> Instant | None:
    """The time of the next attempt after failure number `failures`; None if no attempts are left."""
    if failures >= policy.attempts:
        return None
    return Instant(now + retry_delay_ms(failures, policy, entropy))


CRASHES_MAX: Final = 5
"""A job is quarantined after this many deaths of a worker that held it: it probably kills its workers."""

SUSPECT_CRASHES: Final = 2
"""A job is a suspect after this many deaths of a worker that held it: from then on it is run separately from others.

A crash is counted for every job that a dead worker held, including innocent ones. So a suspect mutation runs alone, and
a suspect action never runs concurrently with another suspect. Then only a job that kills its worker counts further, and
innocent ones do not reach CRASHES_MAX. One death does not make a suspect: most have nothing to do with any job. The
statements that claim, and their indexes, repeat this number.
"""

ERROR_CHARS_MAX: Final = 16_384
"""Messages and tracebacks longer than this are cut in the middle."""


class JobEvent(StrEnum):
    """An event in the life of a job."""

    CLAIMED = "claimed"
    RETURNED = "returned"
    WILL_RETRY = "will_retry"
    GAVE_UP = "gave_up"
    CANCELED = "canceled"


TRANSITIONS: Final[Mapping[JobState, Mapping[JobEvent, JobState]]] = MappingProxyType(
    {
        JobState.PENDING: {
            JobEvent.CLAIMED: JobState.IN_PROGRESS,
            JobEvent.CANCELED: JobState.CANCELED,
        },
        JobState.IN_PROGRESS: {
            JobEvent.RETURNED: JobState.SUCCESS,
            JobEvent.WILL_RETRY: JobState.PENDING,
            JobEvent.GAVE_UP: JobState.FAILED,
            JobEvent.CANCELED: JobState.CANCELED,
        },
        JobState.SUCCESS: {},  # an empty row guarantees that this state is final
        JobState.FAILED: {},
        JobState.CANCELED: {},
    }
)
"""Every history of a job follows this table; simulations verify that."""


def ended(
    claim: Claim,
    outcome: Outcome,
    *,
    now: Instant,
    entropy: Entropy,
    logs: Sequence[LogLine] = (),
    started_at: Instant | None = None,
) -> JobEnd:
    """The end to write for a claimed job whose attempt ended with `outcome`."""
    if isinstance(outcome, Returned):
        return JobEnd(
            claim.id, claim.tenant, claim.name, claim.attempt, JobState.SUCCESS, now, claim.due_at,
            claim.failures, claim.crashes, outcome.result, None, logs, started_at,
        )  # fmt: skip
    if isinstance(outcome, Canceled):
        return JobEnd(
            claim.id, claim.tenant, claim.name, claim.attempt, JobState.CANCELED, now, claim.due_at,
            claim.failures, claim.crashes, None, None, logs, started_at,
        )  # fmt: skip
    end = _failed_once_more(claim, outcome, now=now, entropy=entropy, crashes=claim.crashes)
    return end._replace(logs=logs, started_at=started_at)


def lost(claim: Claim, *, now: Instant, entropy: Entropy) -> JobEnd:
    """The end to write for a claimed job whose worker died.

    A mutation, a script or the next steps of a workflow have had no effect, so the job becomes pending again, unless
    this has happened too often. An action may have had an effect, so it fails, unless its retry policy allows another
    attempt.
    """
    crashes = claim.crashes + 1
    if crashes >= CRASHES_MAX:
        message = f"its worker died {crashes} times while running it; it will not be tried again"
        return _failed(claim, Raised(QUARANTINED, message), now=now, failures=claim.failures, crashes=crashes)
    if claim.is_transactional:
        return _pending_again(claim, claim.due_at, None, failures=claim.failures, crashes=crashes)
    outcome = Raised(
        LOST_WORKER, "lost worker: its process died while the function ran, so it may have happened or not"
    )
    return _failed_once_more(claim, outcome, now=now, entropy=entropy, crashes=crashes)


def stopped(end: JobEnd, *, now: Instant) -> JobEnd:
    """The end to write for an action that was asked to stop while it ran, however its function has ended."""
    return end._replace(state=JobState.CANCELED, completed_at=now, result=None, error=None)


def cut_off(claim: Claim, *, now: Instant, entropy: Entropy) -> JobEnd:
    """The end to write for an action that was still running when its worker had to end.

    It may have had an effect, so it fails, unless its retry policy allows another attempt. No worker died, so no crash
    is counted: a long action is not quarantined, however many deploys cut it off. A script has had no effect.
    """
    if claim.is_transactional:
        return _pending_again(claim, claim.due_at, None, failures=claim.failures, crashes=claim.crashes)
    outcome = Raised(
        WORKER_STOPPED,
        "its worker was stopped before the function had ended, so it may have happened in part or not at all; "
        "a longer drain gives it time, a retry policy another try",
    )
    return _failed_once_more(claim, outcome, now=now, entropy=entropy, crashes=claim.crashes)


def once_more(claim: Claim, cause: Raised, *, at: Instant) -> JobEnd:
    """The end to write for a claimed job that has had no effect, because of an external cause: it runs again at `at`,
    and no failure is counted.
    """
    return _pending_again(claim, at, cause, failures=claim.failures, crashes=claim.crashes)


def _failed_once_more(claim: Claim, outcome: Raised, *, now: Instant, entropy: Entropy, crashes: int) -> JobEnd:
    """Count one more failure: the job is tried again if the retry policy allows it, otherwise it has failed."""
    failures = claim.failures + 1
    if claim.retry is not None and outcome.retryable:
        try:
            again_at = next_attempt_at(failures, claim.retry.value, now, entropy)
        except (SchemaMismatch, ArithmeticError) as error:  # the wait may also exceed the range of numbers
            message = f"{outcome.message} (not tried again, because its retry policy cannot be read: {error})"
            outcome = replace(outcome, message=message)
            return _failed(claim, outcome, now=now, failures=failures, crashes=crashes)
        if again_at is not None:
            return _pending_again(claim, again_at, outcome, failures=failures, crashes=crashes)
    return _failed(claim, outcome, now=now, failures=failures, crashes=crashes)


def _pending_again(claim: Claim, due_at: Instant, outcome: Raised | None, *, failures: int, crashes: int) -> JobEnd:
    error = None if outcome is None else _error(outcome)
    return JobEnd(
        claim.id, claim.tenant, claim.name, claim.attempt, JobState.PENDING, None, due_at,
        failures, crashes, None, error,
    )  # fmt: skip


def _failed(claim: Claim, outcome: Raised, *, now: Instant, failures: int, crashes: int) -> JobEnd:
    return JobEnd(
        claim.id, claim.tenant, claim.name, claim.attempt, JobState.FAILED, now, claim.due_at,
        failures, crashes, None, _error(outcome),
    )  # fmt: skip


def _error(raised: Raised) -> Stored[JobError]:
    return JOB_ERROR.value(JobError(raised.type, _cut(raised.message), _cut(raised.traceback), raised.data))


def _cut(text: str) -> str:
    if len(text) <= ERROR_CHARS_MAX:
        return text
    half = ERROR_CHARS_MAX // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
