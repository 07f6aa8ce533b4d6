-- finish_succeeded: as finish_jobs, for attempts that returned and logged nothing: most of them, in a third of the time.
with e as materialized (
    select *
      from json_to_recordset(:rows::json) as e (id text, attempt integer, completed_at bigint, result text)
)
update jobs
   set state = 'success', completed_at = e.completed_at, result = e.result, error = null, logs = null, worker_id = null
  from e
 where jobs.id = any (array(select id from e)) and jobs.id = e.id
   and (jobs.state, jobs.worker_id, jobs.attempt) is not distinct from ('in_progress', :worker_id, e.attempt)
   and (stop = 0 or kind = 'mutation')
returning jobs.id
