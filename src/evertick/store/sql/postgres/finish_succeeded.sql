-- finish_succeeded: as finish_jobs, for attempts that returned and logged nothing: most of them, in a third of the time.
update jobs
   set state = 'success', completed_at = e.completed_at, result = e.result, error = null, logs = null, worker_id = null
  from json_to_recordset(:rows::json) as e (id text, attempt integer, completed_at bigint, result text)
 where jobs.id = e.id and jobs.state = 'in_progress' and jobs.worker_id = :worker_id and jobs.attempt = e.attempt
returning jobs.id
