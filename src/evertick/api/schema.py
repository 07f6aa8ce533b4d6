"""The base class of all schemas, and the field types that differ between Python and JSON.

In Python, a time is an aware `datetime` in UTC, a choice is an enum, and a spec is a `Spec`. In JSON, they are RFC 3339
text, a string, and an object. A schema accepts both forms, so `Model.model_validate(value.to_json())` equals `value`.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
)
from pydantic_core import PydanticSerializationError

from evertick.base.errors import SchemaMismatch
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.jobs import JobError, RetryPolicy
from evertick.base.records.stored import DEPTH_MAX, Stored, is_deeper
from evertick.recurrence.parse.duration import format_milliseconds, parse_milliseconds
from evertick.recurrence.spec.spec import Spec


class Schema(BaseModel):
    """A frozen object with a stable JSON form."""

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, defer_build=True, json_schema_serialization_defaults_required=True
    )

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `json.dumps` accepts it."""
        form: dict[str, Any] = json_form(self)
        return form

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The keys of the JSON form, in order."""
        fields = (str(field.serialization_alias or name) for name, field in cls.model_fields.items())
        return (*fields, *cls.model_computed_fields)


class Page(Schema):
    """A page of a list. It is iterable: `for job in app.jobs.list(): ...`. `cursor` continues the list."""

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """Iterates over the rows of the page, which are its first field."""
        return iter(getattr(self, next(iter(type(self).model_fields))))


def json_form(value: Any) -> Any:
    """The JSON form of a schema, or of a list or dict that contains schemas.

    Pydantic cannot write a key with a lone surrogate, which the JSON of users may have. Such keys are replaced by ASCII
    text before writing, and restored afterwards.
    """
    try:
        return _ANYTHING.dump_python(value, mode="json", by_alias=True)
    except (UnicodeEncodeError, PydanticSerializationError):
        return _unmasked(_ANYTHING.dump_python(_masked(value), mode="json", by_alias=True))


def _masked(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: _masked(each) for name, each in BaseModel.__iter__(value)})
    if type(value) is dict:
        return {_masked_key(key): _masked(each) for key, each in value.items()}
    return type(value)(map(_masked, value)) if type(value) in (list, tuple) else value


def _masked_key(key: Any) -> Any:
    """The key in ASCII. A key that already begins with the mask is masked, too, so that it can be restored."""
    if not isinstance(key, str) or (key.isascii() and key[:1] != _MASK):
        return key
    return f"{_MASK}{key.encode(errors='surrogatepass').hex()}"


def _unmasked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            bytes.fromhex(key[1:]).decode(errors="surrogatepass") if key[:1] == _MASK else key: _unmasked(each)
            for key, each in value.items()
        }
    return [*map(_unmasked, value)] if isinstance(value, list) else value


_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)
_MASK: Final = "\0"

COUNT_MAX: Final = 10_000
"""Rows are counted up to this number."""


class Count(Schema):
    """A number of rows. If `more` is True, there are more than `number`, because rows are counted up to a limit."""

    number: int
    more: bool = False

    @classmethod
    def of(cls, counted: int) -> Self:
        """The view of a number of rows that were counted up to `COUNT_MAX + 1`."""
        return cls(number=min(counted, COUNT_MAX), more=counted > COUNT_MAX)

    def __str__(self) -> str:
        return f"{self.number:,}{'+' if self.more else ''}"


class NumberIn(property):
    """A property that returns a number of a nested object, such as `counts.started`. It is not in the JSON form."""

    def __init__(self, place: str, words: str) -> None:
        super().__init__(attrgetter(place))
        self.__doc__ = words

    if TYPE_CHECKING:

        def __get__(self, view: Any, owner: type | None = None, /) -> int: ...  # type: ignore[override]


def named(python: str, json_name: str) -> Any:
    """A field that has the name `python` in Python and the name `json_name` in JSON."""
    return Field(validation_alias=AliasChoices(python, json_name), serialization_alias=json_name)


def no_number(given: Any) -> Any:
    """Reject numbers and numeric text. Raises ValueError.

    Pydantic reads a number as seconds or milliseconds since 1970, but a user who writes `2027` means the year.
    """
    try:
        float(given)
    except (TypeError, ValueError, OverflowError):
        return given
    raise ValueError("write it as RFC 3339 does, such as 2026-03-29T00:55:00Z or 2026-03-29, and not as a number")


def _iso(moment: datetime) -> str:
    return to_iso(from_datetime(moment))


def _spec(value: Spec | Mapping[str, Any]) -> Spec:
    if isinstance(value, Spec):
        return value
    from evertick.recurrence.wire.reading import spec_from_wire  # it loads slowly, and most values have no spec

    return spec_from_wire(dict(value))


def _spec_json(spec: Spec) -> dict[str, Any]:
    from evertick.recurrence.wire.writing import spec_to_wire

    return spec_to_wire(spec)


def _retry(value: RetryPolicy | list[Any]) -> RetryPolicy:
    return value if isinstance(value, RetryPolicy) else RetryPolicy(*value)


def _retry_json(policy: RetryPolicy) -> list[Any]:
    values: list[Any] = json.loads(policy.to_json())
    return values


def _milliseconds(value: int | str) -> int:
    return parse_milliseconds(value) if isinstance(value, str) else value


Moment = Annotated[
    datetime,
    PlainSerializer(_iso, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]
"""An aware datetime in UTC. In JSON `2026-03-29T00:55:00Z`, with milliseconds only if they are not zero."""

WireSpec = Annotated[Spec, PlainValidator(_spec), PlainSerializer(_spec_json, when_used="json")]
"""A spec. In JSON an object."""

Retry = Annotated[RetryPolicy, PlainValidator(_retry), PlainSerializer(_retry_json, when_used="json")]
"""A retry policy. In JSON the list that is stored with a job."""

DurationMs = Annotated[
    int, BeforeValidator(_milliseconds), PlainSerializer(format_milliseconds, return_type=str, when_used="json")
]
"""A duration in milliseconds. In JSON text such as `1h30m`."""


# -- Reading the JSON of a row for display: what cannot be read is reported, and the rest of the row is shown.
#
# A row may have been written by a newer release, or changed by hand. It must not close the list that it stands in.

T = TypeVar("T")

SHOWN_DEPTH_MAX: Final = DEPTH_MAX + 20
"""Maximum nesting of a displayed value, including the objects that contain it. 255 levels cannot be serialized."""
PROBLEM_CHARS_MAX: Final = 200
"""Maximum length of the description of one column's problem, in characters."""


