"""Workflow runs, their journals and messages over SQL."""

import json
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.outcomes import Raised, Returned
from evertick.base.records.jobs import FunctionKind, JobEnd, JobError
from evertick.base.records.workflows import (
    CallKind,
    Message,
    MessageKind,
    NewMessage,
    RowKind,
    RunRecord,
    Sender,
    SentEvent,
    WorkflowStatus,
    WorkflowType,
    from_text,
    value_text,
)
from evertick.base.records.workflows import Row as JournalRow
from evertick.store.notifications import DUE, Notification
from evertick.store.records.workflows import Entry, Parked
from evertick.store.transaction.statement_runner import Driver, Row

RUN_COLUMNS: Final = ("run_id", "seed", "generation", "parent_seq", "progress", "attributes", "restarted_from")
SAVED_COLUMNS: Final = ("generation", "progress", "run_id")
SAVED_ATTRIBUTES: Final = ("attributes", "run_id")
ATTRIBUTE_COLUMNS: Final = ("tenant", "name", "value", "run_id")
JOURNAL_COLUMNS: Final = (
    "run_id", "generation", "position", "kind", "seq", "name", "at", "call", "arguments", "due_at", "attempt",
    "result", "error", "sender",
)  # fmt: skip
MESSAGE_COLUMNS: Final = ("run_id", "kind", "name", "seq", "result", "error", "key", "sender", "sent_at")

_ROW_KINDS: Final = {kind.value: kind for kind in RowKind}
_CALL_KINDS: Final[dict[str | None, CallKind | None]] = {None: None} | {kind.value: kind for kind in CallKind}


