-- list_schedules_at_next: as list_schedules_by_next, those of one time, by id beyond the one given.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules
         where tenant = :tenant and coalesce(next_at, 9223372036854775807) = :after_next and id > :after_id
           and (cast(:kind as text) is null or kind = :kind)
           and (cast(:status as text) is null or status = :status)
           and (cast(:function as text) is null or function = :function)
           and (cast(:id_contains as text) is null or {has exactly id :id_contains})
           and (cast(:next_before as bigint) is null or next_at < :next_before)
         order by id
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by id
