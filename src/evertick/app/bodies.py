"""Bodies: JSON that people and programs write, as models that refuse unknown members."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from evertick.api.schema import no_number
from evertick.app.functions.options import Retry
from evertick.app.operations import Argument
from evertick.base.errors import InvalidSpec
from evertick.base.records.jobs import JobState
from evertick.recurrence.parse.duration import parse_milliseconds

MEMBERS_MAX: Final = 100
ITEMS_MAX: Final = 1_000
"""The maximum length of a list, except for arguments of a function."""


class Body(BaseModel):
    """A body. Unknown members are refused, and so are more than MEMBERS_MAX, because each would be its own error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > MEMBERS_MAX:
            raise ValueError(f"there are {len(given):,} members; at most {MEMBERS_MAX} are allowed")
        return given


def _duration(given: Any) -> Any:
    """Seconds, or text such as `1h30m`."""
    if isinstance(given, bool):
        raise ValueError("a duration must be seconds, or text such as '1h30m'")
    try:
        return timedelta(milliseconds=parse_milliseconds(given)) if isinstance(given, str) else given
    except InvalidSpec as error:
        raise ValueError(str(error)) from None


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}], "examples": [5, "1h30m"]}),
]
"""Seconds, or text such as `1h30m`."""


def _in_range(at: datetime) -> datetime:
    """A time with a zone, whose year is also valid in UTC."""
    if at.tzinfo is None:
        raise PydanticCustomError(
            "timezone_aware", "the time has no time zone; add one: 2027-01-01T00:00:00+01:00 or ...Z"
        )
    try:
        at.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time must be in the years 1 to 9999, also in UTC") from None
    return at


Time = Annotated[datetime, BeforeValidator(no_number), AfterValidator(_in_range)]
"""A time, RFC 3339 with a zone."""
Day = Annotated[date, BeforeValidator(no_number)]
"""A day, such as 2026-03-29."""


def _day_or_time(given: Any, time: ValidatorFunctionWrapHandler) -> Any:
    is_day = isinstance(given, str) and len(given) == len("2026-03-29")
    return date.fromisoformat(given) if is_day else time(given)


Bound = Annotated[
    Time,
    WrapValidator(_day_or_time),
    PlainSerializer(date.isoformat),
    WithJsonSchema({"type": "string", "examples": ["2026-03-29T00:55:00Z", "2026-03-29"]}),
]
"""A bound of a range of times: a time, or a whole day (a `date`) on the schedule's clock."""


class _EndsAtFirst(FailFast):
    """Stops reading a list at the first invalid item. Pydantic's own class has no hash, so unions cannot contain it."""

    __hash__ = object.__hash__


T = TypeVar("T")
Items = Annotated[list[T], Field(max_length=ITEMS_MAX), _EndsAtFirst()]
"""A list of some length; a million wrong items would be a million errors."""
States = Items[JobState]
Texts = Items[str]


def json_type(argument: Argument) -> Any:
    """The type of an argument of an operation in JSON."""
    declared = argument.parameter.json_type
    if isinstance(declared, str):
        return globals()[declared]
    return argument.python_type if declared is None else declared


def _or_number(schema: dict[str, Any]) -> None:
    """Let the JSON schema of a retry policy accept a number of attempts, too."""
    described = {name: schema.pop(name) for name in ("title", "description") if name in schema}
    policy = dict(schema)
    schema.clear()
    schema.update(described | {"anyOf": [policy, {"type": "integer", "minimum": 1}]})


class RetryBody(Body):
    """How often to try, and how long to wait between attempts; see `evertick.Retry`. A number means attempts."""

    model_config = ConfigDict(json_schema_extra=_or_number)

    @model_validator(mode="before")
    @classmethod
    def _of_number(cls, given: Any) -> Any:
        if isinstance(given, dict | RetryBody):
            return given
        if type(given) is int:
            return {"attempts": given}
        raise ValueError("give a number of attempts, or attempts with waits, such as {attempts: 5, first: 1s}")

    attempts: int = Field(ge=1)
    first: Duration = timedelta(milliseconds=250)
    factor: float = 2.0
    cap: Duration = timedelta(days=1)
    jitter: float = 0.5

    def retry(self) -> Retry:
        """The policy. Raises Misuse."""
        return Retry(self.attempts, first=self.first, factor=self.factor, cap=self.cap, jitter=self.jitter)


Arguments = Annotated[dict[str, Any], Field(default_factory=dict, description="Arguments by name.")]


class Span(Body):
    """A span of time from `start` to `end`, both included."""

    start: Time
    end: Time
