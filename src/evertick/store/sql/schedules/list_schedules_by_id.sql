-- list_schedules_by_id: a tenant's schedules by id, beyond the position given.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and id {beyond} :after_id
 order by id {order}
 limit :limit
