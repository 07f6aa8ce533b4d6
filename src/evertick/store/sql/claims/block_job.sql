-- block_job: hand back a claimed job whose function this worker does not know; it waits for a worker that does.
update jobs
   set state = 'pending', worker_id = null, blocked = 1
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
