-- due_schedules: schedules that want to be looked at, longest waiting first. Reads the index schedules_wake.
-- Those that another evaluator is looking at are skipped: no leader, any process may evaluate.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where wake_at <= :now and format <= :format
 order by wake_at, tenant, id
 limit :limit
{for update skip locked}
