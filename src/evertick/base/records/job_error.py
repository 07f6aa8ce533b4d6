"""The error of a job: what its last failed attempt raised."""

import json
from typing import Any, Final, NamedTuple, Self

from evertick.base.records.stored import VERSION, Codec, read_object


class JobError(NamedTuple):
    """An error. `data` is the JSON text of what an ApplicationError carried, None for every other error."""

    type: str
    message: str
    traceback: str = ""
    data: str | None = None

    @property
    def text(self) -> str:
        """The error in a line: `Type: message`."""
        return f"{self.type}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        values: dict[str, Any] = {"type": self.type, "message": self.message, "traceback": self.traceback}
        return values if self.data is None else values | {"data": json.loads(self.data)}

    def to_text(self) -> str:
        """As JSON text in ASCII: a lone surrogate in a message must not make the row unwritable."""
        return json.dumps({"v": VERSION, **self.to_json()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The error that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "the error of a job")
        data = json.dumps(values["data"]) if "data" in values else None
        return cls(values["type"], values["message"], values.get("traceback", ""), data)


NO_ERROR: Final = JobError("", "")
JOB_ERROR: Final = Codec(JobError.to_text, JobError.from_text)
