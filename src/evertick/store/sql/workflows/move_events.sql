-- move_events: what was sent to a run and not taken is another's. Ends of calls are not: they belong to the calls of the run.
update workflow_inbox {indexed by workflow_inbox_waiting}
   set run_id = :to_run
 where run_id = :run_id and kind = 'event' and taken_at is null
