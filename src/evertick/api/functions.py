"""The schema of a function."""

from typing import Any, Self

from evertick.api.schema import Schema
from evertick.base.records.jobs import FunctionKind


class FunctionView(Schema):
    """A function of an app.

    `parameters` is its signature as text: `(order_id: str, note: str = '')`. `internal` is True if the function is not
    meant to be called from outside the app. `description` is its docstring.
    """

    name: str
    kind: FunctionKind
    pool: str
    parameters: str
    internal: bool
    description: str

    @classmethod
    def of(cls, function: Any) -> Self:
        """The view of a registered function."""
        served = function.served
        return cls(
            name=function.name,
            kind=function.kind,
            pool=served.pool.rpartition("/")[2],
            parameters=served.signature,
            internal=function.internal,
            description=(function.__doc__ or "").strip(),
        )
