-- cancel_jobs: end unfinished jobs: they move to `history`. Finished ones stay as they are. :ids is a JSON list.
-- What an action has begun only the end of its function ends. Until then the job is in progress with a request, :stop
-- (1 asks, 2 ends it by force), and its key is free: what replaces it may be scheduled.
-- The rows are locked first, in their order: which of both happens must not depend on what a claim changes meanwhile.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
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
