"""`evertick schedule update`: change what is given and keep the rest; `--replace` gives a whole new definition."""

from collections.abc import Mapping
from typing import Any, Final, cast

import click

from evertick.app.functions import FunctionCall
from evertick.app.ranges import UNSET
from evertick.app.schedule_update import Patch, replace_schedule
from evertick.app.schedule_update import update as patched
from evertick.app.schedule_views import ScheduleDescription
from evertick.cli.databases import db_option
from evertick.cli.output import output_option
from evertick.cli.printable import json_text, printable
from evertick.cli.schedule_create import SHOWN, say_state
from evertick.cli.schedule_desk import Desk, app_option, open_desk, sid_option
from evertick.cli.schedule_flags import DefinitionFlags, definition_options, say_if_unseen
from evertick.cli.schedule_rows import description_row
from evertick.cli.schedule_times import time_cells
from evertick.cli.spec_flags import SpecFlags, spec_options
from evertick.rules.recurrence import Spec, compile_spec
from evertick.rules.recurrence.wire import spec_from_wire, spec_to_wire
from evertick.store.contract import Transaction

UNSET_IN_SPEC: Final = {
    "jitter": "jitter", "start-time": "start", "end-time": "end", "except": "except", "time-zone": "time_zone",
    "dialect": "dialect",
}  # fmt: skip
UNSET_ELSEWHERE: Final = {
    "catchup-window": "catch_up_window", "remaining-actions": "remaining_actions", "workflow-id": "workflow_id",
    "wid": "workflow_id", "task-queue": "pool", "tq": "pool", "retry": "retry",
}  # fmt: skip
UNSET_TO_EMPTY: Final[Mapping[str, Any]] = {"notes": "", "memo": {}}
UNSETTABLE: Final = ("input", *UNSET_IN_SPEC, *UNSET_ELSEWHERE, *UNSET_TO_EMPTY)


@click.command()
@sid_option
@spec_options
@definition_options
@click.option(
    "--unset",
    "unset",
    multiple=True,
    type=click.Choice(UNSETTABLE),
    metavar="NAME",
    help="Lift what was set, such as jitter or end-time. Repeatable.",
)
@click.option("--replace", "is_whole", is_flag=True, help="A whole new definition: what is not given is lifted.")
@click.option("--if-version", type=int, metavar="N", help="Only if nobody changed it since version N.")
@click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
@app_option
@db_option
@output_option
def update(
    sid: str, spec_flags: SpecFlags, flags: DefinitionFlags, unset: tuple[str, ...], is_whole: bool,
    if_version: int | None, dry_run: bool, app_file: str | None, db: str | None, output: str | None,
) -> None:  # fmt: skip
    """Change a schedule: what is given changes, the rest stays. Runs, counters and a pause stay in any case.

    New times replace all times it had. Nothing is made up for times that have passed.
    """
    if not (spec_flags.given or unset or flags != DefinitionFlags()):
        raise click.UsageError("nothing to change; give what shall change, such as --cron or --overlap-policy")
    if is_whole and unset:
        raise click.UsageError("--replace lifts whatever is not given, so there is nothing to --unset")
    with open_desk(db, app_file) as desk:
        now_s = desk.now // 1000
        call = _call(desk, sid, flags, unset, whole=is_whole)

        def work(transaction: Transaction) -> tuple[ScheduleDescription, ScheduleDescription]:
            before = desk.operations.get(sid)(transaction)
            if is_whole:
                assert call is not None  # noqa: S101
                after = replace_schedule(
                    desk.operations, sid, when=spec_flags.spec(now=now_s), do=call, note=flags.notes or "",
                    remaining_actions=flags.remaining_actions, if_version=if_version, **flags.defining(),
                )  # fmt: skip
            else:
                patch = _patch(before.spec, spec_flags, flags, unset, call, now_s)
                after = patched(desk.operations, sid, if_version=if_version, **patch)
            return before, after(transaction)

        before, after = desk.rehearse(work) if dry_run else desk.do(work)
    _report(before, after, output, dry_run=dry_run)
    say_if_unseen(call)


