"""Bodies of requests: strict JSON, and models that refuse what they do not know."""

import asyncio
import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeVar

from fastapi import Request
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    WithJsonSchema,
    model_validator,
)

from evertick.app.functions.options import Retry
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.server.limits import SLASH
from evertick.server.problems import Problem

DEPTH_MAX: Final = 100
"""Lists and objects inside of each other. Arguments may be 200 deep in Python; over HTTP half of it."""
MEMBERS_MAX: Final = 100
ITEMS_MAX: Final = 1_000
"""Of a list that is not an argument of a function."""
LARGE_BYTES: Final = 65_536
"""A larger body is read in a thread, so that other requests go on."""
_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.|\\\Z)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
"""Texts and brackets. Each character is read once: a text without an end goes to the end, and is not tried again."""


class Body(BaseModel):
    """A body. An unknown member is refused, and so are more than MEMBERS_MAX: each would be an error of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > MEMBERS_MAX:
            raise ValueError(f"there are {len(given):,} members; no body has so many")
        return given


class StrictRequest(Request):
    """A request whose JSON has no member twice, no NaN, no half of a character, and is not too deep."""

    async def json(self) -> Any:
        """The body. Raises Problem."""
        if not hasattr(self, "_strict"):
            body = await self.body()
            is_large = len(body) > LARGE_BYTES
            self._strict = await asyncio.to_thread(strict_json, body) if is_large else strict_json(body)
        return self._strict


def strict_json(text: bytes) -> Any:
    """The value of a JSON text. Raises Problem for what is none, and for what databases or other readers misread."""
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token[0], 0)
        if depth > DEPTH_MAX:
            raise Problem(422, "invalid_json", f"the body is more than {DEPTH_MAX} levels deep")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_number)
        json.dumps(value, ensure_ascii=False).encode()  # half of a character, written as \ud800
    except UnicodeError:
        raise Problem(422, "invalid_json", "the body holds half of a character, or is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise Problem(422, "invalid_json", f"the body is not JSON: {error}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the member {twice[:100]!r} is there twice")
    return found


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:100]} is beyond the largest number")
    return number


def _constant(word: str) -> Any:
    raise ValueError(f"JSON has no {word}")


def _duration(given: Any) -> Any:
    """Seconds, or text such as `1h30m`."""
    if isinstance(given, bool):
        raise ValueError("a duration is seconds, or text such as '1h30m'")
    return timedelta(milliseconds=parse_milliseconds(given)) if isinstance(given, str) else given


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}], "examples": [5, "1h30m"]}),
]
"""Seconds, or text such as `1h30m`."""


def _in_range(at: datetime) -> datetime:
    """A moment whose UTC can be told, too."""
    try:
        at.astimezone(UTC)
    except OverflowError:
        raise ValueError("a moment is in the years 1 to 9999, in UTC, too") from None
    return at


Time = Annotated[AwareDatetime, AfterValidator(_in_range)]
"""A moment, RFC 3339 with a zone."""


class _EndsAtFirst(FailFast):
    """The first item that is wrong ends the reading. Pydantic's own cannot stand in a union: it has no hash."""

    __hash__ = object.__hash__


T = TypeVar("T")
Items = Annotated[list[T], Field(max_length=ITEMS_MAX), _EndsAtFirst()]
"""A list of some length; a million wrong items would be a million errors."""

Named = Annotated[str, AfterValidator(lambda text: text.replace(SLASH, "/"))]
"""A part of the path: an id or a name. A slash in it is written `%2F`."""


class RetryBody(Body):
    """How often to try, and how far apart; see `evertick.Retry`."""

    attempts: int = Field(ge=1)
    first: Duration = timedelta(milliseconds=250)
    factor: float = 2.0
    cap: Duration = timedelta(days=1)
    jitter: float = 0.5

    def retry(self) -> Retry:
        """The policy. Raises Misuse."""
        return Retry(self.attempts, first=self.first, factor=self.factor, cap=self.cap, jitter=self.jitter)


Arguments = Annotated[dict[str, Any], Field(default_factory=dict, description="Arguments by name.")]


class Scheduled(Body):
    """The id of what was scheduled."""

    id: str


class Counted(Body):
    """How many were changed."""

    count: int


class Span(Body):
    """From `start` to `end`, both included."""

    start: Time
    end: Time
