-- insert_jobs_told: as insert_jobs_few, and takes the notification of it along; a row says that it did.
-- NOTIFY locks out that of every other transaction until the commit is on disk, and fails where the queue is full: so
-- only one at a time does it, and only while there is room.
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
