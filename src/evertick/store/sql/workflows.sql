-- name: append_journal
-- Add rows to journals.
insert into workflow_journal {rows: run_id text, generation integer, position integer, kind text, seq integer,
    name text, at bigint, call text, arguments text, due_at bigint, attempt integer, result text, error text,
    sender text}

-- name: copy_journal
-- Copy the first :rows rows of a generation of a run to another run, whose journal begins with them.
insert into workflow_journal (run_id, generation, position, kind, seq, name, at, call, arguments, due_at, attempt,
                              result, error, sender)
select :to_run, 0, position, kind, seq, name, at, call, arguments, due_at, attempt, result, error, sender
  from workflow_journal
 where run_id = :run_id and generation = :generation and position < :rows

-- name: delete_attributes
-- Remove the rows of the runs in the JSON list :runs.
delete from workflow_attributes where run_id in {list :runs}

-- name: delete_journals
-- Remove the rows of the runs in the JSON list :runs.
delete from workflow_journal where run_id in {list :runs}

-- name: delete_messages (postgres)
-- Remove the messages of the runs in the JSON list :runs. Each database reads JSON lists in its own way.
-- Reads the index workflow_inbox_run.
delete from workflow_inbox where (run_id || '') = any (array(select json_array_elements_text(:runs::json)))

-- name: delete_messages (sqlite)
-- Remove the messages of the runs in the JSON list :runs. Each database reads JSON lists in its own way.
delete from workflow_inbox indexed by workflow_inbox_run where run_id in (select value from json_each(:runs))

-- name: delete_run_records
-- Remove the rows of the runs in the JSON list :runs.
delete from workflow_runs where run_id in {list :runs}

-- name: drop_generations (postgres)
-- As SQLite's. PostgreSQL's own: it reads lists of objects by another function, and finds a row again by its place.
delete from workflow_journal
 where ctid = any (array(select old.ctid
                           from json_to_recordset(:runs::json) as run (run_id text, generation integer)
                           join workflow_journal as old
                             on old.run_id = run.run_id and old.generation < run.generation
                          limit :limit))

-- name: drop_generations (sqlite)
-- Remove at most :limit rows of the generations before those in :runs (a JSON array of objects with run_id
-- and generation).
delete from workflow_journal
 where (run_id, generation, position) in (
       select old.run_id, old.generation, old.position
         from json_each(:runs) as run
        cross join workflow_journal as old
                on old.run_id = run.value ->> 'run_id' and old.generation < run.value ->> 'generation'
        limit :limit)

-- name: drop_messages
-- Remove those messages of the JSON list :messages that have no key; keys must stay known.
delete from workflow_inbox where id in {numbers :messages} and key is null

-- name: events_named
-- The first :limit events of a name that were sent to a run and not taken. Reads the index
-- workflow_inbox_waiting: a run has a thousand at most.
select name, key, sent_at, coalesce(length(result), 0), id, sender
  from workflow_inbox {indexed by workflow_inbox_waiting}
 where run_id = :run_id and taken_at is null and kind = 'event' and name = :name
 order by id
 limit :limit

-- name: get_runs
-- The records of the runs in the JSON list :runs.
select run_id, seed, generation, parent_seq, progress, attributes, restarted_from
  from workflow_runs
 where run_id in {list :runs}

-- name: insert_attributes
-- The attributes by which lists find runs.
insert into workflow_attributes {rows: tenant text, name text, value text, run_id text}

-- name: insert_messages (postgres)
-- As SQLite's, for many messages in one round trip, in their order. :rows is a JSON array of objects.
insert into workflow_inbox (run_id, kind, name, seq, result, error, key, sender, sent_at)
select e.run_id, e.kind, e.name, e.seq, e.result, e.error, e.key, e.sender, e.sent_at
  from json_array_elements(:rows::json) with ordinality as given (value, place)
 cross join lateral json_to_record(given.value)
       as e (run_id text, kind text, name text, seq integer, result text, error text, key text,
             sender text, sent_at bigint)
 order by given.place
on conflict do nothing

