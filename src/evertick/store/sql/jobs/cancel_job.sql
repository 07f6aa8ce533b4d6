-- cancel_job: end an unfinished job, or ask the action that runs as it to stop. A finished one stays as it is.
-- What an action has begun only the end of its function ends. Until then the job is in progress with a request, :stop
-- (1 asks, 2 ends it by force), and its key is free: what replaces it may be scheduled.
update jobs
   set state = case when state = 'in_progress' and kind = 'action' then state else 'canceled' end,
       completed_at = case when state = 'in_progress' and kind = 'action' then null else cast(:now as bigint) end,
       worker_id = case when state = 'in_progress' and kind = 'action' then worker_id end,
       key = case when state = 'in_progress' and kind = 'action' then null else key end,
       stop = case when state = 'in_progress' and kind = 'action' and stop < :stop then :stop else stop end
 where id = :id and tenant = :tenant and state in ('pending', 'in_progress')
returning state, on_complete, schedule
