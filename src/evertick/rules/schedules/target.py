"""Target: what a schedule does when its time has come: call a function, with these arguments and options."""

import json
from dataclasses import dataclass
from typing import Any, Self

from evertick.base.records.jobs import FunctionKind
from evertick.base.records.retry import RetryPolicy
from evertick.base.records.stored import VERSION, read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function to call. `args` is the JSON object of its arguments, `workflow_id` the stem of its runs' names."""

    name: str
    kind: FunctionKind
    args: str
    retry: RetryPolicy | None = None
    workflow_id: str | None = None
    pool: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; what is not set is left out."""
        values = {"name": self.name, "kind": self.kind.value, "args": json.loads(self.args)}
        retry = None if self.retry is None else self.retry.to_json()
        options = {"retry": retry, "workflow_id": self.workflow_id, "pool": self.pool}
        return values | {name: value for name, value in options.items() if value is not None}

    def to_text(self) -> str:
        """As JSON text."""
        return json.dumps({"v": VERSION, **self.to_json()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The target that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "a schedule's target")
        retry = values.get("retry")
        return cls(
            name=values["name"],
            kind=FunctionKind(values["kind"]),
            args=json.dumps(values["args"]),
            retry=None if retry is None else RetryPolicy.from_json(retry),
            workflow_id=values.get("workflow_id"),
            pool=values.get("pool"),
        )
