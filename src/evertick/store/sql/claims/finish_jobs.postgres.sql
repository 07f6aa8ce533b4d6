-- finish_jobs: as SQLite's finish_job, for many attempts in one round trip. Returns the ids that were still held.
-- :rows is a JSON array of objects: the driver writes it many times faster than arrays, one for each column. The ids
-- are looked up in the primary key. `is not distinct from` keeps PostgreSQL from reading jobs_running instead, where
-- everything this worker ever finished lies dead until vacuum may remove it.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (id text, attempt integer, state text, completed_at bigint, due_at bigint,
                 failures integer, crashes integer, result text, error text, logs text)
)
update jobs
   set state = e.state, completed_at = e.completed_at, due_at = e.due_at, failures = e.failures, crashes = e.crashes,
       result = e.result, error = e.error, logs = e.logs, worker_id = null,
       rank = e.due_at - jobs.priority * 60000, stage = case when e.crashes >= 2 then 'suspect' else 'waiting' end
  from e
 where jobs.id = any (array(select id from e)) and jobs.id = e.id
   and (jobs.state, jobs.worker_id, jobs.attempt) is not distinct from ('in_progress', :worker_id, e.attempt)
   and (stop = 0 or kind = 'mutation' or e.state = 'canceled')
returning jobs.id
