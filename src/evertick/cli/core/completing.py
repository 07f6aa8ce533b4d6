"""What a shell completes besides commands and flags: ids, functions, policies and time zones.

Ids and functions are read from the database that the command would use. Completion never fails: where nothing can be
read, nothing is completed.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

VARIABLE: Final = "_EVERTICK_COMPLETE"
"""The environment variable by which the shell's script asks for completions."""
SHOWN_MAX: Final = 200
JOBS_LOOKED_AT: Final = 1_000

Complete = Callable[[click.Context, str], Iterable[str]]


def with_completion(command: click.Command) -> click.Command:
    """The command; if the shell asks for completions, with those of its parameters that are known by name."""
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


def _read(ctx: click.Context, work: Callable[[Any], Iterable[str]]) -> Iterable[str]:
    from evertick.cli.core.connections import chosen_server
    from evertick.cli.core.databases import open_database

    with ctx.scope(cleanup=False):
        if chosen_server(ctx.params.get("db")) is not None:
            return []  # ids of a database would be wrong there
    with open_database(ctx.params.get("db")) as store:
        return store.view(work)


def _jobs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.base.records.jobs import JobFilter

    where = JobFilter(tenant=_tenant(ctx))
    return _read(ctx, lambda tx: [job.id for job in tx.list_jobs(where, limit=JOBS_LOOKED_AT, newest_first=True)])


def _runs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    def names(tx: Any) -> Iterable[str]:
        runs = tx.list_jobs(_of_runs(ctx), limit=JOBS_LOOKED_AT, newest_first=True)
        return [name for run in runs for name in (run.key, run.id) if name]

    return _read(ctx, names)


def _workflows(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.base.records.jobs import FunctionKind

    def names(tx: Any) -> Iterable[str]:
        serves = [worker.serves.value for worker in tx.list_workers() if worker.serves is not None]
        served = {each.name for one in serves for each in one.functions if each.kind is FunctionKind.WORKFLOW}
        return sorted(served | {run.name for run in tx.list_jobs(_of_runs(ctx), limit=JOBS_LOOKED_AT)})

    return _read(ctx, names)


def _of_runs(ctx: click.Context) -> Any:
    from evertick.base.records.jobs import JobFilter
    from evertick.base.records.run_states import RunFilter

    return JobFilter(tenant=_tenant(ctx), runs=RunFilter())


def _schedules(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.app.paging import all_schedules
    from evertick.base.records.schedules import ScheduleFilter

    where = ScheduleFilter(tenant=_tenant(ctx), id_contains=incomplete or None)
    return _read(ctx, lambda tx: [row.id for row in all_schedules(tx, where)])


def _functions(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.app.functions_by_name import names_seen

    return _read(ctx, lambda tx: sorted(names_seen(tx, _tenant(ctx))))


def _overlaps(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.rules.schedules.policies import Overlap

    return ["".join(part.capitalize() for part in each.value.split("_")) for each in Overlap]


def _catch_ups(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.rules.schedules.policies import CatchUp

    return [each.value for each in CatchUp]


def _zones(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from evertick.recurrence.zones.names import zone_names

    return zone_names()


def _tenant(ctx: click.Context) -> Any:
    from evertick.base.ids import DEFAULT_TENANT
    from evertick.cli.core.databases import TENANT_KEY

    return ctx.meta.get(TENANT_KEY, DEFAULT_TENANT)


COMPLETERS: Final[dict[str, Complete]] = {
    "job_id": _jobs,
    "job_ids": _jobs,
    "run_id": _runs,
    "run_ids": _runs,
    "workflow": _workflows,
    "sid": _schedules,
    "bare_id": _schedules,
    "name": _schedules,
    "function": _functions,
    "overlap": _overlaps,
    "catch_up": _catch_ups,
    "time_zone": _zones,
}
"""By the name of the parameter."""
