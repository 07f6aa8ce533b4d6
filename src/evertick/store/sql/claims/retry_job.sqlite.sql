-- retry_job: make a job pending again whose attempt ended, if (worker, attempt) still holds it. Run once a row.
update jobs
   set state = 'pending', due_at = ?1, failures = ?2, crashes = ?3, error = ?4, worker_id = null,
       rank = ?1 - priority * 60000, stage = case when ?3 >= 2 then 'suspect' else 'waiting' end
 where id = ?5 and state = 'in_progress' and worker_id = ?6 and attempt = ?7
   and (stop = 0 or kind = 'mutation')
returning started_at
