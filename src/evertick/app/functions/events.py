"""The events that a workflow declares, and the types of their values.

A workflow that declares events takes no others. A value is checked when it is sent, where the code of the workflow is
at hand, and when the code takes it: it may have been sent without the code, or by an earlier release.
"""

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from evertick.app.functions.explaining import problems_of
from evertick.base.errors import InvalidArguments, Misuse, RegistrationError
from evertick.base.job_options import check_name
from evertick.base.options import shown

if TYPE_CHECKING:
    from evertick.app.functions.codec import ListCodec

EXPLAINED_MAX: Final = 1_000
"""With more errors in a value, only their number is reported: pydantic writes all of them out."""


class EventTypes:
    """The events that a workflow declares: `types` maps the name of each event to the type of its value."""

    def __init__(self, workflow: str, types: Mapping[str, Any]) -> None:
        self._workflow = workflow
        self._types = types

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the events, in the order of their declaration."""
        return tuple(self._types)

    def check(self) -> None:
        """Build the codecs of the values now, to find errors early. Raises RegistrationError."""
        _ = self._codecs

    def check_name(self, event: str) -> None:
        """Raise Misuse for an event that is not declared."""
        if event not in self._types:
            raise Misuse(
                f"{self._workflow} takes no event {event!r}; the events that it declares are {', '.join(self._types)}"
            )

    def schema(self, event: str) -> dict[str, Any]:
        """The JSON schema of an object with the value of an event; see `schema_of_value`. Raises Misuse."""
        from evertick.app.functions.schema import schema_of_value

        self.check_name(event)
        return schema_of_value(self._codecs[event].adapter)

    def words(self, event: str) -> str:
        """The type of the value of `event` as Python code, for example `list[int]`."""
        return inspect.formatannotation(self._types[event])

    def write(self, event: str, value: Any) -> str:
        """Check a value that is to be sent; returns its JSON text.

        Raises Misuse for an event that is not declared, InvalidArguments for a value that does not fit.
        """
        self.check_name(event)
        codec = self._codecs[event]
        try:
            return codec.write(codec.check([value]))[1:-1]
        except ValueError as error:  # all of pydantic's errors are
            raise self._unfit(event, error) from error

    def read(self, event: str, text: str) -> Any:
        """The value from its JSON text, converted to the declared type. Raises the errors of `write`."""
        self.check_name(event)
        try:
            return self._codecs[event].read_one(text)
        except ValueError as error:
            raise self._unfit(event, error) from error

    @cached_property
    def _codecs(self) -> "Mapping[str, ListCodec]":
        from evertick.app.functions.codec import codec_of_type

        found = {}
        for event, hint in self._types.items():
            try:
                found[event] = codec_of_type(hint)
            except Exception as error:
                raise RegistrationError(
                    f"{self._workflow}: pydantic cannot check values of its event {event!r}: {error}"
                ) from error
        return found

    def _unfit(self, event: str, error: ValueError) -> InvalidArguments:
        from pydantic_core import ValidationError

        what = f"the value of the event {event!r} of {self._workflow}"
        if not isinstance(error, ValidationError):
            return InvalidArguments(f"{what} cannot be stored as JSON: {error}")
        if (count := error.error_count()) > EXPLAINED_MAX:
            return InvalidArguments(f"{what} does not fit: {count:,} values in it are wrong")
        return InvalidArguments(f"{what} does not fit: {problems_of(error, 'it', below=1)}")


def declared_events(workflow: str, given: Any) -> EventTypes | None:
    """The events of a workflow, from the option `events=`; None if there is none. Raises RegistrationError."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise RegistrationError(
            f"{workflow}: events= has types by name, such as {{'decision': Decision}}, not {shown(given)}"
        )
    for name in given:
        try:
            check_name(name, "an event")
        except Misuse as error:
            raise RegistrationError(f"{workflow}: {error}") from None
    return EventTypes(workflow, dict(given))
