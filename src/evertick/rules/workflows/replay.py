"""Replay: bring a run to the end of its journal before anything new happens.

Every call of the code is compared with its row in the journal: number, kind, name and the fingerprint of the arguments.
The first difference ends the replay with ReplayMismatch, which describes the row and both sides. Calls after the last
row are new, so code may be changed beyond the current position of a run.

A function that was renamed fits the rows with one of its aliases. The call then keeps the recorded name, so that all of
its rows have the same name.

Code may stop asking for a patch: then it has only the new path, which the runs with the patch in their journal took,
too. If it has kept the old path instead, it makes other calls.

A journal may be cut only before a row that is delivered: the rows between two of them are the result of one reaction of
the code, and `patched` relies on having all of them or none.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NoReturn

from evertick.base.error_text import message_of, place_of
from evertick.base.errors import ReplayMismatch
from evertick.base.records.workflows import DELIVERED, IN_TRANSACTION, Row, RowKind
from evertick.rules.workflows.calls import Call, describe
from evertick.rules.workflows.run import Run

ARGUMENTS_SHOWN_MAX: Final = 200
"""Characters of arguments in a message, at most."""
ERROR_SHOWN_MAX: Final = 1_000
"""Characters of the code's error in a message, at most."""


def _at_once(deliver: Callable[[], None]) -> None:
    deliver()


def replay(run: Run, rows: Sequence[Row], within_limit: Callable[[Callable[[], None]], None] = _at_once) -> None:
    """Deliver the rows of the journal to a new run; `within_limit` runs its code for each.

    Raises ReplayMismatch if the code does not make the calls that the journal has.
    """
    run.is_replayed = True
    for index, row in enumerate(rows):
        if row.position != run.position:
            _mismatch(run, row, f"row {run.position} is missing")
        if row.kind in DELIVERED:
            _compare_delivered(run, row)
            # Reactions to the last row that a restart has kept are new.
            run.is_replayed = row.due_at is None or index + 1 < len(rows)
            within_limit(partial(run.deliver, row, recorded_patches=_patches_after(rows, index)))
        elif row.kind is RowKind.PATCH and not _asks_for(run, row):
            run.skip_patch(row)
        else:
            _compare_request(run, row)
            run.confirm(row)
    run.is_replayed = False


def stretches(rows: Sequence[Row]) -> list[int]:
    """The positions at which a journal may be cut: those of the delivered rows, and its end."""
    return [row.position for row in rows if row.kind in DELIVERED] + [len(rows)]


def _patches_after(rows: Sequence[Row], index: int) -> frozenset[str] | None:
    """The patches between a row that is delivered and the next such row. None if it is the last row of all."""
    if index + 1 == len(rows):
        return None
    patches = set()
    for position in range(index + 1, len(rows)):
        row = rows[position]
        if row.kind in DELIVERED:
            break
        if row.kind is RowKind.PATCH:
            patches.add(row.name)
    return frozenset(patches)


def _asks_for(run: Run, row: Row) -> bool:
    """Whether the next request of the code is the patch of a row."""
    request = run.next_request
    return request is not None and (request.kind, request.name) == (RowKind.PATCH, row.name)


def _compare_request(run: Run, row: Row) -> None:
    """Check that a row (call, drop, patch) is the next request of the code. Raises ReplayMismatch."""
    request = run.next_request
    if request is None:
        _mismatch(run, row, _instead_of_a_call(run))
    call = request.call
    if call is not None and request.kind is RowKind.CALL:
        call.take_name_of(row.name)
    name = request.name if call is None else call.name
    if (row.kind, row.seq, row.name) != (request.kind, request.seq, name):
        _mismatch(run, row, f"calls {_numbered(request.seq, repr(request))} here", instead=call)
    if row.kind is RowKind.CALL and request.call is not None:
        _compare_call(run, row, request.call)


def _compare_delivered(run: Run, row: Row) -> None:
    """Check that the code waits for a row (start, step, end, cancel). Raises ReplayMismatch."""
    if row.kind is RowKind.START:
        if row.position:
            _mismatch(run, row, "has begun before")
        return
    if run.next_request is not None:
        _mismatch(run, row, f"calls {_numbered(run.next_request.seq, repr(run.next_request))} here")
    if run.position == 0 or run.has_ended:
        _mismatch(run, row, f"has ended{_with_error(run)}" if run.has_ended else "has not begun")
    if row.kind is RowKind.STEP:
        step = run.next_step
        if step is None:
            _mismatch(run, row, _instead_of_a_call(run))
        _compare_call(run, row, step)
    elif row.kind is RowKind.END:
        call = run.open_calls.get(row.seq)
        if call is None:
            _mismatch(run, row, f"does not wait for step {row.seq}")
        if call.name != row.name or call.kind in IN_TRANSACTION:
            _mismatch(run, row, f"waits for {call!r} under this number")


def _compare_call(run: Run, row: Row, call: Call) -> None:
    call.take_name_of(row.name)
    if (row.seq, row.call, row.name) != (call.seq, call.kind, call.name):
        _mismatch(run, row, f"calls {_numbered(call.seq, repr(call))} here", instead=call)
    if row.arguments != call.fingerprint and not run.may_call_otherwise:
        shown = call.arguments[:ARGUMENTS_SHOWN_MAX]
        keyed = "" if call.options.key is None else f", or another key: {call.options.key!r}"
        _mismatch(run, row, f"calls it with other arguments now: {shown}{keyed}")


def _instead_of_a_call(run: Run) -> str:
    if run.has_ended:
        return f"ends{_with_error(run) or ' without it'}"
    waits = ", ".join(_numbered(call.seq, repr(call)) for call in list(run.open_calls.values())[:3])
    return f"waits for {waits or 'nothing'} and does not call it"


def _with_error(run: Run) -> str:
    """The error that has ended the code, with its place, as a phrase; empty if there is none."""
    error = run.error
    if error is None:
        return ""
    place = place_of(error)
    return f" with {type(error).__name__}: {message_of(error)[:ERROR_SHOWN_MAX]}{f' ({place})' if place else ''}"


def _numbered(seq: int, what: str) -> str:
    return f"step {seq} ({what})" if seq else what


def _renamed(row: Row, call: Call | None) -> str:
    """The fix for a function that was renamed, as text. Empty if the code calls something else."""
    if call is None or not call.function or (row.seq, row.call) != (call.seq, call.kind):
        return ""
    return (
        f"; if {call.function} is that function under a new name, give it aliases=[{row.name!r}], "
        f"or this step its old name: step.using(name={row.name!r})"
    )


def _mismatch(run: Run, row: Row, code: str, *, instead: Call | None = None) -> NoReturn:
    journal = _numbered(row.seq, describe(row.kind, row.call, row.name))
    if run.skipped_patches:
        instead = None  # another fix is described
        code += f", and asks no longer for patched({run.skipped_patches[-1]!r}), whose new path the run has taken"
    message = (
        f"run {run.id}, row {row.position}: the journal has {journal}, the code {code}{_renamed(row, instead)}; "
        "deploy code that fits, keep the old path with step.patched(...), or restart the run before this step; "
        "if the code was not changed, it is not deterministic: take time, chance and ids from step.now(), "
        "step.random() and step.uuid()"
    )
    raise ReplayMismatch(message, row.position) from run.error
