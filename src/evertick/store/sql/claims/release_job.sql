-- release_job: hand back a claimed job that was not begun.
update jobs
   set state = 'pending', worker_id = null,
       stage = case when stage = 'paused' then stage when crashes >= 2 then 'suspect' else 'ready' end
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
