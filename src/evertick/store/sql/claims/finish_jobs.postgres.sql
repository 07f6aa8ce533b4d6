-- finish_jobs: move jobs whose last attempt ended from `jobs` to `history`, if (worker, attempt) still holds them.
-- One statement for many jobs. :rows is a JSON array of objects: the driver writes it many times faster than arrays,
-- one for each column; what most ends do not have may be left out. Returns the ids that were still held. What was asked to stop ends
-- only as canceled.
-- The ids are looked up in the primary key. `is not distinct from` keeps PostgreSQL from reading jobs_running instead,
-- where everything this worker ever finished lies dead until vacuum may remove it.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (id text, attempt integer, state text, started_at bigint, completed_at bigint, failures integer,
                 crashes integer, result text, error text)
), gone as (
    delete from jobs
     using e
     where jobs.id = any (array(select id from e)) and jobs.id = e.id
       and (jobs.state, jobs.worker_id, jobs.attempt) is not distinct from ('in_progress', :worker_id, e.attempt)
       and (jobs.stop = 0 or jobs.kind = 'mutation' or e.state = 'canceled')
    returning jobs.id, jobs.tenant, jobs.kind, jobs.name, coalesce(e.state, 'success') as state, jobs.requested_at,
              jobs.due_at, jobs.created_at, coalesce(e.started_at, jobs.started_at), e.completed_at, jobs.attempt,
              coalesce(e.failures, jobs.failures), coalesce(e.crashes, jobs.crashes), jobs.worker_id, jobs.parent_id,
              jobs.key, jobs.schedule_id, jobs.pool, jobs.priority, jobs.stop, jobs.schedule, jobs.args, e.result, e.error,
              jobs.retry, jobs.on_complete, jobs.limit_key
), counted as (
    insert into job_count_changes (tenant, name, unfinished, success, failed, canceled)
    select tenant, name, -count(*), count(*) filter (where state = 'success'), count(*) filter (where state = 'failed'),
           count(*) filter (where state = 'canceled')
      from gone
     group by tenant, name
)
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, result, error,
                     retry, on_complete, limit_key)
select *
  from gone
returning id
