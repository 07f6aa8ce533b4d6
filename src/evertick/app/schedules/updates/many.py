"""Updating many schedules to changed code: other names of arguments, another name of the function."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from evertick.app.functions.function import Function, FunctionCall
from evertick.app.functions.renaming import check_names, renamed_args
from evertick.app.schedules.definition import is_declared
from evertick.app.schedules.queries import Where
from evertick.app.schedules.updates.one import update
from evertick.app.transacting import Page, Work
from evertick.base.errors import InvalidArguments, Misuse
from evertick.store.records.schedule import Schedule

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

Resolve = Callable[[Function[..., Any] | str], Function[..., Any]]
"""Finds a function, given itself or its name."""


@dataclass(frozen=True, slots=True)
class CallChange:
    """How calls of functions change: each gets the function, if there is one, and other names of arguments."""

    resolve: Resolve
    function: Function[..., Any] | None
    names: Mapping[str, str]

    @classmethod
    def of(
        cls, resolve: Resolve, do: Function[..., Any] | str | None, rename: Mapping[str, str] | None
    ) -> "CallChange":
        """The change that is asked for. Raises Misuse, FunctionNotFound."""
        if do is None and rename is None:
            raise Misuse("nothing to change; give rename=, do= or both")
        if rename is not None:
            check_names(rename)
        return cls(resolve, None if do is None else resolve(do), rename or {})

    def concerns(self, args: Mapping[str, Any]) -> bool:
        """Whether a call has all arguments that get another name."""
        return args.keys() >= self.names.keys()

    def changed(self, function: str, args: Mapping[str, Any], whose: str) -> FunctionCall:
        """The new call. Raises InvalidArguments, which names `whose` call it is; FunctionNotFound."""
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
    """Give the schedules that `where` chooses other names of arguments, another function, or both.

        app.schedules.update_all(rename={"customer": "client"}, do=send_bill, function="app.bill")

    For functions that were changed or renamed in code; returns how many were changed. `rename`: old names of arguments
    with new ones; schedules without such arguments are left out, and so are crons that are declared in code. `do`: the
    function, or its name; each schedule keeps its arguments. Without `do` a schedule that calls its function by an
    alias gets the function's present name. Each page is a transaction: at an error the pages before it stay, and the
    same call goes on where it stopped.

    Raises InvalidArguments, which names the schedule whose arguments would not fit, FunctionNotFound, Misuse, and
    VersionConflict if another program changes one of them at the same time.
    """
    return changed_page(operations, after, CallChange.of(operations.functions.resolve, do, rename), where)


def changed_page(operations: "ScheduleOperations", after: str, change: CallChange, where: Where) -> Work[Page]:
    """As `update_page`."""
    calls: dict[str, tuple[FunctionCall, int]] = {}

    def is_left_out(row: Schedule) -> bool:
        if row.unreadable or is_declared(row) or not change.concerns(args := json.loads(row.target.args)):
            return True
        call = change.changed(row.target.name, args, f"schedule {row.id!r}")
        calls[row.id] = call, row.version
        return call.function.name == row.target.name and json.loads(call.args) == args

    def work_of(schedule_id: str) -> Work[Any]:
        call, version = calls[schedule_id]
        return update(operations, schedule_id, do=call, if_version=version)

    return operations.page_of_changes(after, where, work_of, unless=is_left_out)
