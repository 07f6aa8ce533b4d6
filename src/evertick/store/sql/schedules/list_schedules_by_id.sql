-- list_schedules_by_id: a tenant's schedules by id, beyond the position given. A filter that is null does not narrow.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and id > :after_id
   and (cast(:kind as text) is null or kind = :kind)
   and (cast(:status as text) is null or status = :status)
   and (cast(:function as text) is null or function = :function)
   and (cast(:id_contains as text) is null or {has exactly id :id_contains})
   and (cast(:next_before as bigint) is null or next_at < :next_before)
 order by id
 limit :limit
