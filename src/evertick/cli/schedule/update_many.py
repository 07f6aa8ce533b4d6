"""`evertick schedule update --query`: many schedules get other names of arguments, another function, or both.

It goes schedule by schedule, so that those which do not fit are told of and the others are changed.
"""

from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import EvertickError
from evertick.base.escaping import printable
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.output import OutputOptions
from evertick.cli.core.progress import counting
from evertick.cli.root import fail
from evertick.cli.schedule.selection import LIMIT_MAX, counted, pages
from evertick.cli.schedule.session import Session
from evertick.rules.schedules.metadata import CODE

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleDescription
    from evertick.app.schedules.queries import Where
    from evertick.app.schedules.updates import CallChange

LEFT_OUT: Final = "left out {}: declared in code, without such an argument, or as they should be"


class _LeftOutError(Exception):
    """A schedule is not meant, or needs no change; its transaction ends."""


def patch_of(change: "CallChange", before: "ScheduleDescription") -> dict[str, Any]:
    """What changes of a schedule. Raises InvalidArguments, which names it; FunctionNotFound."""
    return {"do": change.changed(before.target.function, before.target.args, f"schedule {before.id!r}")}


def update_many(session: Session, change: "CallChange", where: "Where", out: OutputOptions, *, dry_run: bool) -> int:
    """Change the schedules that are chosen, and say which; returns the exit code."""
    from evertick.api.commands import UpdatedSchedule
    from evertick.cli.schedule.changes import Update
    from evertick.cli.schedule.differences import difference, text_of

    def make(before: "ScheduleDescription") -> dict[str, Any]:
        if before.source == CODE or not change.concerns(before.target.args):
            raise _LeftOutError
        return patch_of(change, before)

    update = Update(make=make, is_whole=False, if_version=None, dry_run=dry_run)
    rows: list[Any] = []
    codes, left = list[int](), 0
    done = "schedules would change" if dry_run else "schedules are changed"
    with counting(done, session.store) as progress:
        for each in pages(session, where, "id", LIMIT_MAX):
            try:
                before, after = session.updated(each.id, update)
            except _LeftOutError:
                left += 1
                continue
            except EvertickError as error:
                codes.append(fail(str(error), exit_code_of(error)))
                continue
            changes = difference(before, after)
            if not changes:
                left += 1
                continue
            rows.append(UpdatedSchedule.after(after, changes, dry_run=dry_run).to_json())
            progress(len(rows))
            if not (out.is_data or out.is_none):
                for name, (old, new) in changes.items():
                    cells = (after.id, name, f"{text_of(old)} -> {text_of(new)}")
                    click.echo("\t".join(map(printable, cells)))
    if out.output == "json":
        out.write_json(rows)
    elif out.output == "jsonl":
        for row in rows:
            out.write_json(row)
    click.echo(f"{'would change' if dry_run else 'changed'} {counted(len(rows))}", err=True)
    if left:
        click.echo(LEFT_OUT.format(counted(left)), err=True)
    return Exit.PARTLY if codes and rows else max(codes, default=Exit.OK)
