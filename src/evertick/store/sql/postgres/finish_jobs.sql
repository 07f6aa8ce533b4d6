-- finish_jobs: as SQLite's finish_job, for many attempts in one round trip. Answers the ids that were still held.
-- :rows is a JSON array of objects: the driver writes it many times faster than arrays, one for each column.
update jobs
   set state = e.state, completed_at = e.completed_at, due_at = e.due_at, failures = e.failures, crashes = e.crashes,
       result = e.result, error = e.error, logs = e.logs, worker_id = null
  from json_to_recordset(:rows::json)
       as e (id text, attempt integer, state text, completed_at bigint, due_at bigint,
             failures integer, crashes integer, result text, error text, logs text)
 where jobs.id = e.id and jobs.state = 'in_progress' and jobs.worker_id = :worker_id and jobs.attempt = e.attempt
returning jobs.id
