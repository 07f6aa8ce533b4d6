"""The completion of a job: the function that is told when the job has ended for good."""

import json
from typing import Any, Final, NamedTuple, Self

from evertick.base.records.stored import VERSION, Codec, read_object


class Completion(NamedTuple):
    """A function to call with (job id, `context`, result), by its `parameters`. `kind` is that of the function."""

    name: str
    kind: str
    parameters: tuple[str, ...]
    context: Any

    def args(self, job_id: str, result: dict[str, Any]) -> str:
        """The arguments of the call, as JSON text."""
        return json.dumps(dict(zip(self.parameters, (job_id, self.context, result), strict=True)))

    def to_text(self) -> str:
        """As JSON text."""
        return json.dumps({"v": VERSION, **self._asdict()})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The completion that `to_text` wrote. Raises SchemaMismatch if a newer release wrote it."""
        values = read_object(text, "the completion of a job")
        return cls(values["name"], values["kind"], tuple(values["parameters"]), values["context"])


COMPLETION: Final = Codec(Completion.to_text, Completion.from_text)
