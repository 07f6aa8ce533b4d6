-- list_schedules_by_next: a tenant's schedules by their next time, those without one last, beyond the position given.
-- Reads the index schedules_next. A filter that is null does not narrow.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and coalesce(next_at, 9223372036854775807) >= :after_next
   and (coalesce(next_at, 9223372036854775807), id) > (:after_next, :after_id)
   and (cast(:kind as text) is null or kind = :kind)
   and (cast(:status as text) is null or status = :status)
   and (cast(:function as text) is null or function = :function)
   and (cast(:id_contains as text) is null or replace(id, :id_contains, '') <> id)
   and (cast(:next_before as bigint) is null or next_at < :next_before)
 order by coalesce(next_at, 9223372036854775807), id
 limit :limit