-- name: insert_messages (sqlite)
-- Send a message, unless the run was sent one with its key. SQLite runs it once a row.
insert into workflow_inbox (run_id, kind, name, seq, result, error, key, sender, sent_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do nothing

-- name: insert_runs
-- Write the records of runs.
insert into workflow_runs {rows: run_id text, seed text, generation integer, parent_seq integer, progress text,
    attributes text, restarted_from text}

-- name: is_run
-- Whether an unfinished job of a tenant is a run that has begun. A run that was started with attributes has a record
-- before that.
select 1
  from jobs
 where id = :run_id and tenant = :tenant
   and exists (select 1 from workflow_journal where run_id = :run_id)

-- name: journal_tails (postgres)
-- The newest :rows rows of the journals in :runs (a JSON array of objects with run_id and generation), unordered, and
-- without the results of steps. PostgreSQL's own: it reads lists of objects by another function, and a limit for each
-- of them by a lateral join.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       case row.kind when 'call' then row.result end, null, null
  from json_to_recordset(:runs::json) as run (run_id text, generation integer)
 cross join lateral (select *
                       from workflow_journal as journal
                      where journal.run_id = run.run_id and journal.generation = run.generation
                      order by position desc
                      limit :rows) as row

-- name: journal_tails (sqlite)
-- The newest :rows rows of the journals in :runs (a JSON array of objects with run_id and generation), unordered, and
-- without the results of steps.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       case row.kind when 'call' then row.result end, null, null
  from json_each(:runs) as run
 cross join workflow_journal as row
         on row.run_id = run.value ->> 'run_id' and row.generation = run.value ->> 'generation'
            and row.position > (select max(newest.position)
                                  from workflow_journal as newest
                                 where newest.run_id = run.value ->> 'run_id'
                                   and newest.generation = run.value ->> 'generation') - :rows

-- name: load_journals (postgres)
-- The rows of the journals in :runs (a JSON array of objects with run_id and generation), unordered.
-- PostgreSQL's own: it reads lists of objects by another function.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       row.result, row.error, row.sender
  from json_to_recordset(:runs::json) as run (run_id text, generation integer)
  join workflow_journal as row on row.run_id = run.run_id and row.generation = run.generation

-- name: load_journals (sqlite)
-- The rows of the journals in :runs (a JSON array of objects with run_id and generation), unordered.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       row.result, row.error, row.sender
  from json_each(:runs) as run
 cross join workflow_journal as row
         on row.run_id = run.value ->> 'run_id' and row.generation = run.value ->> 'generation'

-- name: move_events
-- Move the waiting messages of a run to another one, except ends of calls: they belong to the calls of the run.
update workflow_inbox {indexed by workflow_inbox_waiting}
   set run_id = :to_run
 where run_id = :run_id and kind = 'event' and taken_at is null

-- name: park_runs (postgres)
-- As SQLite's. `is not distinct from` keeps it from reading jobs_running, as in finish_jobs.
with e as materialized (
    select *
      from json_to_recordset(:rows::json) as e (id text, attempt integer, due_at bigint, stage text, error text)
)
update jobs
   set state = 'pending', due_at = e.due_at, rank = e.due_at - jobs.priority * 60000, error = e.error, crashes = 0,
       stage = case when jobs.stage = 'paused' then 'paused' else e.stage end, worker_id = null
  from e
 where jobs.id = any (array(select id from e)) and jobs.id = e.id
   and (jobs.state, jobs.worker_id, jobs.attempt) is not distinct from ('in_progress', :worker_id, e.attempt)
returning jobs.id

-- name: park_runs (sqlite)
-- Make the claimed runs in :rows (a JSON array of objects) pending, if (worker, attempt) still has them claimed. The
-- attempt succeeded, so earlier crashes do not count any more. A run that was paused meanwhile stays paused. The signs
-- + keep it from reading jobs_running.
update jobs
   set state = 'pending', due_at = e.value ->> 'due_at', rank = (e.value ->> 'due_at') - priority * 60000,
       stage = case when stage = 'paused' then stage else e.value ->> 'stage' end, error = e.value ->> 'error', crashes = 0, worker_id = null
  from json_each(:rows) as e
 where jobs.id = e.value ->> 'id' and jobs.attempt = e.value ->> 'attempt'
   and +jobs.state = 'in_progress' and +jobs.worker_id = :worker_id
returning id

-- name: pause_run
-- Pause an unfinished run. A paused run is in no index that claims read; a claimed run is parked as paused.
update jobs
   set stage = 'paused'
 where id = :id and tenant = :tenant and kind = 'workflow' and state in ('pending', 'in_progress') and stage <> 'paused'
returning id

-- name: reach_runs (postgres)
-- The unfinished runs of the JSON list :runs; waiting ones are due now. PostgreSQL's own: it locks the rows in the
-- order of ids, also those of running runs: the transaction that parks such a run then waits for this one and sees its
-- messages.
with reached as materialized (
    select id
      from jobs
     where id = any (array(select json_array_elements_text(:runs::json))) and kind = 'workflow'
       and state in ('pending', 'in_progress')
     order by id
       for no key update
)
update jobs
   set due_at = case when state = 'pending' and due_at > :now then :now else due_at end,
       rank = case when state = 'pending' and due_at > :now then :now - priority * 60000 else rank end,
       stage = case when state = 'pending' and stage = 'waiting' and due_at > :now then 'ready' else stage end
 where id = any (array(select id from reached)) and state in ('pending', 'in_progress')
returning id

-- name: reach_runs (sqlite)
-- The unfinished runs of the JSON list :runs; waiting ones are due now.
update jobs
   set due_at = case when state = 'pending' and due_at > :now then :now else due_at end,
       rank = case when state = 'pending' and due_at > :now then :now - priority * 60000 else rank end,
       stage = case when state = 'pending' and stage = 'waiting' and due_at > :now then 'ready' else stage end
 where id in (select value from json_each(:runs)) and kind = 'workflow'
   and state in ('pending', 'in_progress')
returning id

-- name: release_key
-- Take its key from a run or an action that has not ended, so that another job can have it.
update jobs
   set key = null
 where id = :id and tenant = :tenant and kind in ('workflow', 'action') and state in ('pending', 'in_progress')
returning id

-- name: resume_run
-- Let a paused run continue when it is due.
update jobs
   set stage = case when crashes >= 2 then 'suspect' when due_at <= :now then 'ready' else 'waiting' end
 where id = :id and tenant = :tenant and stage = 'paused'
returning id

-- name: runs_begun
-- Which of these unfinished jobs of a tenant are runs that have begun. :ids is a JSON list.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
select id
  from jobs
 where id in {list :ids} and (tenant || '') = :tenant
   and exists (select 1 from workflow_journal where run_id = jobs.id)

-- name: save_attributes (postgres)
-- As SQLite's, for many runs in one round trip. :rows is a JSON array of objects.
with e as materialized (
    select * from json_to_recordset(:rows::json) as e (attributes text, run_id text)
)
update workflow_runs
   set attributes = e.attributes
  from e
 where workflow_runs.run_id = any (array(select run_id from e)) and workflow_runs.run_id = e.run_id

-- name: save_attributes (sqlite)
-- The attributes of a run. SQLite runs it once a row; PostgreSQL's version takes all rows in one round trip.
update workflow_runs set attributes = ? where run_id = ?

-- name: save_runs (postgres)
-- As SQLite's, for many runs in one round trip. :rows is a JSON array of objects.
with e as materialized (
    select * from json_to_recordset(:rows::json) as e (generation integer, progress text, run_id text)
)
update workflow_runs
   set generation = e.generation, progress = e.progress
  from e
 where workflow_runs.run_id = any (array(select run_id from e)) and workflow_runs.run_id = e.run_id

-- name: save_runs (sqlite)
-- Write the changes of a run. SQLite runs it once a row; PostgreSQL's version takes all rows in one round trip.
update workflow_runs set generation = ?, progress = ? where run_id = ?

-- name: save_workflow_type
-- Give a workflow a status.
insert into workflow_types (name, status, changed_at)
values (:name, :status, :changed_at)
on conflict (name) do update set status = excluded.status, changed_at = excluded.changed_at

-- name: shown_runs
-- Whether each run in the JSON list :runs is paused, and its record; null if it has not begun.
select r.each, coalesce((select stage from jobs where id = r.each), '') = 'paused',
       record.run_id, record.seed, record.generation, record.parent_seq, record.progress, record.attributes,
       record.restarted_from
  from {each :runs} as r
  left join workflow_runs as record on record.run_id = r.each

-- name: take_messages
-- Mark the messages of the JSON list :messages as taken. Their values are not needed any more.
update workflow_inbox set taken_at = :now, result = null where id in {numbers :messages}

-- name: waiting_events
-- The first :limit events that a run has not taken, and their total number: at most a thousand. Reads the index
-- workflow_inbox_waiting.
select name, key, sent_at, coalesce(length(result), 0), id, sender,
       (select count(*)
          from workflow_inbox as every {indexed by workflow_inbox_waiting}
         where every.run_id = :run_id and every.taken_at is null and every.kind = 'event')
  from workflow_inbox {indexed by workflow_inbox_waiting}
 where run_id = :run_id and taken_at is null and kind = 'event'
 order by id
 limit :limit

-- name: waiting_messages (postgres)
-- The messages that the runs of the JSON list :runs have not taken. Reads workflow_inbox_waiting.
-- PostgreSQL's own: it reads lists by another function.
select id, run_id, kind, name, seq, result, error, sender
  from workflow_inbox
 where run_id = any (array(select json_array_elements_text(:runs::json))) and taken_at is null

-- name: waiting_messages (sqlite)
-- The messages that the runs of the JSON list :runs have not taken. Reads workflow_inbox_waiting.
select message.id, message.run_id, message.kind, message.name, message.seq, message.result, message.error, message.sender
  from json_each(:runs) as run
 cross join workflow_inbox as message indexed by workflow_inbox_waiting on message.run_id = run.value
 where message.taken_at is null

-- name: waiting_size
-- How many messages a run has not taken, at most :limit, and how many characters their values have. Without the name of
-- the index, SQLite reads the index of all messages.
select count(*), coalesce(sum(size), 0)
  from (select coalesce(length(result), 0) as size
          from workflow_inbox {indexed by workflow_inbox_waiting}
         where run_id = :run_id and taken_at is null limit :limit) as found

-- name: wake_parked (postgres)
-- As SQLite's. PostgreSQL's own: it reads lists of objects by another function.
with e as materialized (
    select * from json_to_recordset(:rows::json) as e (run_id text, seen bigint)
)
update jobs
   set due_at = :now, rank = :now - jobs.priority * 60000,
       stage = case jobs.stage when 'waiting' then 'ready' else jobs.stage end
  from e
 where jobs.id = any (array(select run_id from e)) and jobs.id = e.run_id
   and jobs.state = 'pending' and jobs.due_at > :now
   and exists (select from workflow_inbox as message
                where message.run_id = e.run_id and message.id > e.seen and message.taken_at is null)

-- name: wake_parked (sqlite)
-- Make those parked runs of :rows (a JSON array of objects) due that have messages after those they had seen.
update jobs
   set due_at = :now, rank = :now - priority * 60000, stage = case stage when 'waiting' then 'ready' else stage end
  from json_each(:rows) as e
 where jobs.id = e.value ->> 'run_id' and jobs.state = 'pending' and jobs.due_at > :now
   and exists (select 1 from workflow_inbox as message indexed by workflow_inbox_waiting
                where message.run_id = e.value ->> 'run_id' and message.id > e.value ->> 'seen'
                  and message.taken_at is null)

-- name: withdraw_event
-- Remove an event that a run has not taken; returns its value. If it is taken concurrently, one of the two finds no
-- row, or meets a conflict. It was sent at :sent_at, because SQLite reuses the id of a removed row.
delete from workflow_inbox
 where id = :id and run_id = :run_id and sent_at = :sent_at and kind = 'event' and taken_at is null
returning result

-- name: workflow_types
-- The workflows with a status, by name.
select name, status, changed_at from workflow_types order by name

-- name: workflow_types_named
-- The workflows of the JSON list :names with a status.
select name, status, changed_at from workflow_types where name in {list :names}
