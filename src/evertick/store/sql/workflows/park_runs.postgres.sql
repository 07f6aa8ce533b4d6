-- park_runs: as SQLite's. `is not distinct from` keeps it from reading jobs_running, as in finish_jobs.
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
