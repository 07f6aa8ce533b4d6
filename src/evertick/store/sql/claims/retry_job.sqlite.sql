-- retry_job: make a job pending again whose attempt ended, if (worker, attempt) still holds it. Run once a row.
update jobs
   set state = 'pending', due_at = :due_at, failures = :failures, crashes = :crashes, error = :error, worker_id = null,
       rank = :due_at - priority * 60000,
       stage = case when stage = 'paused' then stage when :crashes >= 2 then 'suspect' else 'waiting' end
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
   and (stop = 0 or kind = 'mutation')
returning started_at
