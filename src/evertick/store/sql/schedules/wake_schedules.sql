-- wake_schedules: let the schedules of some functions be evaluated at :now, also paused ones and those without a next time.
-- Reads all schedules: a workflow is deleted rarely.
update schedules
   set wake_at = :now
 where function in {list :functions} and (wake_at is null or wake_at > :now)
