-- cancel_job: end an unfinished job. A finished one stays as it is.
update jobs
   set state = 'canceled', completed_at = :now, worker_id = null, blocked = 0
 where id = :id and tenant = :tenant and state in ('pending', 'in_progress')
returning on_complete, schedule
