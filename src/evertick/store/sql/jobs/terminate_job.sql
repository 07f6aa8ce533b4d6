-- terminate_job: end an unfinished job at once; its worker, if it has one, finds the mark and stops the run.
update jobs
   set state = 'canceled', completed_at = :now, worker_id = null, blocked = 0, stop = 2
 where id = :id and tenant = :tenant and state in ('pending', 'in_progress')
returning on_complete, schedule
