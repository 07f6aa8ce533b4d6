"""The description of the API as OpenAPI: what FastAPI finds in the routes, with problems, tokens and media types."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from evertick.server.callers import PUBLIC, SCOPE_KEY
from evertick.server.problems import MEDIA_TYPE

PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What went wrong (RFC 9457). Clients match on `code`, which never changes.",
    "required": ["type", "title", "status", "code", "detail", "request"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "examples": ["job_not_found"]},
        "detail": {"type": "string"},
        "request": {"type": "string", "description": "The id of the request, as the server's log has it."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "error": {"type": "object", "description": "What a function has raised."},
    },
}
REFUSED: Final[dict[str, Any]] = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
DESCRIPTION: Final = (
    "Durable scheduling: jobs, schedules and workflows. Times are RFC 3339 text, in UTC in replies. A list has a "
    "`cursor` for its next page. `x-evertick-scope` is what a token needs: read, operate, edit or admin, each of which "
    "includes those before it."
)


def described(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of a server; made once."""
    if api.openapi_schema is None:
        made = get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes)
        complete_operations(made)
        stream = made["paths"]["/api/v1/tenants/{tenant}/events"]["get"]["responses"]["200"]
        stream["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        result = made["paths"]["/api/v1/tenants/{tenant}/workflows/{run_id}/result"]["get"]["responses"]
        result["202"] = result["200"] | {"description": "The run has not ended yet."}
        text = made["paths"]["/metrics"]["get"]["responses"]["200"]
        text["content"] = {"text/plain": {"schema": {"type": "string"}}}
        api.openapi_schema = made
    return api.openapi_schema


def complete_operations(made: dict[str, Any]) -> None:
    """Add to a document what every operation has: its problems, and the token that it needs."""
    components = made.setdefault("components", {})
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "evt_..."}}
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in made["paths"].values():
        for operation in path.values():
            _complete(operation)


def _complete(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    responses["4XX"] = responses["5XX"] = REFUSED
    if operation[SCOPE_KEY] != PUBLIC:
        operation["security"] = [{"token": []}]
