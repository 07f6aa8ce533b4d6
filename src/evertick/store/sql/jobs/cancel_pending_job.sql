-- cancel_pending_job: end a job that nobody is running. One that a worker holds stays as it is.
update jobs
   set state = 'canceled', completed_at = :now, worker_id = null, blocked = 0
 where id = :id and tenant = :tenant and state = 'pending'
returning on_complete, schedule
