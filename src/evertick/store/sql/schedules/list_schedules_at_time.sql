-- list_schedules_at_time: as list_schedules_by_time, those of one time, by id beyond the one given.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules
         where tenant = :tenant and {moment} = :after_time and id {beyond} :after_id
           and {chosen}
         order by id {order}
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by id {order}
