"""Bodies of requests: strict JSON, and what requests alone have; the rest is in `evertick.app.bodies`."""

import asyncio
import json
import re
from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import AfterValidator, Field

from evertick.app.bodies import Body
from evertick.base.escaping import json_fault, read_json
from evertick.server.limits import SLASH
from evertick.server.problems import Problem

DEPTH_MAX: Final = 100
"""Lists and objects inside of each other. Arguments may be 200 deep in Python; over HTTP half of it."""
LARGE_BYTES: Final = 65_536
"""A larger body is read in a thread, so that other requests go on."""
_TOKENS: Final = re.compile(r'"(?:[^"\\]++|\\.|\\\Z)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
"""Texts and brackets. Each character is read once: a text without an end goes to the end, and is not tried again."""


class StrictRequest(Request):
    """A request whose JSON has no duplicate members, no NaN, no lone surrogates, and is not too deep."""

    async def json(self) -> Any:
        """The body. Raises Problem."""
        if not hasattr(self, "_strict"):
            body = await self.body()
            is_large = len(body) > LARGE_BYTES
            self._strict = await asyncio.to_thread(strict_json, body) if is_large else strict_json(body)
        return self._strict


def strict_json(body: bytes) -> Any:
    """The value of a JSON text. Raises Problem for what is none, and for what databases or other readers misread."""
    try:
        text = body.decode("utf-8-sig")  # JSON is UTF-8 (RFC 8259, 8.1); the library would guess UTF-16 and UTF-32
        _check_depth(text)
        value = read_json(text)
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate, written as \ud800
    except UnicodeError:
        raise Problem(422, "invalid_json", "the body contains a lone surrogate (\\ud83d), or is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise Problem(422, "invalid_json", f"the body is not JSON: {json_fault(error)}") from None
    return value


def _check_depth(text: str) -> None:
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > DEPTH_MAX:
            raise Problem(422, "invalid_json", f"the body is more than {DEPTH_MAX} levels deep")


Limit = Annotated[int, Query(ge=1, le=1_000)]
Cursor = Annotated[str | None, Query(max_length=200)]
Named = Annotated[str, AfterValidator(lambda text: text.replace(SLASH, "/"))]
"""A part of the path: an id or a name. A slash in it is written `%2F`."""


class Scheduled(Body):
    """The id of what was scheduled."""

    id: str


class Piece(Body):
    """How much of a change of many one request makes: all of it, unless it names a time."""

    seconds: float | None = Field(
        None, ge=0, le=60, description="Reply after about so long, with how many are changed and where to go on."
    )
    cursor: str | None = Field(
        None, min_length=1, max_length=1_000, pattern=r"^\P{Cc}+$", description="That of the last reply, to go on."
    )

    @property
    def choice(self) -> str:
        """What is chosen, as the audit log names it."""
        return self.model_dump_json(exclude_none=True, exclude=set(Piece.model_fields))


class Changed(Body):
    """How many were changed. Others may be left if there is a `cursor`: send it with the same choice to go on."""

    count: int
    cursor: str | None
