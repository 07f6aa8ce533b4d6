"""The world of a simulated run: the one database that survives everything, and the ground truth about it.

The database is the real SQLite store, in memory, shared by all simulated processes as PostgreSQL would be. Triggers
write every committed change of a job, and every document, into the table `sim_history`: in the order of the commits,
with the transaction, the virtual time and the process. What is rolled back leaves no trace there, so the history is
what really happened, and the checker (`tests.simulation.checker`) reads nothing else of the database.

Beside it stands what the database cannot know: the outside calls that actions made, and what callers were told.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from evertick.base.instants import Instant
from evertick.rules.jobs.lifecycle import SUSPECT_CRASHES
from evertick.store.sqlite.store import SqliteStore
from evertick.store.transaction.transaction import Transaction
from tests.simulation.loop import SimulationLoop
from tests.simulation.processes import PROCESS

T = TypeVar("T")

START: Final = Instant(1_800_000_000_000)

HISTORY: Final = f"""
create table sim_history (
    seq integer primary key, txn integer, at_ms integer, process text, what text, id text, tenant text,
    old_state text, new_state text, old_attempt integer, new_attempt integer, old_worker text, new_worker text,
    crashes integer
);
create trigger job_new after insert on jobs begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, new_state, new_attempt)
  values (sim_txn(), sim_now(), sim_process(), 'insert', new.id, new.tenant, new.state, new.attempt);
end;
create trigger job_stopped after update on jobs when new.stop > old.stop begin
  insert into sim_history (txn, at_ms, process, what, id, tenant)
  values (sim_txn(), sim_now(), sim_process(), 'stop', new.id, new.tenant);
end;
create trigger job_changed after update on jobs
  when not (old.state = 'in_progress' and new.state = 'in_progress' and old.attempt = new.attempt) begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, old_state, new_state, old_attempt, new_attempt,
                       old_worker, new_worker, crashes)
  values (sim_txn(), sim_now(), sim_process(), 'update', new.id, new.tenant, old.state, new.state, old.attempt,
          new.attempt, old.worker_id, new.worker_id, new.crashes);
end;
create trigger run_paused after update on jobs when (old.stage = 'paused') <> (new.stage = 'paused') begin
  insert into sim_history (txn, at_ms, process, what, id, tenant)
  values (sim_txn(), sim_now(), sim_process(), iif(new.stage = 'paused', 'paused', 'resumed'), new.id, new.tenant);
end;
create table bad_company (claimed text, beside text, worker text);
create trigger job_claimed after update on jobs when old.state = 'pending' and new.state = 'in_progress' begin
  insert into bad_company
  select new.id, id, worker_id from jobs
   where worker_id = new.worker_id and state = 'in_progress' and id <> new.id
     and case when new.kind = 'mutation' and kind = 'mutation' then max(crashes, new.crashes) >= {SUSPECT_CRASHES}
              when new.kind = 'action' and kind = 'action' then min(crashes, new.crashes) >= {SUSPECT_CRASHES}
              when new.kind = 'action' then crashes >= {SUSPECT_CRASHES}
              else new.crashes >= {SUSPECT_CRASHES} and sim_acts(id) end;
end;
create table crowd (claimed text, running integer, most integer);
create trigger job_claimed_of_a_key after update on jobs
  when old.state = 'pending' and new.state = 'in_progress' and new.limit_key is not null begin
  insert into crowd
  select new.id, together, per_key
    from pool_limits,
         (select count(*) as together
            from jobs
           where state = 'in_progress' and tenant = new.tenant and limit_key = new.limit_key)
   where pool_limits.pool = 'default' and together > per_key;
end;
create trigger job_held after update on jobs when old.stage = 'ready' and new.stage = 'held' begin
  insert into sim_history (txn, at_ms, process, what, id, tenant)
  values (sim_txn(), sim_now(), sim_process(), 'held', new.id, new.tenant);
end;
create trigger job_ended after insert on history begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, old_state, new_state, old_attempt, new_attempt,
                           old_worker, crashes)
  values (sim_txn(), sim_now(), sim_process(),
          case when exists (select 1 from job_facts where id = new.id) then 'update' else 'insert' end, new.id,
          new.tenant, (select state from job_facts where id = new.id), new.state, new.attempt, new.attempt,
          new.worker_id, new.crashes);
  insert or ignore into job_facts values (new.id, new.tenant, new.kind, new.name, new.args, new.parent_id, new.key,
                                          null, null, new.state, new.due_at, new.crashes, new.error, sim_txn());
  update job_facts set state = new.state, due_at = new.due_at, crashes = new.crashes, error = new.error
   where id = new.id;
