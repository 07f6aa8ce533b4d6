-- part: with_rows
-- The rows :rows of new jobs as r; their large arguments and their counts are written in the same statement.
with r as materialized (
    select *
      from json_to_recordset(:rows::json)
           as r (id text, tenant text, kind text, name text, args text, state text, requested_at bigint, due_at bigint,
                 created_at bigint, parent_id text, key text, retry text, on_complete text, schedule_id text,
                 schedule text, pool text, queue bigint, stage text, priority smallint, rank bigint, size integer,
                 limit_key text, trace text, body text)
), apart as (
    insert into bodies (id, args)
    select id, body from r where body is not null
), counted as (
    insert into job_count_changes (tenant, name, unfinished, success, failed, canceled)
    select tenant, name, count(*), 0, 0, 0 from r group by tenant, name
)

-- name: begin_writing (sqlite)
-- Take the write lock, and change nothing. SQLite's own: a transaction that has read first cannot write any more once
-- another one has written.
delete from jobs
 where false

-- name: cancel_jobs (postgres)
-- End unfinished jobs: they move to `history`. Finished ones stay as they are. :ids is a JSON list. A running action
-- ends only with its function. Until then the job is in progress with a request, :stop (1 asks, 2 ends it by force),
-- and its key is free: its replacement may be scheduled. The rows are locked first, in their order: a concurrent claim
-- must not change which of both happens. `tenant || ''` keeps databases from an index that begins with the tenant.
with found as materialized (
    select id, state = 'in_progress' and kind = 'action' as runs
      from jobs
     where id in {list :ids} and (tenant || '') = :tenant
     order by id
       for update
), asked as (
    update jobs
       set stop = greatest(jobs.stop, :stop), key = null
      from found
     where jobs.id = found.id and found.runs
    returning jobs.id, jobs.on_complete, jobs.schedule, jobs.name, jobs.trace
), gone as (
    delete from jobs
     using found
     where jobs.id = found.id and not found.runs
    returning jobs.*
), counted as (
    insert into job_count_changes (tenant, name, unfinished, success, failed, canceled)
    select tenant, name, -count(*), 0, 0, count(*)
      from gone
     group by tenant, name
     order by tenant, name
), ended as (
    insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at,
                         attempt, failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args,
                         error, retry, on_complete, limit_key)
    select id, tenant, kind, name, 'canceled', requested_at, due_at, created_at,
           case state when 'in_progress' then started_at end, :now::bigint, attempt, failures, crashes, worker_id, parent_id,
           key, schedule_id, pool, priority, stop, schedule, args, error, retry, on_complete, limit_key
      from gone
)
select id, 'in_progress', on_complete, schedule, name, trace
  from asked
union all
select id, 'canceled', on_complete, schedule, name, trace
  from gone

-- name: cancel_jobs (sqlite)
-- End unfinished jobs in `history`; delete_finished follows. Finished ones stay as they are; running actions are for
-- ask_to_stop. :ids is a JSON list.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, error,
                     retry, on_complete, limit_key)
select id, tenant, kind, name, 'canceled', requested_at, due_at, created_at,
       case state when 'in_progress' then started_at end, :now, attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, error, retry,
       on_complete, limit_key
  from jobs
 where id in {list :ids} and (tenant || '') = :tenant and (state = 'pending' or kind <> 'action')
returning id, state, on_complete, schedule, name, (select trace from jobs where jobs.id = history.id)

-- name: find_call
-- The result of a mutation that was called with this idempotency key before.
select name, fingerprint, result
  from calls
 where tenant = :tenant and key = :key

-- name: find_unfinished_key
-- The unfinished job that has a key, if there is one. Reads the unique index jobs_key.
select id
  from jobs
 where tenant = :tenant and key = :key and state in ('pending', 'in_progress')

-- name: get_jobs
-- Whole jobs of a tenant by their ids, unfinished and finished. :ids is a JSON list. In no order.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, null, attempt, failures, crashes,
       worker_id, parent_id, key, schedule_id, pool, priority, stop, null,
       case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
       retry, on_complete, schedule, null, error, limit_key
  from jobs
 where id in {list :ids} and (tenant || '') = :tenant
