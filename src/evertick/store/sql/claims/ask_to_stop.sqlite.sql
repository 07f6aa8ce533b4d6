-- ask_to_stop: ask the actions that run as jobs to stop: 1 asks, 2 ends them by force. Only the end of its function ends
-- one. Until then its key is free: what replaces it may be scheduled. PostgreSQL does so within cancel_jobs.
update jobs
   set stop = max(stop, :stop), key = null
 where id in {list :ids} and (tenant || '') = :tenant and state = 'in_progress' and kind = 'action'
returning id, state, on_complete, schedule, name, trace
