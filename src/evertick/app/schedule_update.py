"""Updating schedules: as a patch, where only what is given changes, or as a replacement.

Both keep what has happened: runs, waiting occurrences, counters, the pause, the last results. Neither is retroactive.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, Unpack

from evertick.app.options import Retry
from evertick.app.ranges import Unset
from evertick.app.schedule_definition import (
    Defining,
    Definition,
    Do,
    define,
    schedule_id_of,
    target_of,
    template_of,
    window_of,
)
from evertick.app.schedule_memo import Memo, check_user_memo
from evertick.app.schedule_operations import ScheduleOperations, refuse_code
from evertick.app.schedule_reading import Work, policy
from evertick.app.schedule_specs import When, bounded, check_spec, union
from evertick.app.schedule_views import ScheduleDescription
from evertick.base.errors import Misuse
from evertick.base.schedule_records import ScheduleRow
from evertick.engine import schedule_requests as requests
from evertick.engine.schedule_target import Target
from evertick.engine.schedule_times import recurrence_of
from evertick.rules.events import LimitSet
from evertick.rules.lifecycle import cut
from evertick.rules.recurrence.describe import describe as say
from evertick.rules.recurrence.vocabulary import Excepted
from evertick.rules.recurrence.writing import canonical
from evertick.rules.schedule import CatchUp, Overlap, Policies
from evertick.rules.state_text import from_text, to_text
from evertick.store.contract import Transaction

DEFAULT_TEMPLATE: Final = "{}-{{nominal}}"


class Patch(TypedDict, total=False):
    """What an update may change. None keeps; UNSET lifts, or goes back to the default."""

    when: When | None
    start: datetime | Unset | None
    end: datetime | Unset | None
    jitter: timedelta | int | Unset | None
    except_: Excepted | Iterable[Excepted] | Unset | None
    do: Do | None
    retry: Retry | Unset | None
    workflow_id: str | Unset | None
    run_id_template: str | None
    pool: str | Unset | None
    overlap: Overlap | str | None
    concurrency_limit: int | None
    catch_up: CatchUp | str | None
    catch_up_window: float | timedelta | Unset | None
    pause_on_failure: bool | None
    buffer_limit: int | None
    remaining_actions: int | Unset | None
    note: str | None
    memo: dict[str, Any] | None


def update(
    operations: ScheduleOperations, schedule_id: str, *, if_version: int | None = None, **patch: Unpack[Patch]
) -> Work[ScheduleDescription]:
    """Change a schedule: only what is given changes, in the words of `create`. `UNSET` lifts what was set.

    Open runs, waiting occurrences, counters, the pause and the last results stay; waiting occurrences start with the
    new function and arguments. Times before the update are never made up.
    Raises ScheduleNotFound, VersionConflict if the schedule is not of `if_version` any more, Misuse for a cron that
    is declared in code, and what `create` raises.
    """
    unknown = patch.keys() - Patch.__annotations__.keys()
    if unknown:
        raise Misuse(f"update() knows no {', '.join(sorted(unknown))}")
    given = {name: value for name, value in patch.items() if value is not None}

    def work(transaction: Transaction) -> ScheduleDescription:
        row = requests.locked(transaction, schedule_id_of(schedule_id), operations.tenant, if_version)
        refuse_code(row)
        if not given:
            return operations.described(transaction, row)
        return _write(operations, transaction, row, _patched(operations, row, given), given)

    return work


def replace_schedule(
    operations: ScheduleOperations,
    schedule_id: str,
    *,
    when: When,
    do: Do,
    note: str = "",
    remaining_actions: int | None = None,
    if_version: int | None = None,
    **defining: Unpack[Defining],
) -> Work[ScheduleDescription]:
    """Give a schedule a whole new definition, in the words of `create`: what is not given goes back to its default.

    What has happened stays, the pause too. Raises as `update` does.
    """
    name = schedule_id_of(schedule_id)
    definition = define(operations.functions, name, when, do, **defining)
    limit = Unset() if remaining_actions is None else remaining_actions
    given = {"when": when, "note": note, "memo": definition.memo, "remaining_actions": limit}

    def work(transaction: Transaction) -> ScheduleDescription:
        row = requests.locked(transaction, name, operations.tenant, if_version)
        refuse_code(row)
        return _write(operations, transaction, row, definition, given)

    return work


def _patched(operations: ScheduleOperations, row: ScheduleRow, given: dict[str, Any]) -> Definition:
    """The definition of a schedule with some of it changed."""
    state = from_text(row.state)
    target = _patched_target(operations, Target.from_text(row.target), given)
    spec = recurrence_of(row.spec).spec if "when" not in given else union(given["when"])
    bounds = {name: given[name] for name in ("start", "end", "jitter", "except_") if name in given}
    return Definition(
        spec=bounded(spec, **bounds),
        target=target,
        policies=_patched_policies(state.policies, given),
        run_id_template=_patched_template(row, state.run_id_template, target, given),
        memo=check_user_memo(given["memo"]) if "memo" in given else Memo.from_text(row.memo).user,
    )


def _patched_target(operations: ScheduleOperations, target: Target, given: dict[str, Any]) -> Target:
    if "do" in given:
        called = target_of(operations.functions, given["do"])
        target = replace(target, name=called.name, kind=called.kind, args=called.args)
    for name in ("workflow_id", "pool"):
        if name in given:
            target = replace(target, **{name: _lifted(given[name])})
    if "retry" in given:
        retry: Retry | None = _lifted(given["retry"])
        target = replace(target, retry=None if retry is None else retry.to_json())
    return target


def _patched_policies(policies: Policies, given: dict[str, Any]) -> Policies:
    changes: dict[str, Any] = {
        name: given[name] for name in ("concurrency_limit", "pause_on_failure", "buffer_limit") if name in given
    }
    if "overlap" in given:
        changes["overlap"] = policy(Overlap, given["overlap"])
    if "catch_up" in given:
        changes["catch_up"] = policy(CatchUp, given["catch_up"])
    if "catch_up_window" in given:
        changes["catch_up_window_ms"] = window_of(given["catch_up_window"])
    return replace(policies, **changes)


def _patched_template(row: ScheduleRow, template: str, target: Target, given: dict[str, Any]) -> str:
    stem = target.workflow_id or row.id
    if "run_id_template" in given:
        return template_of(given["run_id_template"], stem)
    old_stem = Target.from_text(row.target).workflow_id or row.id
    return DEFAULT_TEMPLATE.format(stem) if template == DEFAULT_TEMPLATE.format(old_stem) else template


def _write(
    operations: ScheduleOperations,
    transaction: Transaction,
    row: ScheduleRow,
    definition: Definition,
    given: dict[str, Any],
) -> ScheduleDescription:
    now = operations.now()
    spec = canonical(definition.spec)
    spec_changed = spec != row.spec
    if spec_changed:
        check_spec(definition.spec, now, operations.settings, may_have_ended=True)

    def change(row: ScheduleRow) -> ScheduleRow:
        """What the rules do not know: the memo, the note, and that the schedule is not what was created any more."""
        memo = Memo.from_text(row.memo)
        memo = replace(memo, user=definition.memo, definition=None, spec_at=now if spec_changed else memo.spec_at)
        state = from_text(row.state)
        if "note" in given:
            state = replace(state, note=cut(given["note"]))
        return replace(row, memo=memo.to_text(), state=to_text(state))

    limit = [LimitSet(at=now, remaining=_lifted(given["remaining_actions"]))] if "remaining_actions" in given else []
    item = requests.update(
        transaction,
        row.id,
        operations.by(now),
        spec=spec,
        target=definition.target.to_text(),
        function=definition.target.name,
        policies=definition.policies,
        run_id_template=definition.run_id_template,
        requests=limit,
        detail=difference(row, definition, given),
        change=change,
    )
    return operations.described(transaction, item.row)


def difference(row: ScheduleRow, definition: Definition, given: dict[str, Any]) -> str:
    """What changes, in words for the history: `times: every hour -> every day at 09:00; overlap: skip -> allow_all`."""
    state = from_text(row.state)
    old_target, target = Target.from_text(row.target), definition.target
    words: list[str] = []
    old_spec = recurrence_of(row.spec).spec
    if canonical(definition.spec) != row.spec:
        words.append(_change("times", say(old_spec), say(definition.spec)))
    pairs: list[tuple[str, Any, Any]] = [
        (name, getattr(old_target, name), getattr(target, name)) for name in ("name", "retry", "pool")
    ]
    pairs.append(("args", json.loads(old_target.args), json.loads(target.args)))
    pairs += [(name, getattr(state.policies, name), getattr(definition.policies, name)) for name in Policies.__slots__]
    pairs += [("run names", state.run_id_template, definition.run_id_template)]
    pairs += [("memo", Memo.from_text(row.memo).user, definition.memo)]
    if "note" in given:
        pairs.append(("note", state.note, given["note"]))
    if "remaining_actions" in given:
        pairs.append(("remaining actions", state.remaining, _lifted(given["remaining_actions"])))
    words += [_change("function" if name == "name" else name, old, new) for name, old, new in pairs if old != new]
    return cut("; ".join(words))


def _change(name: str, old: Any, new: Any) -> str:
    return f"{name}: {old} -> {new}"


def _lifted(value: Any) -> Any:
    return None if isinstance(value, Unset) else value
