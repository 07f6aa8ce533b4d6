"""Scopes: which schedules a file speaks for, by the beginning of their ids or by a word in their memos."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.core.flags import flag
from evertick.cli.schedule.selection import LIMIT_MAX, pages

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleSummary
    from evertick.cli.schedule.session import Session


@dataclass(frozen=True, slots=True)
class Scope:
    """All schedules, or those selected by `--prefix` and `--label`."""

    prefix: str = flag("--prefix", default="", metavar="TEXT", help="Schedules whose ids begin with TEXT.")
    label: str | None = flag("--label", metavar="NAME=VALUE", help="Schedules whose memo has NAME with this value.")

    def __bool__(self) -> bool:
        return bool(self.prefix) or self.label is not None

    def holds(self, schedule_id: str, memo: Mapping[str, Any]) -> bool:
        """Whether a schedule is in the scope. Raises UsageError for an invalid label."""
        if not schedule_id.startswith(self.prefix):
            return False
        if self.label is None:
            return True
        name, sign, value = self.label.partition("=")
        if not (name and sign):
            raise click.UsageError(f"--label takes NAME=VALUE, such as team=billing, not {self.label!r}")
        return memo.get(name) == value

    def __str__(self) -> str:
        prefix = [f"--prefix {self.prefix}"] if self.prefix else []
        return " ".join([*prefix, *([] if self.label is None else [f"--label {self.label}"])])

    def found(self, session: "Session", **where: Any) -> "Iterator[ScheduleSummary]":
        """The schedules of the scope, by id. `where` are additional list filters."""
        if self.prefix and "id_contains" not in where:
            where["id_contains"] = self.prefix
        return (each for each in pages(session, where, "id", LIMIT_MAX) if self.holds(each.id, each.memo))  # type: ignore[arg-type]
