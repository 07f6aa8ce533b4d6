"""Faces: what a page shows in place of what was asked for. Each has its own heading, glyph and way out.

Nothing here, nothing matches, failed to load, not allowed: a list that is empty because it could not be read must never
look like one that is empty.
"""

from dataclasses import dataclass
from typing import Final

from fastapi.exceptions import RequestValidationError

from evertick.base.errors import EvertickError, NotFound, Unavailable
from evertick.server.problems import STATUS, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """What stands in place of a page. `glyph` is a class of `dash.css`."""

    status: int
    glyph: str
    word: str
    title: str
    detail: str
    code: str
    again: bool = False
    """Whether trying again may help."""


WORDS: Final = {
    "not_found": ("nomatch", "not found", "There is nothing at this address"),
    "not_allowed": ("locked", "not allowed", "Your token may not do this"),
    "foreign_origin": ("locked", "not allowed", "This came from another site"),
    "version_conflict": ("late", "changed meanwhile", "It was changed by someone else meanwhile"),
}


LOST: Final = {
    404: Face(
        status=404, glyph="nomatch", word="not found", title="There is nothing at this address",
        detail="Pages have addresses that begin with /t/ and the name of a tenant.", code="not_found",
    ),
    405: Face(
        status=405, glyph="nomatch", word="not a page", title="There is no page at this address",
        detail="It takes what a form sends. Open the form again, and send it from there.", code="method_not_allowed",
    ),
}  # fmt: skip
"""The faces of addresses that no route has, or that take another method."""


def face_of(error: Exception, *, is_form: bool = False) -> Face:
    """The face of an error: of a page that was to be shown, or of a form that was sent."""
    if isinstance(error, TimeoutError):
        return Face(
            status=503, glyph="failed", word="failed to load", title="This was too slow, and was stopped after 2 s",
            detail="What you asked for is there and goes on; only this view could not be read in time. Asking for less "
            "usually helps: a filter, a shorter span.", code="too_slow", again=True,
        )  # fmt: skip
    if isinstance(error, Unavailable) and is_form:
        return Face(
            status=503, glyph="failed", word="not done", title="The database cannot be written now",
            detail="What you sent was not carried out, or only in part if it was about several. Look before you send "
            "it again.", code=error.code, again=True,
        )  # fmt: skip
    if isinstance(error, Unavailable):
        return Face(
            status=503, glyph="failed", word="failed to load", title="The database cannot be read now",
            detail="Nothing is lost: what is scheduled is in the database, and goes on when it is back.",
            code=error.code, again=True,
        )  # fmt: skip
    if isinstance(error, RequestValidationError):
        wrong = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()[:3])
        return Face(
            status=422, glyph="nomatch", word="not understood", title="This address has a part that is not understood",
            detail=wrong, code="invalid_request",
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


def _face(status: int, code: str, detail: str, *, like: str | None = None) -> Face:
    usual = ("failed", "not done", "This was not done")
    glyph, word, title = WORDS.get(like or code, usual)
    return Face(status=status, glyph=glyph, word=word, title=title, detail=detail, code=code)
