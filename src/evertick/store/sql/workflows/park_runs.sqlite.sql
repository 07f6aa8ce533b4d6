-- park_runs: make the claimed runs in :rows (a JSON array of objects) pending, if (worker, attempt) still holds them. It went
-- well, so crashes that were counted before count no longer. A run that was paused
-- meanwhile stays so. The signs + keep it from reading jobs_running.
update jobs
   set state = 'pending', due_at = e.value ->> 'due_at', rank = (e.value ->> 'due_at') - priority * 60000,
       stage = case when stage = 'paused' then stage else e.value ->> 'stage' end, error = e.value ->> 'error', crashes = 0, worker_id = null
  from json_each(:rows) as e
 where jobs.id = e.value ->> 'id' and jobs.attempt = e.value ->> 'attempt'
   and +jobs.state = 'in_progress' and +jobs.worker_id = :worker_id
returning id
