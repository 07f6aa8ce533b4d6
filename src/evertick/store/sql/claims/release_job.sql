-- release_job: hand back a claimed job that was not begun.
update jobs
   set state = 'pending', stage = case when crashes >= 2 then 'suspect' else 'ready' end, worker_id = null
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