class RowReading:
    """Reads the columns of one row. `problems` lists the columns that could not be read."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each column that could not be read: its name and the reason."""
        return tuple(self._problems)

    def any(self, column: str, text: str | None) -> Any:
        """The JSON value of a column; None if the column is NULL or cannot be read."""
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._note(column, f"it is no JSON: {error}")
            return None
        if is_deeper(text, value, than=SHOWN_DEPTH_MAX):
            self._note(column, f"it is more than {SHOWN_DEPTH_MAX} levels deep")
            return None
        return value

    def object(self, column: str, text: str | None) -> dict[str, Any]:
        """The JSON object of a column; an empty dict if the column is NULL or cannot be read."""
        found = self.any(column, text or "{}")
        if isinstance(found, dict):
            return found
        if found is not None:
            self._note(column, f"it is no JSON object: {text}")
        return {}

    def value(self, column: str, stored: Stored[T] | None) -> T | None:
        """The value of a column; None if the column is NULL or cannot be read."""
        try:
            return None if stored is None else stored.value
        except SchemaMismatch as error:
            self._note(column, str(error))
            return None

    def error(self, column: str, stored: Stored[JobError] | None) -> JobError | None:
        """The error of a column; None if the column is NULL.

        If it cannot be read, an error of type `Unreadable` is returned, because a failure must not look like success.
        """
        found = self.value(column, stored)
        if stored is None or found is not None:
            return found
        return JobError("Unreadable", self._problems[-1])

    def error_json(self, column: str, stored: Stored[JobError] | None) -> dict[str, Any] | None:
        """The same as `error`, as a JSON object."""
        found = self.error(column, stored)
        return None if found is None else found.to_json()

    def _note(self, column: str, why: str) -> None:
        self._problems.append(f"{column}: {why}"[:PROBLEM_CHARS_MAX])
