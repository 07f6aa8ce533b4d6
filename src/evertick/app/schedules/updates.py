"""Updating schedules: as a patch, where only what is given changes, or as a replacement.

Both keep what has happened: runs, waiting occurrences, counters, the pause, the last results. Neither is retroactive.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from evertick.api.schedules import ScheduleDescription
from evertick.app.functions.function import Function, FunctionCall
from evertick.app.functions.renaming import check_names, renamed_args
from evertick.app.schedules.definition import (
    Definition,
    changed,
    check_retry,
    check_searchable,
    check_spec,
    define,
    is_declared,
    refuse_code,
    schedule_id_of,
    target_of,
    union,
)
from evertick.app.schedules.options import POLICIES, ReplaceOptions, UpdateOptions, note_of, value_of
from evertick.app.schedules.queries import Where
from evertick.app.schedules.views import description, sentence
from evertick.app.transacting import Page, Work
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.options import Unchanged, stated
from evertick.engine.schedules import commands as requests
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.wire.writing import canonical
from evertick.rules.schedules.events import LimitSet
from evertick.rules.schedules.policies import Policies
from evertick.rules.schedules.state import cut
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations


def update(operations: "ScheduleOperations", patch: UpdateOptions) -> Work[ScheduleDescription]:
    """Change the given options of a schedule; the others stay unchanged. The options are those of `create`.

        app.schedules.update("report", when=daily(hour=7), overlap="buffer_one", end=None)

    None removes a value, or restores the default. Open runs, waiting occurrences, counters, the pause and the last
    results stay; waiting occurrences start with the new function and arguments. Times before the update are never
    caught up. With `if_version`, only a schedule of that version is changed.

    Raises ScheduleNotFound, VersionConflict if the schedule has another version than `if_version`, Misuse for a cron
    that is declared in code, and the errors of `create`.
    """
    options, when, do = patch.options(), patch.when, patch.do

    def work(transaction: Transaction) -> ScheduleDescription:
        row = requests.locked(transaction, schedule_id_of(patch.schedule_id), operations.tenant, patch.if_version)
        refuse_code(row)
        if isinstance(when, Unchanged) and isinstance(do, Unchanged) and not options:
            return description(transaction, row, operations.now())
        row = _completed(row, patch)
        old = definition_of(row)
        if not isinstance(when, Unchanged):
            old = replace(old, spec=union(when))
        if not isinstance(do, Unchanged):
            called = target_of(operations.functions, do)
            # A command without the code does not know the app of a function: that of the same function stays.
            app = old.target.app if called.app is None and called.name == old.target.name else called.app
            old = replace(
                old, target=replace(old.target, name=called.name, kind=called.kind, args=called.args, app=app)
            )
            if "retry" not in options:
                check_retry(old.target)
        return _write(operations, transaction, row, changed(old, row.id, options), options)

    return work


def replace_schedule(operations: "ScheduleOperations", new: ReplaceOptions) -> Work[ScheduleDescription]:
    """Replace the whole definition of a schedule. The options are those of `create`; absent ones get their defaults.

        app.schedules.replace("report", when=daily(hour=7), do=make_report.with_args("daily"))

    Runs, counters, the pause and the last results stay. Raises as `update` does.
    """
    name, chosen = schedule_id_of(new.schedule_id), new.options()
    definition = define(operations.functions, name, new.when, new.do, chosen)
    chosen = {"note": "", "remaining_actions": None, **chosen}
    check_searchable(definition.spec, operations.now())

    def work(transaction: Transaction) -> ScheduleDescription:
        row = requests.locked(transaction, name, operations.tenant, new.if_version)
        refuse_code(row)
        return _write(operations, transaction, row.with_defaults(), definition, chosen)

    return work


def _completed(row: Schedule, patch: UpdateOptions) -> Schedule:
    """The schedule with defaults in place of the parts that cannot be read; the patch replaces all of these.

    Raises SchemaMismatch if it does not.
    """
    needed = {"spec": {"when"}, "target": {"do"}, "state": {*POLICIES, "run_id_template"}, "memo": {"memo"}}
    if any(not needed[column] <= stated(patch).keys() for column in row.unreadable):
        requests.refuse_unreadable(row, "changed in part")
    return row.with_defaults()


def definition_of(row: Schedule) -> Definition:
    """The definition of a schedule."""
    return Definition(
        spec=row.spec.value,
        target=row.target,
        policies=row.state.policies,
        run_id_template=row.state.run_id_template,
        memo=row.metadata.user,
    )


def _write(
    operations: "ScheduleOperations",
    transaction: Transaction,
    row: Schedule,
    definition: Definition,
    options: dict[str, Any],
) -> ScheduleDescription:
    now = operations.now()
    spec = StoredSpec.of(definition.spec, compile_spec(definition.spec))
    spec_changed = spec != row.spec
    if spec_changed:
        check_spec(definition.spec, now, operations.settings, may_have_ended=True)
    operations.check_target(transaction, row.id, definition, now)

    def edit(row: Schedule) -> Schedule:
        """The schedule with its new definition, which is not what it was created with."""
        spec_at = now if spec_changed else row.metadata.spec_at
        metadata = replace(row.metadata, user=definition.memo, definition=None, spec_at=spec_at)
        row = row._replace(spec=spec).with_target(definition.target).with_metadata(metadata)
        return row.with_state(row.state._replace(note=note_of(options))) if "note" in options else row

    events = []
    if "remaining_actions" in options:
        events.append(LimitSet(at=now, remaining=value_of(options, "remaining_actions")))
    change = requests.Update(
        edit=edit,
        policies=definition.policies,
        run_id_template=definition.run_id_template,
        events=events,
        detail=difference(row, definition, options),
    )
    item = requests.update(transaction, row.id, change, operations.by(now))
    return description(transaction, item.row, operations.now())


def difference(row: Schedule, definition: Definition, options: dict[str, Any]) -> str:
    """The changes as text for the history: `times: every hour -> every day at 09:00; overlap: skip -> allow_all`."""
    old, state = definition_of(row), row.state
    target, new_target = old.target, definition.target
    pairs: list[tuple[str, Any, Any]] = []
    if canonical(definition.spec) != row.spec.text:
        pairs.append(("times", sentence(old.spec), sentence(definition.spec)))
    pairs.append(("function", target.name, new_target.name))
    retries = [each.retry and each.retry.to_json() for each in (target, new_target)]
    pairs.append(("retry", retries[0], retries[1]))
    pairs.append(("pool", target.pool, new_target.pool))
    pairs.append(("args", json.loads(target.args), json.loads(new_target.args)))
    pairs += [(name, getattr(old.policies, name), getattr(definition.policies, name)) for name in Policies.__slots__]
    pairs.append(("run names", old.run_id_template, definition.run_id_template))
    pairs.append(("memo", old.memo, definition.memo))
    if "note" in options:
        pairs.append(("note", state.note, note_of(options)))
    if "remaining_actions" in options:
        pairs.append(("remaining actions", state.remaining, value_of(options, "remaining_actions")))
    # A spec can change without its sentence, for example in a comment.
    changed = [(name, _word(was), _word(now)) for name, was, now in pairs if was != now or name == "times"]
    return cut("; ".join(f"{name}: {was} -> {now}" for name, was, now in changed))


def _word(value: Any) -> Any:
    """What stands for a value in the history: an empty text would leave a gap."""
    return "none" if value in (None, "") else value


# -- Updating many schedules to changed code: other names of arguments, another name of the function.

Resolve = Callable[[Function[..., Any] | str], Function[..., Any]]
"""Finds a function, given itself or its name."""


@dataclass(frozen=True, slots=True)
class CallChange:
    """A change of calls: `function` replaces the called function unless it is None, and `names` maps old argument names
    to new ones.
    """

    resolve: Resolve
    function: Function[..., Any] | None
    names: Mapping[str, str]

    @classmethod
    def of(
        cls, resolve: Resolve, do: Function[..., Any] | str | None, rename: Mapping[str, str] | None
    ) -> "CallChange":
        """The change with these options. Raises Misuse, FunctionNotFound."""
        if do is None and rename is None:
            raise Misuse("nothing to change; give rename=, do= or both")
        if rename is not None:
            check_names(rename)
        return cls(resolve, None if do is None else resolve(do), rename or {})

    def concerns(self, args: Mapping[str, Any]) -> bool:
        """Whether a call has all arguments that are renamed."""
        return args.keys() >= self.names.keys()

    def changed(self, function: str, args: Mapping[str, Any], whose: str) -> FunctionCall:
        """The call after the change. Raises InvalidArguments, whose message begins with `whose`; FunctionNotFound."""
        given = renamed_args(args, self.names, whose)
        called = self.function or self.resolve(function)
        try:
            return FunctionCall(called, called.encode_args((), given))
        except InvalidArguments as error:
            raise InvalidArguments(f"{whose}: {error}") from None


def update_page(
    operations: "ScheduleOperations",
    after: str,
    *,
    do: Function[..., Any] | str | None = None,
    rename: Mapping[str, str] | None = None,
    **where: Unpack[Where],
) -> Work[tuple[int, str | None]]:
    """Rename arguments, replace the function, or both, in all schedules that match the filters of `list`; returns how
    many were changed.

        app.schedules.update_all(rename={"customer": "client"}, do=send_bill, function="app.bill")

    Use it after a function was changed or renamed in code. `rename` maps old argument names to new ones. Schedules
    without these arguments are skipped, and so are crons that are declared in code. `do` is the new function, or its
    name; each schedule keeps its arguments. Without `do`, a schedule that calls its function by an alias gets the
    current name.

    Each page is a transaction. After an error the pages before it stay changed, and the same call continues from there.

    Raises InvalidArguments, which names the schedule whose arguments would not fit, FunctionNotFound, Misuse, and
    VersionConflict if another program changes one of them at the same time.
    """
    return changed_page(operations, after, CallChange.of(operations.functions.resolve, do, rename), where)


def changed_page(operations: "ScheduleOperations", after: str, change: CallChange, where: Where) -> Work[Page]:
    """Apply a change to the schedules of one page; see `update_page`."""
    calls: dict[str, tuple[FunctionCall, int]] = {}

    def is_left_out(row: Schedule) -> bool:
        if row.unreadable or is_declared(row) or not change.concerns(args := json.loads(row.target.args)):
            return True
        call = change.changed(row.target.name, args, f"schedule {row.id!r}")
        calls[row.id] = call, row.version
        return call.function.name == row.target.name and json.loads(call.args) == args

    def work_of(schedule_id: str) -> Work[Any]:
        call, version = calls[schedule_id]
        return update(operations, UpdateOptions(schedule_id, do=call, if_version=version))

    return operations.page_of_changes(after, where, work_of, unless=is_left_out)
