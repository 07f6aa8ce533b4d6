"""Faces: what a page shows instead of the requested content. Each has its own heading, glyph and next step.

Nothing here, nothing matches, failed to load, not allowed: a list that could not be read must never look like an empty
list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from evertick.base.errors import EvertickError, NotFound, Unavailable
from evertick.base.suggested_commands import did_you_mean
from evertick.server.problems import STATUS, TOLD, Problem, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """The content shown instead of a page. `glyph` is a class of `dash.css`."""

    status: int
    glyph: str
    word: str
    title: str
    detail: str
    code: str
    again: bool = False
    """Whether trying again may help."""
    is_filter: bool = False
    """Whether the page can be shown without the filters in its address."""


EVERYWHERE: Final = frozenset({"cursor", "tz"})
"""Parameters of an address that are not filters."""
WORDS: Final = {
    "not_found": ("nomatch", "not found", "There is nothing at this address"),
    "not_allowed": ("locked", "not allowed", "Your token may not do this"),
    "foreign_origin": ("locked", "not allowed", "This came from another site"),
    "gateway_unreachable": ("failed", "not done", "The gateway does not reply"),
    "outcome_unknown": ("late", "not known", "It may have been done, or not"),
    "version_conflict": ("late", "changed meanwhile", "It was changed by someone else meanwhile"),
}


LOST: Final = {
    404: Face(
        status=404, glyph="nomatch", word="not found", title="There is nothing at this address",
        detail="Pages have addresses that begin with /t/ and the name of a tenant.", code="not_found",
    ),
    405: Face(
        status=405, glyph="nomatch", word="not a page", title="There is no page at this address",
        detail="This address accepts only a form. Open the form and send it again.", code="method_not_allowed",
    ),
}  # fmt: skip
"""The faces of unknown addresses, and of addresses that need another method."""


def face_of(error: Exception, *, is_form: bool = False, route: Any = None) -> Face:
    """The face of an error of a page, or of a form that was sent; `route` is FastAPI's."""
    if isinstance(error, TimeoutError):
        return Face(
            status=503, glyph="failed", word="failed to load", title="This was too slow and was stopped after 2 s",
            detail="The data is not affected; only this view could not be read in time. Showing less "
            "usually helps: a filter, a shorter span.", code="too_slow", again=True,
        )  # fmt: skip
    if isinstance(error, TOLD):
        return _face(503, error.code, str(error))
    if isinstance(error, Unavailable) and is_form:
        return Face(
            status=503, glyph="failed", word="not done", title="The database cannot be written now",
            detail="What you sent was not done, or only in part if it concerns several things. Check before you send "
            "it again.", code=error.code, again=True,
        )  # fmt: skip
    if isinstance(error, Unavailable):
        return Face(
            status=503, glyph="failed", word="failed to load", title="The database cannot be read now",
            detail="Nothing is lost: scheduled work is in the database, and continues when it is back.",
            code=error.code, again=True,
        )  # fmt: skip
    if isinstance(error, RequestValidationError):
        found, known = error.errors(), _filters(route)
        wrong = "; ".join(_wrong(each, known, route) for each in found[:3])
        return Face(
            status=422, glyph="nomatch", word="not understood", title="This address has a part that is not understood",
            detail=wrong, code="invalid_request",
            is_filter=not is_form and all(each["loc"][0] == "query" for each in found),
        )  # fmt: skip
    if isinstance(error, Problem):
        return _face(error.status_code, error.code, str(error.detail))
    if isinstance(error, NotFound):
        return _face(404, error.code, str(error), like="not_found")
    if isinstance(error, EvertickError):
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        return _face(status, error.code, str(error))
    return Face(
        status=500, glyph="failed", word="failed to load", title="Something went wrong in the server",
        detail="Its log has more, under the number below.", code="internal_error", again=True,
    )  # fmt: skip


def _filters(route: Any) -> list[str]:
    """The names of the query parameters of a page, without those of every page."""
    asked = [field.field_info.annotation for field in getattr(getattr(route, "dependant", None), "query_params", ())]
    models = [each for each in asked if isinstance(each, type) and issubclass(each, BaseModel)]
    return [name for model in models for name in model.model_fields if name not in EVERYWHERE]


def _wrong(each: Any, known: Sequence[str], route: Any) -> str:
    name = each["loc"][-1]
    if each["type"] == "extra_forbidden" and known:
        near = did_you_mean(str(name)[:60], known).rstrip()
        return f"this page has no filter {name!r}; {near or 'it has ' + ', '.join(known)}"
    return f"{name}: {words_of(each, route)}"


def _face(status: int, code: str, detail: str, *, like: str | None = None) -> Face:
    usual = ("failed", "not done", "This was not done")
    glyph, word, title = WORDS.get(like or code, usual)
    return Face(status=status, glyph=glyph, word=word, title=title, detail=detail, code=code)
