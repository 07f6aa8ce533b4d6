"""Plans: what has to happen for a database or a server to be as a file says.

Each step is tried out first, in a transaction that is rolled back, so what cannot be done is known before anything is
changed. A step carries the version of the schedule that it was planned for, so an edit meanwhile is a conflict.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from evertick.api.schedules import ScheduleDescription
from evertick.app.functions.function import FunctionCall
from evertick.app.schedules.bodies import Options, WrittenSchedule, when_of
from evertick.app.schedules.options import CreateOptions
from evertick.base.errors import (
    AlreadyExists,
    EvertickError,
    InvalidArguments,
    Misuse,
    ScheduleNotFound,
    VersionConflict,
)
from evertick.base.instants import from_datetime, to_datetime, to_iso
from evertick.cli.schedule.changes import Update
from evertick.cli.schedule.differences import difference
from evertick.cli.schedule.files.reading import UNREAD_TIMES, Entry, Problem
from evertick.cli.schedule.files.scope import Scope
from evertick.cli.schedule.files.steps import Action, Step
from evertick.cli.schedule.flags import check_spelling
from evertick.cli.schedule.session import Session
from evertick.rules.schedules.metadata import CODE
from evertick.store.records.schedule import UNREADABLE

DEFINING: Final = (
    "overlap", "concurrency_limit", "catch_up", "catch_up_window", "pause_on_failure", "buffer_limit", "run_timeout",
    "retry", "workflow_id", "run_id_template", "memo",
)  # fmt: skip
"""The options that go back to their defaults where an entry does not name them."""
TRIES: Final = 5
"""How often a step is planned if other programs change the schedule meanwhile."""


def planned(session: Session, entry: Entry, *, resets: bool, force: bool) -> Step | list[Problem]:
    """The step for an entry, or all of its problems.

    With `resets`, an existing schedule also gets the `remaining_actions` of the file. A function that is probably
    misspelt is a problem, unless `force` is set or the schedule calls it already.

    Raises VersionConflict if others keep changing the schedule.
    """
    schedule_id = entry.schedule.id
    for _ in range(TRIES):
        wrong: list[EvertickError] = []
        try:
            before = _found(session, schedule_id)
            if before is not None and before.source == CODE:
                raise Misuse("a cron of this id is declared in code; change it there")
            if not force and (before is None or before.target.function != entry.schedule.function):
                wrong += _misspelt(session, entry.schedule)
            try:
                step = _step(session, entry.schedule, before, resets=resets)
            except (VersionConflict, ScheduleNotFound, AlreadyExists):
                raise
            except EvertickError as error:
                wrong += [error, *_wrong_parts(session, entry.schedule, before)]
            if not wrong:
                return step
        except (VersionConflict, ScheduleNotFound, AlreadyExists):
            continue  # changed, deleted or created since it was read; nothing is written yet
        except EvertickError as error:
            wrong = [error]
        return [Problem(entry.where, f"{schedule_id}: {words}") for words in dict.fromkeys(map(str, wrong))]
    raise VersionConflict(f"{entry.where}: {schedule_id}: others change it at the same time; apply the file again")


def deletions(session: Session, scope: Scope, kept: Sequence[str]) -> list[Step]:
    """A step to delete each schedule of a scope that is not in the files, except crons of code and ended schedules."""

    def step(schedule_id: str, version: int) -> Step:
        def delete() -> None:
            session.schedules.delete(schedule_id, if_version=version)

        return Step(schedule_id=schedule_id, action=Action.DELETE, do=delete, changes={})

    names = set(kept)
    return [
        step(each.id, each.version)
        for each in scope.found(session, kind="schedule")
        if each.id not in names and each.source != CODE and each.status not in ("completed", UNREADABLE)
    ]


def _misspelt(session: Session, written: WrittenSchedule) -> list[EvertickError]:
    try:
        check_spelling(session.functions.resolve(written.function))
    except EvertickError as error:
        return [error]
    return []


def _wrong_parts(
    session: Session, written: WrittenSchedule, before: ScheduleDescription | None
) -> Iterator[EvertickError]:
    """The errors of the times and of each option by itself. Checked together, only the first would be reported."""
    call = FunctionCall(session.functions.resolve(written.function), "{}")
    for name in ("when", *sorted(Options.model_fields.keys() & written.model_fields_set)):
        alone = WrittenSchedule.model_construct(_fields_set={name}, **{name: getattr(written, name)})
        try:
            part = {"when": when_of(written.when)} if name == "when" else alone.options(lifts=True)
            if before is None:
                part.setdefault("when", UNREAD_TIMES)
                session.created(CreateOptions(written.id, do=call, **part), dry_run=True)
            else:
                change = Update(make=partial(_only, part), is_whole=False, if_version=before.version, dry_run=True)
                session.updated(written.id, change)
        except InvalidArguments:
            continue  # the arguments are left out here
        except EvertickError as error:
            yield error


def _only(part: dict[str, Any], _: ScheduleDescription) -> dict[str, Any]:
    return part


def _step(session: Session, written: WrittenSchedule, before: ScheduleDescription | None, *, resets: bool) -> Step:
    return _creation(session, written) if before is None else _update(session, written, before, resets=resets)


def _found(session: Session, schedule_id: str) -> ScheduleDescription | None:
    try:
        return session.schedules.get(schedule_id)
    except ScheduleNotFound:
        return None


def _call(session: Session, written: WrittenSchedule) -> FunctionCall:
    function = session.functions.resolve(written.function)
    return FunctionCall(function, function.encode_args((), written.args))


def _pause(session: Session, written: WrittenSchedule) -> bool | datetime | None:
    """The requested pause (True, or its end), or False for none or a past end. None keeps the current state."""
    paused = written.paused
    return paused if not isinstance(paused, datetime) or from_datetime(paused) > session.now else False


def _creation(session: Session, written: WrittenSchedule) -> Step:
    options = written.options(lifts=False)

    def create(*, dry_run: bool) -> ScheduleDescription:
        call, paused = _call(session, written), _pause(session, written) or False
        new = CreateOptions(written.id, when=when_of(written.when), do=call, paused=paused, **options)
        return session.created(new, dry_run=dry_run)[1]

    def do() -> None:
        create(dry_run=False)

    after = create(dry_run=True)
    function = session.functions.resolve(written.function)
    return Step(schedule_id=written.id, action=Action.CREATE, do=do, after=after, changes={}, function=function)


def _update(session: Session, written: WrittenSchedule, before: ScheduleDescription, *, resets: bool) -> Step:
    patch = _patch(session, written, before, resets=resets)

    def update(*, dry_run: bool) -> ScheduleDescription:
        change = Update(make=lambda _: patch, is_whole=False, if_version=before.version, dry_run=dry_run)
        return session.updated(written.id, change)[1]

    after = update(dry_run=True)
    changes = difference(before, after)
    pausing = _pausing(session, written, before)
    is_redefined = bool(changes)
    if pausing is not None:
        changes["paused"] = [_shown(before), _said(pausing)]

    def do() -> None:
        version = update(dry_run=False).version if is_redefined else before.version
        if pausing is False:
            session.schedules.resume(written.id, written.note or "", if_version=version)
        elif pausing is not None:
            until = pausing if isinstance(pausing, datetime) else None
            note = before.note if written.note is None else written.note
            session.schedules.pause(written.id, note, until=until, if_version=version)

    if before.unreadable:
        is_redefined, changes["unreadable"] = True, [list(before.unreadable), []]
    action = Action.UPDATE if changes else Action.UNCHANGED
    function = session.functions.resolve(written.function) if "function" in changes else None
    return Step(
        schedule_id=written.id, action=action, do=do, before=before, after=after, changes=changes, function=function
    )


def _patch(
    session: Session, written: WrittenSchedule, before: ScheduleDescription, *, resets: bool
) -> dict[str, Any]:  # fmt: skip
    """The definition as a patch.

    It leaves out state that people and the engine change: the number of remaining runs, and the note of a pause that
    the file does not request.
    """
    patch = dict.fromkeys(DEFINING) | written.options(lifts=True)
    if not resets:
        patch.pop("remaining_actions", None)
    if before.pause is not None and written.paused is None:
        patch.pop("note", None)
    patch["when"] = when_of(written.when, before.spec)
    if before.unreadable or (written.function, written.args) != (before.target.function, before.target.args):
        patch["do"] = _call(session, written)
    return patch


def _pausing(session: Session, written: WrittenSchedule, before: ScheduleDescription) -> bool | datetime | None:
    """The pause to set (True, or its end), or False to resume the schedule; None if nothing has to change."""
    wanted = _pause(session, written)
    if wanted is None or (wanted is False and before.pause is None):
        return None
    if before.pause is None or wanted is False:
        return wanted
    until = None if wanted is True else to_datetime(from_datetime(wanted))
    is_noted = written.note is None or written.note == before.pause.note
    return None if before.pause.until == until and is_noted else wanted


def _shown(schedule: ScheduleDescription) -> bool | str:
    pause = schedule.pause
    return False if pause is None else _said(pause.until or True)


def _said(paused: bool | datetime) -> bool | str:
    return to_iso(from_datetime(paused)) if isinstance(paused, datetime) else paused
