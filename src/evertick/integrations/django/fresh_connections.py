"""Fresh connections: Django's own, in the threads of a worker.

Django closes connections that have become unusable, or older than CONN_MAX_AGE, around each request. Actions are no
requests, so a worker does it around each action: after a restart of the database the next one connects again.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from evertick.app.app import App
from evertick.base.records.jobs import FunctionKind


def use_fresh_connections(app: App) -> None:
    """Let each `def` action of the app begin and end as a request does."""
    for function in app.functions:
        if function.kind is FunctionKind.ACTION and not function.is_async:
            function.handler = _as_a_request(function.handler)


def _as_a_request(handler: Callable[..., Any]) -> Callable[..., Any]:
    from django.db import close_old_connections, reset_queries

    @wraps(handler)
    def handle(*args: Any, **kwargs: Any) -> Any:
        reset_queries()
        close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            close_old_connections()

    return handle
