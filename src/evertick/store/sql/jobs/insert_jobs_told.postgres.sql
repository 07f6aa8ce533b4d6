-- insert_jobs_told: as insert_jobs_few, and takes the notification of it along; a row says that it did.
-- NOTIFY locks out that of every other transaction until the commit is on disk, and fails where the queue is full: so
-- only one at a time does it, and only while there is room.
with r as materialized (
    select *
      from json_to_recordset(:rows::json)
           as r (id text, tenant text, kind text, name text, args text, state text, requested_at bigint, due_at bigint,
                 created_at bigint, parent_id text, key text, retry text, on_complete text, schedule_id text,
                 schedule text, pool text, queue bigint, stage text, priority smallint, rank bigint, size integer,
                 body text)
), apart as (
    insert into bodies (id, args)
    select id, body from r where body is not null
), counted as (
    insert into job_count_changes (tenant, name, unfinished, success, failed, canceled)
    select tenant, name, count(*), 0, 0, 0 from r group by tenant, name
), new as (
    insert into jobs (id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry,
                      on_complete, schedule_id, schedule, pool, queue, stage, priority, rank, size)
    select id, tenant, kind, name, args, state, requested_at, due_at, created_at, parent_id, key, retry, on_complete,
           schedule_id, schedule, pool, queue, stage, priority, rank, size
      from r
)
select pg_notify(:channel, :payload)
 where pg_notification_queue_usage() < 0.5
   and pg_try_advisory_xact_lock(:lock)
