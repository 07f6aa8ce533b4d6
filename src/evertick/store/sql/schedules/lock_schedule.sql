-- lock_schedule: one schedule, to be changed: waits for an evaluator that is looking at it.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and id = :id
{for update}
