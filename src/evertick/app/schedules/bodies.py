"""A schedule as it is written: the body of a request, and an entry of a file of schedules.

The members are the options of `app.schedules.create`, which explains them; durations and moments may be text.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from evertick.api.schedules import ScheduleDescription
from evertick.app.bodies import Arguments, Body, Bound, Duration, Items, RetryBody, Span, Time
from evertick.app.schedules.definition import template_of
from evertick.app.schedules.options import RUN_NAME
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.jobs import RetryPolicy
from evertick.recurrence.parse.duration import format_milliseconds
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import completed, shortened, spec_to_wire
from evertick.rules.schedules.lifecycle import PAUSED_BY_FAILURE
from evertick.rules.schedules.policies import DEFAULT_POLICIES

Times = Annotated[
    dict[str, Any] | str | Items[dict[str, Any] | str],
    Field(
        description="A cron line (`0 9 * * 1-5`), a sentence (`every weekday at 9am in Europe/Berlin`) or a spec "
        "(`{'crons': ['0 9 * * *'], 'time_zone': 'Europe/Berlin'}`); or a list of these, whose times are united."
    ),
]
"""A spec in its wire form, a cron line or a sentence; or a list of these, whose times are united."""
Left = Items[dict[str, Any] | date | tuple[date, date]]
"""What is left out of a spec: specs, dates, and pairs of dates."""


ZONE: Final = (
    "the zone belongs to the times, as in when: {crons: ['0 9 * * *'], time_zone: Europe/Berlin}, "
    "or when: at 9am in Europe/Berlin"
)


class Options(Body):
    """The options of a schedule, other than its times and its function. `help(app.schedules.create)` explains each."""

    @model_validator(mode="before")
    @classmethod
    def _zone_is_in_when(cls, given: Any) -> Any:
        """Refuse a zone outside `when`: it belongs to the times."""
        if isinstance(given, dict) and "time_zone" in given:
            wrong = InitErrorDetails(type=PydanticCustomError("misplaced", ZONE), loc=("time_zone",), input=None)
            raise ValidationError.from_exception_data(cls.__name__, [wrong])
        return given

    start: Bound | None = None
    end: Bound | None = None
    jitter: Duration | None = None
    exclude: Left | None = Field(None, alias="except")
    overlap: str | None = None
    concurrency_limit: int | None = None
    catch_up: str | None = None
    catch_up_window: Duration | None = None
    pause_on_failure: bool | None = None
    buffer_limit: int | None = None
    run_timeout: Duration | None = None
    retry: RetryBody | None = None
    remaining_actions: int | None = None
    workflow_id: str | None = None
    run_id_template: str | None = None
    note: str | None = None
    memo: dict[str, Any] | None = None

    def options(self, *, lifts: bool) -> dict[str, Any]:
        """The given options. With `lifts`, also those that are null, which restore the default."""
        found = {name: getattr(self, name) for name in Options.model_fields.keys() & self.model_fields_set}
        return {name: _value(name, value) for name, value in found.items() if lifts or value is not None}


class ReplacedSchedule(Options):
    """A new definition of a schedule; absent options get their defaults."""

    when: Times
    function: str
    args: Arguments


class WrittenSchedule(ReplacedSchedule):
    """A schedule in a file. `paused` is true, or the time until which it is paused."""

    id: str
    paused: bool | Time | None = None


class NewSchedule(WrittenSchedule):
    """A schedule to create. `paused` is true, or the time until which it is paused."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "report", "when": "0 9 * * 1-5", "function": "shop.report", "overlap": "buffer_one"}]
        }
    )

    trigger: bool | str = Field(False, description="Start one run at once: true, or an overlap policy for that run.")
    backfill: Items[Span] = Field(default_factory=list)


class ChangedSchedule(Options):
    """Changes to a schedule: absent options stay unchanged, and null restores the default."""

    when: Times | None = None
    function: str | None = None
    args: dict[str, Any] | None = None


def when_of(times: Times, known: Spec | None = None) -> Spec | str | list[Spec | str]:
    """The spec for the times in a body. Holidays of a place whose days `known` has already are not looked up again.

    Raises InvalidSpec.
    """
    days = {} if known is None else spec_to_wire(known)
    return [_one(each, days) for each in times] if isinstance(times, list) else _one(times, days)


def _one(times: dict[str, Any] | str, known: Mapping[str, Any]) -> Spec | str:
    return times if isinstance(times, str) else spec_from_wire(completed(times, known))


def _value(name: str, value: Any) -> Any:
    """An option as Python takes it."""
    if isinstance(value, RetryBody):
        return value.retry()
    if name == "exclude" and value is not None:
        return [spec_from_wire(each) if isinstance(each, dict) else each for each in value]
    return value


def written(schedule: ScheduleDescription) -> dict[str, Any]:
    """The JSON of a `WrittenSchedule` that creates this schedule again, without options that have their default.

    For holidays that were looked up it has the place, not the days.
    """
    target, policies = schedule.target, schedule.policies
    found: dict[str, Any] = {
        "id": schedule.id,
        "when": shortened(spec_to_wire(schedule.spec)),
        "function": target.function,
    }
    if target.args:
        found["args"] = target.args

    if policies.overlap != DEFAULT_POLICIES.overlap:
        found["overlap"] = policies.overlap.value
    if policies.concurrency_limit != DEFAULT_POLICIES.concurrency_limit:
        found["concurrency_limit"] = policies.concurrency_limit
    if policies.catch_up != DEFAULT_POLICIES.catch_up:
        found["catch_up"] = policies.catch_up.value
    if policies.catch_up_window_ms != DEFAULT_POLICIES.catch_up_window_ms:
        found["catch_up_window"] = format_milliseconds(policies.catch_up_window_ms)
    if policies.pause_on_failure:
        found["pause_on_failure"] = True
    if policies.buffer_limit != DEFAULT_POLICIES.buffer_limit:
        found["buffer_limit"] = policies.buffer_limit
    if policies.run_timeout_ms is not None:
        found["run_timeout"] = format_milliseconds(policies.run_timeout_ms)
    if target.retry is not None:
        found["retry"] = _retry(target.retry)
    if schedule.remaining is not None:
        found["remaining_actions"] = schedule.remaining
    if target.workflow_id is not None:
        found["workflow_id"] = target.workflow_id
    if schedule.run_id_template != template_of(RUN_NAME, target.workflow_id or schedule.id):
        found["run_id_template"] = schedule.run_id_template
    if schedule.pause is not None:
        until = schedule.pause.until
        found["paused"] = True if until is None else to_iso(from_datetime(until))
    if schedule.note and not (schedule.pause is not None and schedule.pause.by == PAUSED_BY_FAILURE):
        found["note"] = schedule.note  # that of a pause after a failure tells of one run
    if schedule.memo:
        found["memo"] = schedule.memo
    return found


def _retry(policy: RetryPolicy) -> Mapping[str, Any]:
    default = RetryPolicy(policy.attempts)
    names = {"first_ms": "first", "factor": "factor", "cap_ms": "cap", "jitter": "jitter"}
    found: dict[str, Any] = {"attempts": policy.attempts}
    for each in fields(RetryPolicy):
        value = getattr(policy, each.name)
        if value != getattr(default, each.name):
            found[names[each.name]] = format_milliseconds(value) if each.name.endswith("_ms") else value
    return found