end;
create trigger job_overwritten after update on history begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, old_state, new_state, old_attempt, new_attempt,
                           old_worker, crashes)
  values (sim_txn(), sim_now(), sim_process(), 'update', new.id, new.tenant, old.state, new.state, old.attempt,
          new.attempt, old.worker_id, new.crashes);
end;
create trigger job_vanished after delete on jobs when not exists (select 1 from history where id = old.id) begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, old_state)
  values (sim_txn(), sim_now(), sim_process(), 'delete', old.id, old.tenant, old.state);
end;
create trigger job_gone after delete on history begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, old_state, new_attempt)
  values (sim_txn(), sim_now(), sim_process(), 'delete', old.id, old.tenant, old.state, old.completed_at);
end;
create table job_facts (id text primary key, tenant text, kind text, name text, args text, parent_id text, key text,
                        retry text, on_complete text, state text, due_at integer, crashes integer, error text,
                        txn integer);
create trigger job_fact after insert on jobs begin
  insert into job_facts
  values (new.id, new.tenant, new.kind, new.name,
          case new.args when '' then (select args from bodies where id = new.id) else new.args end, new.parent_id,
          new.key, new.retry, new.on_complete, new.state, new.due_at, new.crashes, new.error, sim_txn());
end;
create trigger job_fact_changed after update on jobs begin
  update job_facts set state = new.state, due_at = new.due_at, crashes = new.crashes, error = new.error
   where id = new.id;
end;
create trigger job_fact_overwritten after update on history begin
  update job_facts set state = new.state where id = new.id;
end;
create trigger worker_new after insert on workers begin
  insert into sim_history (txn, at_ms, process, what, id)
  values (sim_txn(), sim_now(), sim_process(), 'registered', new.id);
end;
create trigger worker_gone after delete on workers begin
  insert into sim_history (txn, at_ms, process, what, id)
  values (sim_txn(), sim_now(), sim_process(), 'worker', old.id);
end;
create trigger journal_row after insert on workflow_journal begin
  insert into sim_history (txn, at_ms, process, what, id, old_state, new_state, new_attempt)
  values (sim_txn(), sim_now(), sim_process(), 'journal', new.run_id, new.kind, new.result, new.seq);
end;
create trigger message_row after insert on workflow_inbox begin
  insert into sim_history (txn, at_ms, process, what, id, old_state, new_attempt)
  values (sim_txn(), sim_now(), sim_process(), 'message', new.run_id, new.kind, new.seq);
end;
create trigger document_new after insert on documents begin
  insert into sim_history (txn, at_ms, process, what, id, tenant, new_state)
  values (sim_txn(), sim_now(), sim_process(), 'document', new.id, new.tenant, new.body);
end;
"""
"""`job_facts` keeps the last state of every job that ever was, also of those that were removed after retention.

`bad_company` holds whom a suspect met at a claim: a suspect mutation shall be alone in its process, and no suspect
action beside another. An action whose claim was not heard of is held, but does not run, so nobody can wait for it.

