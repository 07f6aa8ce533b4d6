-- ask_to_stop: ask the action that runs as a job to stop: 1 asks, 2 ends it by force. Only the end of its function ends
-- it. Until then its key is free: what replaces it may be scheduled. PostgreSQL does so within cancel_job.
update jobs
   set stop = max(stop, :stop), key = null
 where id = :id and tenant = :tenant and state = 'in_progress' and kind = 'action'
returning state, on_complete, schedule, name, trace