union all
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as,
       case args when '' then coalesce((select bodies.args from bodies where bodies.id = history.id), '') else args end,
       retry, on_complete, schedule, result, error, limit_key
  from history
 where id in {list :ids} and (tenant || '') = :tenant

-- name: insert_bodies
-- Store large arguments apart from their jobs.
insert into bodies {rows: id text, args text}

-- name: insert_canceled
-- Write jobs that are canceled from the start.
insert into history {rows: id text, tenant text, kind text, name text, args text, state text, requested_at bigint,
    due_at bigint, created_at bigint, parent_id text, key text, schedule_id text, schedule text, completed_at bigint,
    pool text, priority smallint, retry text, on_complete text, limit_key text, attempt integer, failures integer,
    crashes integer}

-- name: insert_jobs (postgres)
-- Write scheduled calls with COPY: many rows in one round trip, as fast as PostgreSQL takes them.
copy jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry, on_complete,
           schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
from stdin

-- name: insert_jobs (sqlite)
-- Write one scheduled call. SQLite runs it once a row; PostgreSQL's version takes all rows in one round trip.
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry,
                  on_complete, schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_jobs_few (postgres)
-- As insert_jobs, for a few rows: one round trip, also for their large arguments and counts.
{with_rows}
insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry,
                  on_complete, schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
select id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry, on_complete,
       schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace
  from r

-- name: insert_jobs_and_notify (postgres)
-- As insert_jobs_few, and sends the notification, too; then it returns a row. NOTIFY blocks that of every other
-- transaction until the commit is on disk, and fails if the queue is full: so only one transaction at a time does it,
-- and only while the queue has space.
{with_rows}, new as (
    insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry,
                      on_complete, schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace)
    select id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry, on_complete,
           schedule_id, schedule, pool, queue, stage, priority, rank, size, limit_key, trace
      from r
)
select pg_notify(:channel, :payload)
 where pg_notification_queue_usage() < 0.5
   and pg_try_advisory_xact_lock(:lock)

-- name: mark_retried
-- Store the job as which a finished one runs again, if the stored one is :replaces (or null if there is none).
update history
   set retried_as = :again
 where id = :id and (tenant || '') = :tenant
   and (retried_as = cast(:replaces as text) or retried_as is null and cast(:replaces as text) is null)
returning name, state

-- name: mark_steps_retried
-- Store at the failed calls of a run that they run again in another one, unless that is stored. Reads the index
-- history_by_parent: the comparison of the state keeps databases from the indexes of failed jobs.
update history
   set retried_as = :again
 where tenant = :tenant and parent_id = :run
   and state || '' = 'failed' and retried_as is null and not ({is root})
returning id, name, kind

-- name: prune_calls
-- Remove at most :limit calls made before :before.
delete from calls
 where (tenant, key) in (select tenant, key
                           from calls
                          where created_at < :before
                          order by created_at
                          limit :limit)

-- name: reschedule_job
-- Make a pending job due at :due_at. A running job stays as it is; so does a run that has begun, whose code decides
-- when it continues.
update jobs
   set due_at = :due_at, rank = cast(:due_at as bigint) - priority * 60000,
       stage = case when stage in ('suspect', 'paused') then stage else 'waiting' end
 where id = :id and tenant = :tenant and state = 'pending' and (kind <> 'workflow' or attempt = 0)
returning kind

-- name: save_call
-- Store the result of a call, in the mutation's own transaction. A key exists once.
insert into calls (tenant, key, name, fingerprint, result, created_at)
values (:tenant, :key, :name, :fingerprint, :result, :created_at)

-- name: unfinished_keys
-- The keys of a JSON list that unfinished jobs of a tenant have. Reads the unique index jobs_key.
select key
  from jobs
 where tenant = :tenant and key in {list :keys} and state in ('pending', 'in_progress')
