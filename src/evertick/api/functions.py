"""The schema of a function."""

from typing import Any, Self

from evertick.api.schema import Schema
from evertick.base.records.jobs import FunctionKind


class FunctionView(Schema):
    """A function of an app. `parameters` is its signature as people read it: `(order_id: str, note: str = '')`.

    `internal` says that it is not meant to be called from outside the app.
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
