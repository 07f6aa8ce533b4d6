"""What was typed into a form, and what is wrong with it."""

import re
from collections.abc import Mapping
from typing import Final

from evertick.base.cures import meant
from evertick.base.errors import Unavailable
from evertick.server.problems import has_own_words

_NAMES: Final = """
after all args args_as args_switch argument_bytes arguments at at_a_time attribute attributes base body buffer_limit
builtin catch_up catch_up_window choose command concurrency_limit confirmed cpu_ms cpu_s_per_hour cron dialect do does
end error event every expires force from from_now function gap host_calls hosts how id input interval_ms jitter jobs key
keys language list log_bytes memo memory_bytes message method more name next not_retried note occurrence of overlap
parameters params pause_on_failure paused per_key per_tenant plans progress q query reads remaining_actions repeated
request rerun result_bytes revision roots row rrule run_id_template run_timeout running runs_per_hour s schedule
schedules scope script scripts shared shown since source source_bytes speed start starts_per_minute state step
take_version tenant text times token trigger typed tz until url username value version wall_ms when which workflow
workflow_id writes x zone zone_offered
"""
FIELDS: Final = frozenset(_NAMES.split())
"""The fields of all forms, by name."""
_NUMBERED: Final = re.compile(r"a\..+|[sx]\.[0-9]+\.[a-z_]+|take\.[a-z_]+|retry\.[a-z]+", re.DOTALL)
"""Those of an argument, of a row of times, of a conflict and of a retry policy."""


def reason_of(error: Exception) -> str:
    """What an error says of what was typed.

    Raises the error again if it is an outage of the database: nothing that was typed is wrong then, and its words are
    for those who run the server, such as the path of a file.
    """
    if isinstance(error, Unavailable) and not has_own_words(error):
        raise error
    return str(error)


class Form:
    """The fields of a form, and what is wrong with them."""

    def __init__(self, pairs: list[tuple[str, str]] | None = None) -> None:
        self.pairs = pairs or []
        self.errors: dict[str, str] = {}
        """What is wrong, by field; under `""` what is about the whole form."""

    @property
    def unknown(self) -> str | None:
        """What is wrong with the first field that no form has; None if there is none."""
        for name, _ in self.pairs:
            if name not in FIELDS and not _NUMBERED.fullmatch(name):
                return f"no form has a field {name[:60]!r}; {meant(name[:60], FIELDS)}nothing was done"
        return None

    def __getitem__(self, name: str) -> str:
        """What was typed into a field; nothing if it is not there."""
        return next((value for key, value in self.pairs if key == name), "").strip()

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for key, value in self.pairs if key == name]

    def given(self, name: str) -> str | None:
        """What was typed into a field; None for nothing."""
        return self[name] or None

    def fail(self, name: str, why: str) -> None:
        """Something is wrong with a field; the first complaint stays."""
        self.errors.setdefault(name, why)

    def error(self, name: str) -> str | None:
        """What is wrong with a field."""
        return self.errors.get(name)

    def field_of(self, error: Exception, fields: Mapping[str, str], otherwise: str = "") -> None:
        """Put an error beside the field that its message begins with or names; `fields` maps words to fields.

        Raises an outage of the database again, as `reason_of` does.
        """
        words = reason_of(error)
        name = next((field for word, field in fields.items() if word in words[:120]), otherwise)
        self.fail(name, words)
