-- reschedule_job: let a pending job be due at :due_at. One that runs, or is being run, stays as it is.
update jobs
   set due_at = :due_at, rank = cast(:due_at as bigint) - priority * 60000,
       stage = case when stage = 'suspect' then stage else 'waiting' end
 where id = :id and tenant = :tenant and state = 'pending'
returning kind
