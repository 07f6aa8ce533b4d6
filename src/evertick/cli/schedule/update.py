"""`evertick schedule update`: change what is given and keep the rest; `--replace` gives a whole new definition.

With `--query` it gives many schedules other names of arguments and another function.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import EvertickError
from evertick.base.escaping import printable
from evertick.base.options import some
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, output_option
from evertick.cli.core.progress import counting
from evertick.cli.core.renames import names_of, rename_option
from evertick.cli.root import fail
from evertick.cli.schedule.flags import DefinitionFlags, SpecFlags, definition_options, say_if_unseen, spec_options
from evertick.cli.schedule.selection import LIMIT_MAX, Selection, app_option, counted, named, pages, selection_options
from evertick.cli.schedule.session import Session, open_session
from evertick.rules.schedules.metadata import CODE

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleDescription
    from evertick.app.functions.function import FunctionCall
    from evertick.app.schedules.queries import Where
    from evertick.app.schedules.updates import CallChange
    from evertick.recurrence.spec.spec import Spec


UNSET_IN_SPEC: Final = {
    "jitter": "jitter", "start-time": "start", "end-time": "end", "except": "except", "time-zone": "time_zone",
    "dialect": "dialect",
}  # fmt: skip
UNSET_ELSEWHERE: Final = {
    "catchup-window": "catch_up_window", "run-timeout": "run_timeout", "remaining-actions": "remaining_actions",
    "workflow-id": "workflow_id",
    "wid": "workflow_id", "task-queue": "pool", "tq": "pool", "retry": "retry", "notes": "note", "memo": "memo",
}  # fmt: skip
UNSETTABLE: Final = ("input", *UNSET_IN_SPEC, *UNSET_ELSEWHERE)


@dataclass(frozen=True, slots=True)
class UpdateFlags:
    """The options of `update`, except those for the new definition."""

    unset: tuple[str, ...] = flag(
        "--unset", default=(), type=click.Choice(UNSETTABLE), metavar="NAME",
        help="Lift what was set, such as jitter or end-time. Repeatable.",
    )  # fmt: skip
    is_whole: bool = flag("--replace", default=False, help="A whole new definition: what is not given is lifted.")
    renames: tuple[str, ...] = shared(rename_option, default=())
    dry_run: bool = flag("--dry-run", default=False, help="Show what would change; write nothing.")
    app_file: str | None = shared(app_option)
    db: str | None = shared(data_options)


@click.command()
@selection_options("update", "'function:app.old_name'; with --rename, --function or both, and nothing else")
@spec_options
@definition_options
@flags(UpdateFlags, "how")
@output_option
def update(
    chosen: Selection, spec_flags: SpecFlags, definition: DefinitionFlags, how: UpdateFlags, out: OutputOptions
) -> int:
    """Change a schedule: what is given changes, the rest stays. Runs, counters and a pause stay in any case.

    New times replace all times it had. Times that have passed are not caught up. With --query all schedules that
    it chooses get other names of arguments (--rename), another function (--function), or both.
    """
    if not (spec_flags.given or how.unset or how.renames or definition.given):
        raise click.UsageError("nothing to change; give an option, such as --cron or --overlap-policy")
    if how.is_whole and (how.unset or how.renames):
        raise click.UsageError("--replace lifts whatever is not given, so there is nothing to --unset or --rename")
    if chosen.query is not None:
        _check_for_many(spec_flags, definition, how)
        return _many(chosen, definition, how, out)
    _one(chosen, spec_flags, definition, how, out)
    return Exit.OK


def _check_for_many(spec_flags: SpecFlags, definition: DefinitionFlags, how: UpdateFlags) -> None:
    others = replace(definition, function=None, force=False).given
    if spec_flags.given or others or how.unset or how.is_whole:
        raise click.UsageError("--query changes many schedules: only --function and --rename go with it")


def _many(chosen: Selection, definition: DefinitionFlags, how: UpdateFlags, out: OutputOptions) -> int:
    with open_session(how.db, how.app_file) as session:
        change = _call_change(session, definition, how)
        where = replace(chosen, yes=chosen.yes or how.dry_run).where(session, "update")
        return update_many(session, change, where, out, dry_run=how.dry_run)


def _call_change(session: Session, definition: DefinitionFlags, how: UpdateFlags) -> "CallChange":
    from evertick.app.schedules.updates import CallChange

    functions = session.functions
    return CallChange(functions.resolve, definition.resolved(functions), names_of(how.renames))


def _one(
    chosen: Selection, spec_flags: SpecFlags, definition: DefinitionFlags, how: UpdateFlags, out: OutputOptions
) -> None:
    from evertick.cli.schedule.changes import Update

    sid = named(chosen.sid)
    if how.renames and (definition.input_text is not None or "input" in how.unset):
        raise click.UsageError("--input are all arguments; give either it or --rename")
    with open_session(how.db, how.app_file) as session:
        now_s = session.now // 1000
        change_of_call = _call_change(session, definition, how)
        call = None if how.renames else _call(session, sid, definition, how)
        definition.check_pool(call, session.pool_of)

        def make(before: "ScheduleDescription") -> Mapping[str, Any]:
            if how.is_whole:
                return {"when": spec_flags.spec(now=now_s), "do": call, **definition.options()}
            patch = _patch(definition, how.unset, call, _changed_spec(before.spec, spec_flags, how, now_s))
            return {**patch, **patch_of(change_of_call, before)} if how.renames else patch

        change = Update(make=make, is_whole=how.is_whole, if_version=chosen.if_version, dry_run=how.dry_run)
        before, after = session.updated(sid, change)
    if spec_flags.names_times and not how.is_whole:
        _say_what_stays(before, after)
    _report(before, after, out, dry_run=how.dry_run)
    say_if_unseen(None if call is None else call.function, after.target.args)
    definition.say_if_lifted()


def _call(session: Session, sid: str, definition: DefinitionFlags, how: UpdateFlags) -> "FunctionCall | None":
    """The new function with its arguments; None if neither changes. Raises UsageError if an option is missing."""
    from evertick.app.functions.function import FunctionCall

    call = definition.call(session.functions)
    if call is not None:
        return call
    if how.is_whole:
        raise click.UsageError("--replace needs everything: also --function, the function to call")
    if definition.input_text is None and "input" not in how.unset:
        return None
    resolved = session.functions.resolve(session.function(sid))
    return FunctionCall(resolved, resolved.encode_args((), definition.arguments()))


def _changed_spec(old: "Spec", spec_flags: SpecFlags, how: UpdateFlags, now_s: int) -> "Spec | None":
    """The old spec with the options applied; None if no option changes it."""
    from evertick.recurrence.wire.reading import spec_from_wire
    from evertick.recurrence.wire.writing import spec_to_wire

    lifted = [UNSET_IN_SPEC[name] for name in how.unset if name in UNSET_IN_SPEC]
    if not spec_flags.given and not lifted:
        return None
    wire = {key: value for key, value in spec_to_wire(old).items() if key not in lifted}
    if spec_flags.time_zone is not None or "time_zone" in lifted:
        wire.pop("time_zone_data", None)
    return spec_flags.spec(wire, now_s) if spec_flags.given else spec_from_wire(wire)


def _patch(
    definition: DefinitionFlags, unset: tuple[str, ...], call: "FunctionCall | None", spec: "Spec | None"
) -> dict[str, Any]:  # fmt: skip
    """The given values as a patch."""
    lifted = {UNSET_ELSEWHERE[name]: None for name in unset if name in UNSET_ELSEWHERE}
    return {**definition.options(), **some({"when": spec, "do": call}), **lifted}


def _say_what_stays(before: "ScheduleDescription", after: "ScheduleDescription") -> None:
    """If the times were replaced, print which zone, exclusions and bounds of the old spec still apply."""
    from evertick.cli.schedule.differences import text_of
    from evertick.recurrence.wire.writing import spec_to_wire

    old, new = spec_to_wire(before.spec), spec_to_wire(after.spec)
    kept = [(flag, text_of(new[key])) for flag, key in UNSET_IN_SPEC.items() if key in new and old.get(key) == new[key]]
    if kept:
        words = ", ".join(f"{flag} {printable(value)}" for flag, value in kept)
        click.echo(f"note: what the schedule had besides its times stays: {words}; --unset lifts it", err=True)


def _report(before: "ScheduleDescription", after: "ScheduleDescription", out: OutputOptions, *, dry_run: bool) -> None:
    from evertick.cli.schedule.differences import difference, next_times, text_of
    from evertick.cli.schedule.words import say_state

    changes = difference(before, after)
    if out.is_data:
        from evertick.api.commands import UpdatedSchedule

        out.write_json(UpdatedSchedule.after(after, changes, dry_run=dry_run).to_json())
        return
    did = "would change" if dry_run else "changed" if changes else "changed nothing"
    versions = f"{did} {after.id}, version {before.version} -> {after.version}"
    click.echo(printable(versions if changes else f"{after.id}: {did}"), err=True)
    say_state(after)
    for remark in after.warnings:
        if remark not in before.warnings:
            click.echo(f"note: {remark.message}", err=True)
    if out.is_none:
        return
    for name, (old, new) in changes.items():
        click.echo(f"{name}\t{printable(text_of(old))} -> {printable(text_of(new))}")
    if "spec" in changes or "times" in changes:
        for old_time, new_time in next_times(before, after):
            click.echo(f"next\t{old_time}" + ("   same" if old_time == new_time else f" -> {new_time}"))


# -- `evertick schedule update --query`: many schedules get other names of arguments, another function, or both.
#
# Each schedule is changed by itself: those that do not fit are reported, and the others are changed.

LEFT_OUT: Final = "left out {}: declared in code, without such an argument, or as they should be"


class _LeftOutError(Exception):
    """Rolls back the transaction of a schedule that is not selected or needs no change."""


def patch_of(change: "CallChange", before: "ScheduleDescription") -> dict[str, Any]:
    """The patch of a schedule. Raises InvalidArguments with the schedule's id, FunctionNotFound."""
    return {"do": change.changed(before.target.function, before.target.args, f"schedule {before.id!r}")}


def update_many(session: Session, change: "CallChange", where: "Where", out: OutputOptions, *, dry_run: bool) -> int:
    """Change the selected schedules and print them; return the exit code."""
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