class Workflows(Driver):
    """Runs of workflows: their records, journals and messages."""

    hints: set[Notification]
    has_withdrawn: bool

    def insert_runs(self, runs: Sequence[RunRecord]) -> None:
        """Write the records of runs whose jobs are written in the same transaction."""
        if runs:
            self._run_many("insert_runs", RUN_COLUMNS, list(runs))

    def get_runs(self, ids: Collection[JobId]) -> Mapping[JobId, RunRecord]:
        """The records of runs; those that do not exist are omitted."""
        return {row[0]: RunRecord(*row) for row in self._fetch("get_runs", {"runs": json.dumps(sorted(ids))})}

    def save_runs(self, runs: Sequence[RunRecord]) -> None:
        """Write the generation and the progress of runs."""
        if runs:
            self._run_many("save_runs", SAVED_COLUMNS, [(run.generation, run.progress, run.id) for run in runs])

    def save_attributes(self, attributes: Mapping[JobId, tuple[TenantId, str]]) -> None:
        """Write the attributes of runs that have records, as JSON text, and the rows by which lists find the runs."""
        if not attributes:
            return
        self._run("delete_attributes", {"runs": json.dumps(sorted(attributes))})
        self._run_many("save_attributes", SAVED_ATTRIBUTES, [(text, run) for run, (_, text) in attributes.items()])
        rows = [
            (tenant, name, value_text(value), run_id)
            for run_id, (tenant, text) in attributes.items()
            for name, value in from_text(text).items()
        ]
        if rows:
            self._run_many("insert_attributes", ATTRIBUTE_COLUMNS, rows)

    def is_run(self, run_id: JobId, *, tenant: TenantId) -> bool:
        """Whether a job of a tenant is a workflow run that has begun and has not ended."""
        return bool(self._fetch("is_run", {"run_id": run_id, "tenant": tenant}))

    def runs_begun(self, ids: Sequence[JobId], *, tenant: TenantId) -> set[JobId]:
        """Which of many jobs are runs as in `is_run`."""
        rows = self._fetch("runs_begun", {"ids": json.dumps(list(ids)), "tenant": tenant}) if ids else []
        return {row[0] for row in rows}

    def pause_run(self, run_id: JobId, *, tenant: TenantId) -> bool:
        """Pause an unfinished run. Return whether it was not paused. A run that a worker has claimed is parked as
        paused.
        """
        return bool(self._fetch("pause_run", {"id": run_id, "tenant": tenant}))

    def resume_run(self, run_id: JobId, *, tenant: TenantId, now: Instant) -> bool:
        """Let a paused run continue when it is due. Return whether it was paused."""
        resumed = bool(self._fetch("resume_run", {"id": run_id, "tenant": tenant, "now": now}))
        if resumed:
            self.hints.add(DUE[FunctionKind.WORKFLOW])
        return resumed

    def release_key(self, job_id: JobId, *, tenant: TenantId) -> None:
        """Take its key from a run or an action that has not ended, so that its replacement can have the key."""
        self._fetch("release_key", {"id": job_id, "tenant": tenant})

    def shown_runs(self, ids: Collection[JobId]) -> tuple[Mapping[JobId, RunRecord], set[JobId]]:
        """The records of runs, as `get_runs`, and which of them are paused."""
        rows = self._fetch("shown_runs", {"runs": json.dumps(sorted(ids))}) if ids else []
        records = {row[0]: RunRecord(*row[2:]) for row in rows if row[2] is not None}
        return records, {row[0] for row in rows if row[1]}

    def park_runs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId, now: Instant) -> set[JobId]:
        """Make claimed runs pending again, due as the ends say. Return those that were still claimed. A run that was
        paused meanwhile stays paused.
        """
        if not ends:
            return set()
        if any(end.due_at <= now for end in ends):
            self.hints.add(DUE[FunctionKind.WORKFLOW])
        rows = json.dumps(
            [
                {
                    "id": end.id,
                    "attempt": end.attempt,
                    "due_at": end.due_at,
                    "stage": "waiting" if end.due_at > now else "ready",
                    "error": None if end.error is None else end.error.text,
                }
                for end in sorted(ends, key=attrgetter("id"))
            ]
        )
        return {row[0] for row in self._fetch("park_runs", {"rows": rows, "worker_id": worker_id})}

    def append_journal(self, entries: Sequence[Entry]) -> None:
        """Add rows to journals. Raises WriteConflict if a journal has a row of that position."""
        if entries:
            self._run_many("append_journal", JOURNAL_COLUMNS, [_journal_values(entry) for entry in entries])

    def copy_journal(self, run: tuple[JobId, int], to_run: JobId, *, rows: int) -> None:
        """Begin the journal of another run with the first `rows` rows of a run's journal (id and generation)."""
        run_id, generation = run
        self._run("copy_journal", {"run_id": run_id, "generation": generation, "to_run": to_run, "rows": rows})

    def drop_generations(self, runs: Collection[tuple[JobId, int]], *, limit: int) -> None:
        """Remove at most `limit` rows of the earlier generations of these runs."""
        if runs:
            given = json.dumps([{"run_id": run_id, "generation": generation} for run_id, generation in sorted(runs)])
            self._run("drop_generations", {"runs": given, "limit": limit})

    def load_journals(self, runs: Collection[tuple[JobId, int]]) -> Mapping[JobId, list[JournalRow]]:
        """The journals of runs (id and generation), in order; empty for a run that has none."""
        return self._journals("load_journals", runs)

    def journal_tails(self, runs: Collection[tuple[JobId, int]], *, rows: int) -> Mapping[JobId, list[JournalRow]]:
        """The newest `rows` of each journal, as `load_journals`, without what steps returned or raised."""
        return self._journals("journal_tails", runs, rows=rows)

    def send_messages(self, messages: Sequence[NewMessage], *, now: Instant) -> set[JobId]:
        """Send messages to runs, and make waiting ones due. Return the runs reached: they exist and have not ended.

        A message with a key that the run has received before changes nothing.
        """
        runs = json.dumps(sorted({message.run_id for message in messages}))
        # The jobs first: their locks order each run's messages by their ids, and delay workers that park it.
        reached = {row[0] for row in self._fetch("reach_runs", {"runs": runs, "now": now})}
        sent = [(*_message_values(message), now) for message in messages if message.run_id in reached]
        if sent:
            self._run_many("insert_messages", MESSAGE_COLUMNS, sent)
            self.hints.add(DUE[FunctionKind.WORKFLOW])
        return reached

    def waiting_messages(self, ids: Collection[JobId]) -> list[Message]:
        """Messages that were sent to runs and not taken yet, in order."""
        rows = self._fetch("waiting_messages", {"runs": json.dumps(sorted(ids))})
        rows.sort(key=itemgetter(0))
        return [Message(r[0], r[1], MessageKind(r[2]), r[3], r[4], _outcome(r[5], r[6]), r[7]) for r in rows]

    def waiting_size(self, run_id: JobId, *, limit: int) -> tuple[int, int]:
        """How many messages a run has not taken, and the characters of their values; reads `limit` of them."""
        [row] = self._fetch("waiting_size", {"run_id": run_id, "limit": limit})
        return int(row[0]), int(row[1])

    def waiting_events(self, run_id: JobId, *, limit: int) -> tuple[int, list[SentEvent]]:
        """How many events a run has not taken, and the first `limit` of them."""
        rows = self._fetch("waiting_events", {"run_id": run_id, "limit": limit})
        return (rows[0][6] if rows else 0), [_sent_event(row) for row in rows]

    def events_named(self, run_id: JobId, name: str, *, limit: int) -> list[SentEvent]:
        """The first `limit` events of a name that a run has not taken."""
        rows = self._fetch("events_named", {"run_id": run_id, "name": name, "limit": limit})
        return [_sent_event(row) for row in rows]

    def withdraw_event(self, run_id: JobId, event: SentEvent) -> str | None:
        """Remove an event that was sent to a run. Return its value; None if it does not wait any more."""
        named = {"id": event.id, "run_id": run_id, "sent_at": event.sent_at}
        rows = self._fetch("withdraw_event", named)
        self.has_withdrawn = self.has_withdrawn or bool(rows)
        return (rows[0][0] or "null") if rows else None

    def move_events(self, run_id: JobId, to_run: JobId) -> None:
        """Move the events that a run has not taken to another one, with their keys."""
        self._run("move_events", {"run_id": run_id, "to_run": to_run})

    def take_messages(self, ids: Sequence[int], *, now: Instant) -> None:
        """Mark messages as taken: they do not wait any more."""
        if ids:
            self._run("take_messages", {"messages": json.dumps(list(ids)), "now": now})

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove messages that were taken. Those with a key stay as long as the run, so that it is known."""
        if ids:
            self._run("drop_messages", {"messages": json.dumps(list(ids))})

    def wake_parked(self, parked: Sequence[Parked], *, now: Instant) -> None:
        """Make runs due that were sent messages after those that they have seen. Call it after they were parked."""
        rows = json.dumps([{"run_id": each.run_id, "seen": each.seen} for each in sorted(parked)])
        if parked and self._run("wake_parked", {"rows": rows, "now": now}):
            self.hints.add(DUE[FunctionKind.WORKFLOW])

    def _journals(
        self, statement: str, runs: Collection[tuple[JobId, int]], **how: int
    ) -> Mapping[JobId, list[JournalRow]]:
        if not runs:  # PostgreSQL may read a whole small table for it, and so conflict with all its writers
            return {}
        given = json.dumps([{"run_id": run_id, "generation": generation} for run_id, generation in sorted(runs)])
        journals: dict[JobId, list[JournalRow]] = {run_id: [] for run_id, _ in runs}
        for run_id, *values in self._fetch(statement, {"runs": given, **how}):
            journals[run_id].append(_journal_row(values))
        for journal in journals.values():
            journal.sort(key=attrgetter("position"))  # usually it is: the statement reads it from the primary key
        return journals


def _journal_values(entry: Entry) -> Row:
    """An entry in the order of JOURNAL_COLUMNS."""
    row = entry.row
    call = None if row.call is None else row.call.value
    return (
        entry.run_id, entry.generation, row.position, row.kind.value, row.seq, row.name, row.at, call,
        row.arguments, row.due_at, row.attempt, *_outcome_values(row.outcome), row.sender,
    )  # fmt: skip


def _journal_row(r: Sequence[Any]) -> JournalRow:
    """A row of the journal, from its columns after run and generation."""
    return JournalRow(
        r[0], _ROW_KINDS[r[1]], r[2], r[3], r[4], _CALL_KINDS[r[5]], r[6], r[7], r[8], _outcome(r[9], r[10]),
        r[11],
    )  # fmt: skip


def _message_values(message: NewMessage) -> Row:
    """A message in the order of MESSAGE_COLUMNS, without the last."""
    outcome = _outcome_values(message.outcome)
    return (
        message.run_id,
        message.kind.value,
        message.name,
        message.seq,
        *outcome,
        message.key,
        message.sender,
    )


def _sent_event(r: Row) -> SentEvent:
    """An event that waits, from the columns of `waiting_events`."""
    return SentEvent(r[0], r[1], r[2], r[3], r[4], Sender.from_text(r[5]))


def _outcome_values(outcome: Returned | Raised | None) -> tuple[str | None, str | None]:
    """The columns result and error."""
    if outcome is None:
        return None, None
    if isinstance(outcome, Returned):
        return outcome.result, None
    return None, JobError(outcome.type, outcome.message, outcome.traceback, outcome.data).to_text()


def _outcome(result: str | None, error: str | None) -> Returned | Raised | None:
    if error is not None:
        read = JobError.from_text(error)
        return Raised(read.type, read.message, read.traceback, data=read.data)
    return None if result is None else Returned(result)


# -- The status of workflows over SQL.

_STATUS: Final = {status.value: status for status in WorkflowStatus}
"""A status that this code does not know, of a newer release or damaged, lets no run start."""


class WorkflowTypes(Driver):
    """The status of workflow types."""

    def workflow_types(self, names: Collection[str] | None = None) -> Mapping[str, WorkflowType]:
        """The workflows that were given a status, by name; of `names`, or all of them in the order of their names."""
        if names is None:
            found = self._fetch("workflow_types", {})
        else:
            found = self._fetch("workflow_types_named", {"names": json.dumps(sorted(names))})
        return {
            row[0]: WorkflowType(row[0], _STATUS.get(row[1], WorkflowStatus.PAUSED), Instant(row[2])) for row in found
        }

    def save_workflow_type(self, given: WorkflowType) -> None:
        """Give a workflow a status."""
        self._run(
            "save_workflow_type", {"name": given.name, "status": given.status.value, "changed_at": given.changed_at}
        )