`crowd` holds jobs that were claimed although as many of their key ran as may.
"""


def process_name() -> str:
    """Who runs just now."""
    process = PROCESS.get(None)
    return "world" if process is None else process.name


class _Forgotten(Exception):
    """Undoes a transaction."""


@dataclass(slots=True)
class Told:
    """What callers know of a tag: how often its effect must be there at the least and may be there at the most."""

    least: int = 0
    most: int = 0


@dataclass(slots=True)
class OutsideCall:
    """A call that an action made to the outside world, which no rollback takes back."""

    job_id: str
    attempt: int
    tag: str
    at_seq: int
    state: str
    claims: int


@dataclass(slots=True)
class World:
    """What survives, and what is true. One for each run."""

    loop: SimulationLoop
    store: SqliteStore = field(init=False)
    database: sqlite3.Connection = field(init=False)
    calls: list[OutsideCall] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    """Ids of jobs whose scheduling was confirmed to the caller."""
    cancels: list[tuple[str, int]] = field(default_factory=list)
    """Job ids whose cancel was confirmed, and the last entry of the history then."""
    sent: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """Values that were sent to runs, or may have been, by the name of the event."""
    asked_to_end: set[str] = field(default_factory=set)
    """Runs that somebody asked to cancel or to end at once."""
    told_to_cancel: set[str] = field(default_factory=set)
    """Runs that had not ended when they were asked to cancel, as the reply said."""
    terminated: set[str] = field(default_factory=set)
    """Runs that somebody asked to end at once."""
    asked_to_resume: dict[str, int] = field(default_factory=dict)
    """Paused runs that a client let go on, with the last entry of the history when it first asked."""
    acting: set[tuple[str, str]] = field(default_factory=set)
    """Actions that run just now: process and job."""
    rare: Counter[str] = field(default_factory=Counter)
    counters: list[Callable[[], dict[str, int]]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Broken promises that were seen while the run went on."""
    afterthoughts: list[Callable[[Transaction], object]] = field(default_factory=list)
    """What planted bugs do in a second transaction that belongs into the first."""
    away_until: float = 0.0
    calm_at_ms: int = 0
    quiet_at_ms: int = 0
    """From here on nobody who lives may be taken for dead."""
    _txn: int = 0

    def __post_init__(self) -> None:
        self.store = SqliteStore("sqlite://")
        self.store.migrate()
        self.database = self.store.write(lambda transaction: transaction.connection)
        for name, function in (
            ("sim_txn", lambda: self._txn),
            ("sim_now", self.now_ms),
            ("sim_process", process_name),
        ):
            self.database.create_function(name, 0, function)
        self.database.create_function("sim_acts", 1, lambda job_id: (process_name(), job_id) in self.acting)
        self.database.executescript(HISTORY)

    def now_ms(self) -> int:
        """The true time, in virtual milliseconds since the start."""
        return int(self.loop.time() * 1000)

    def commit(self, work: Callable[[Transaction], T]) -> T:
        """Run work in one transaction of the shared database."""
        self._txn += 1
        return self.store.write(work)

    def forget(self, work: Callable[[Transaction], T]) -> T:
        """Run work in a transaction that the database forgets after it has answered."""
        result: list[T] = []

        def to_be_undone(transaction: Transaction) -> None:
            result.append(work(transaction))
            raise _Forgotten

        try:
            self.commit(to_be_undone)
        except _Forgotten:
            pass
        return result[0]

    def take_afterthoughts(self) -> list[Callable[[Transaction], object]]:
        """The second transactions that wait."""
        taken, self.afterthoughts = self.afterthoughts, []
        return taken

    # -- what the functions under test tell the outside

    def call_outside(self, job_id: str, attempt: int, tag: str) -> None:
        """An action calls the outside world, now and irrevocably."""
        row = self.database.execute(
            "select state, attempt from jobs where id = ? union all select state, attempt from history where id = ?",
            (job_id, job_id),
        ).fetchone()
        state, claims = row if row else ("gone", 0)
        self.calls.append(OutsideCall(job_id, attempt, tag, self.last_seq(), state, claims))

    @contextmanager
    def acts(self, job_id: str) -> Iterator[None]:
        """Around what an action does."""
        here = process_name(), job_id
        self.acting.add(here)
        try:
            yield
        finally:
            self.acting.discard(here)

    def note(self, tag: str, *, least: int = 0, most: int = 1) -> None:
        """Somebody learned how often the effect `tag` may be there."""
        self.told[tag] = Told(least, most)

    def note_cancel(self, job_id: str, tenant: str) -> None:
        """Somebody of a tenant was told that a job is canceled, or had ended. Of others' jobs that says nothing."""
        if self.rows("select 1 from job_facts where id = ? and tenant = ?", job_id, tenant):
            self.cancels.append((job_id, self.last_seq()))

    # -- looks at the truth

    def last_seq(self) -> int:
        """The newest entry of the history."""
        return int(self.database.execute("select coalesce(max(seq), 0) from sim_history").fetchone()[0])

    def rows(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        """Rows of the shared database, outside of every transaction of the engine's."""
        return self.database.execute(query, params).fetchall()

    def some_job(self) -> str | None:
        """Any job there is, for whoever wants to cancel one: one of the newest, or an action that runs."""
        rows = self.rows("select id from jobs where state = 'in_progress' and kind = 'action' order by id")
        if not rows or self.loop.random.random() < 0.4:
            rows = self.rows(
                "select id from (select id from jobs union all select id from history) order by id desc limit 12"
            )
        return rows[self.loop.random.randrange(len(rows))][0] if rows else None

    def unfinished(self) -> list[tuple[str, str, str, int]]:
        """Jobs that have not ended: id, name, state, due_at."""
        return self.rows("select id, name, state, due_at from jobs where state in ('pending', 'in_progress')")

    def documents(self, table: str) -> list[dict[str, Any]]:
        """The documents of a table as they are now."""
        rows = self.rows("select body from documents where id like ? order by id", f"{table}_%")
        return [json.loads(body) for (body,) in rows]

    def totals(self) -> Counter[str]:
        """The counters of every process that ever ran, together with the rare states seen here."""
        total = Counter(self.rare)
        for snapshot in self.counters:
            total.update(snapshot())
        return total
