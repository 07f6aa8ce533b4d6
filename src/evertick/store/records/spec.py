"""The spec of a stored schedule: its canonical text, and the parsed and compiled forms on demand.

Compiled forms are kept by text: a page of due schedules mostly asks for the same few again. The recurrence engine is
imported where it is used, because every store loads this module: a program that only schedules functions starts without
the engine, and without pydantic, which reads specs.
"""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from evertick.recurrence.search.recurrence import Recurrence
    from evertick.recurrence.spec.spec import Spec

COMPILED_MAX: Final = 8_192


class StoredSpec:
    """A spec as a schedule keeps it. Two of them are equal if their texts are."""

    __slots__ = ("_recurrence", "text")

    def __init__(self, text: str, recurrence: "Recurrence | None" = None) -> None:
        self.text = text
        self._recurrence = recurrence

    @classmethod
    def of(cls, spec: "Spec", recurrence: "Recurrence | None" = None) -> Self:
        """The stored form of a spec; `recurrence` is its compiled form, where the caller has it."""
        from evertick.recurrence.wire.writing import canonical

        text = canonical(spec)
        kept = _kept(text)
        if recurrence is not None and not kept:
            kept.append(recurrence)
        return cls(text, recurrence)

    @property
    def recurrence(self) -> "Recurrence":
        """The compiled form. Raises InvalidSpec if the text is no spec of this release."""
        if self._recurrence is None:
            self._recurrence = _compiled(self.text)
        return self._recurrence

    @property
    def value(self) -> "Spec":
        """The parsed form. Raises InvalidSpec if the text is no spec of this release."""
        return self.recurrence.spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredSpec) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"StoredSpec({self.text})"


@lru_cache(maxsize=COMPILED_MAX)
def _kept(text: str) -> "list[Recurrence]":
    """The place of a text's compiled form: empty until there is one."""
    return []


def _compiled(text: str) -> "Recurrence":
    kept = _kept(text)
    if not kept:
        from evertick.recurrence.search.compiler import compile_spec
        from evertick.recurrence.wire.reading import spec_from_wire

        kept.append(compile_spec(spec_from_wire(json.loads(text))))
    return kept[0]
