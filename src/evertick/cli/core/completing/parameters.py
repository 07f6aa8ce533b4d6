"""What a shell completes besides commands and flags: ids, functions, policies, time zones and profiles.

Ids and functions are read from the database or the server that the command would use (`local.py`, `remote.py`).
Completion never fails: where nothing can be read, nothing is completed.
"""

import os
from collections.abc import Callable, Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem

VARIABLE: Final = "_EVERTICK_COMPLETE"
"""The environment variable by which the shell's script asks for completions."""
SHOWN_MAX: Final = 200

Complete = Callable[[click.Context, str], Iterable[str]]


def with_completion(command: click.Command) -> click.Command:
    """The command. If the shell asks for completions, its parameters complete the names of stored objects."""
    if VARIABLE in os.environ:
        for parameter in command.params:
            complete = COMPLETERS.get(parameter.name or "")
            if complete is not None:
                setattr(parameter, "shell_complete", _safely(complete))  # noqa: B010
    return command


def _safely(complete: Complete) -> Callable[[click.Context, str], list[CompletionItem]]:
    def completed(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        try:
            found = [text for text in complete(ctx, incomplete) if text.startswith(incomplete)]
        except Exception:  # there is no place for a message in the middle of a command line
            return []
        return [CompletionItem(text) for text in dict.fromkeys(found)][:SHOWN_MAX]

    return completed


def _read(kind: str) -> Complete:
    """A completion function for names of a kind (`evertick.cli.core.completing.kinds`)."""

    def names(ctx: click.Context, incomplete: str) -> Iterable[str]:
        from evertick.base.ids import DEFAULT_TENANT
        from evertick.cli.core.completing.kinds import Kind
        from evertick.cli.core.connections import chosen_server
        from evertick.cli.core.databases import named_tenant

        with ctx.scope(cleanup=False):
            db, schedule = ctx.params.get("db"), ctx.params.get("sid")
            server, tenant = chosen_server(db), named_tenant()
            if server is not None:
                from evertick.cli.core.completing import remote

                return remote.names(server, Kind(kind), tenant, incomplete, schedule)
            from evertick.cli.core.completing import local

            return local.names(db, Kind(kind), tenant or DEFAULT_TENANT, incomplete, schedule)

    return names


NAMED: Final = {"cron": "cron", "pool": "pool", "tenant": "tenant", "type": "workflow"}
"""What the argument NAME of the commands in a group names."""


def _named(ctx: click.Context, incomplete: str) -> Iterable[str]:
    kind = None if ctx.parent is None else NAMED.get(ctx.parent.info_name or "")
    return () if kind is None else _read(kind)(ctx, incomplete)


def _opened(ctx: click.Context, incomplete: str) -> Iterable[str]:
    kind = {"schedule": "schedule", "job": "job", "workflow": "run"}.get(ctx.params.get("what") or "")
    return () if kind is None else _read(kind)(ctx, incomplete)


def _overlaps(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.rules.schedules.policies import Overlap

    return ["".join(part.capitalize() for part in each.value.split("_")) for each in Overlap]


def _catch_ups(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.rules.schedules.policies import CatchUp

    return [each.value for each in CatchUp]


def _zones(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.recurrence.zones.names import zone_names

    return zone_names()


def _profiles(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.cli.core.connections import profile_names

    return profile_names()


COMPLETERS: Final[dict[str, Complete]] = {
    "job_id": _read("job"),
    "job_ids": _read("job"),
    "request": _read("job"),
    "run_id": _read("run"),
    "run_ids": _read("run"),
    "workflow": _read("workflow"),
    "sid": _read("schedule"),
    "bare_id": _read("schedule"),
    "names": _read("schedule"),
    "schedule": _read("schedule"),
    "schedule_id": _read("schedule"),
    "backfill_id": _read("backfill"),
    "function": _read("function"),
    "pool": _read("pool"),
    "script": _read("script"),
    "tenant": _read("tenant"),
    "name": _named,
    "named_id": _opened,
    "overlap": _overlaps,
    "catch_up": _catch_ups,
    "time_zone": _zones,
    "profile": _profiles,
}
"""By the name of the parameter."""
