-- finish_succeeded: as finish_job, for attempts that returned and logged nothing: most of them. Run once a row.
update jobs
   set state = 'success', completed_at = ?, result = ?, error = null, logs = null, worker_id = null
 where id = ? and state = 'in_progress' and worker_id = ? and attempt = ? and (stop = 0 or kind = 'mutation')
