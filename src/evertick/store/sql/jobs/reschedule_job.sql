-- reschedule_job: let a pending job be due at :due_at. One that runs, or is being run, stays as it is; so does a run that has
-- begun, which waits for what its code waits for.
update jobs
   set due_at = :due_at, rank = cast(:due_at as bigint) - priority * 60000,
       stage = case when stage in ('suspect', 'paused') then stage else 'waiting' end
 where id = :id and tenant = :tenant and state = 'pending' and (kind <> 'workflow' or attempt = 0)
returning kind