def _call(desk: Desk, sid: str, flags: DefinitionFlags, unset: tuple[str, ...], *, whole: bool) -> FunctionCall | None:
    """The new function with its arguments, if either changes. Raises UsageError where something is missing."""
    call = flags.call(desk.operations.functions)
    if call is not None:
        return call
    if whole:
        raise click.UsageError("--replace needs everything: also --type, the function to call")
    if flags.input_text is None and "input" not in unset:
        return None
    resolved = desk.operations.functions.resolve(desk.row(sid).function)
    return FunctionCall(resolved, resolved.encode_args((), flags.arguments()))


def _patch(
    old: Spec, spec_flags: SpecFlags, flags: DefinitionFlags, unset: tuple[str, ...], call: FunctionCall | None,
    now_s: int,
) -> Patch:  # fmt: skip
    """What is given, as a patch. The new spec is the old one with what the flags say."""
    patch: dict[str, Any] = dict(flags.defining())
    lifted = [UNSET_IN_SPEC[name] for name in unset if name in UNSET_IN_SPEC]
    if spec_flags.given or lifted:
        wire = {key: value for key, value in spec_to_wire(old).items() if key not in lifted}
        if spec_flags.time_zone is not None or "time_zone" in lifted:
            wire.pop("time_zone_data", None)
        patch["when"] = spec_flags.spec(wire, now_s) if spec_flags.given else spec_from_wire(wire)
    if call is not None:
        patch["do"] = call
    if flags.notes is not None:
        patch["note"] = flags.notes
    if flags.remaining_actions is not None:
        patch["remaining_actions"] = flags.remaining_actions
    patch |= {UNSET_ELSEWHERE[name]: UNSET for name in unset if name in UNSET_ELSEWHERE}
    patch |= {("note" if name == "notes" else name): UNSET_TO_EMPTY[name] for name in unset if name in UNSET_TO_EMPTY}
    return cast("Patch", patch)


def _report(before: ScheduleDescription, after: ScheduleDescription, output: str | None, *, dry_run: bool) -> None:
    changes = difference(before, after)
    extra = {"dry_run": True} if dry_run else {}
    if output in ("json", "jsonl"):
        row = description_row(after) | {"changes": changes} | extra
        click.echo(json_text(row, indent=2 if output == "json" else None))
        return
    did = "would change" if dry_run else "changed" if changes else "changed nothing"
    click.echo(printable(f"{did} {after.id}, version {before.version} -> {after.version}" if changes else
                         f"{after.id}: {did}"), err=True)  # fmt: skip
    say_state(after)
    if output == "none":
        return
    for name, (old, new) in changes.items():
        click.echo(f"{name}\t{printable(_text(old))} -> {printable(_text(new))}")
    if "spec" in changes or "times" in changes:
        for old_time, new_time in _next_times(before, after):
            click.echo(f"next\t{old_time}" + ("   same" if old_time == new_time else f" -> {new_time}"))


def difference(before: ScheduleDescription, after: ScheduleDescription) -> dict[str, list[Any]]:
    """What changed of what a schedule is to do, by name: [before, after]."""
    changes: dict[str, list[Any]] = {}
    old, new = _definition(before), _definition(after)
    for name in new:
        if old[name] != new[name]:
            changes[name] = [old[name], new[name]]
    return changes


def _definition(schedule: ScheduleDescription) -> dict[str, Any]:
    row = description_row(schedule)
    # The sentence stands for the sources of the spec; what else the spec says follows by its own names.
    spec = {name: row["spec"].get(name) for name in ("start", "end", "jitter", "except", "time_zone", "dst", "dialect")}
    sources = {name: value for name, value in row["spec"].items() if name not in spec}
    return {
        "times": row["sentence"],
        "spec": sources,
        **spec,
        **row["target"],
        **row["policies"],
        "run_id_template": row["run_id_template"],
        "remaining_actions": row["remaining_actions"],
        "note": row["note"],
        "memo": row["memo"],
    }


def _next_times(before: ScheduleDescription, after: ScheduleDescription) -> list[tuple[str, str]]:
    old, new = (
        [time_cells(compile_spec(each.spec), time)["time"] for time in each.upcoming[:SHOWN]]
        for each in (before, after)
    )
    count = max(len(old), len(new))
    return [
        (old[position] if position < len(old) else "-", new[position] if position < len(new) else "-")
        for position in range(count)
    ]


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json_text(value)
