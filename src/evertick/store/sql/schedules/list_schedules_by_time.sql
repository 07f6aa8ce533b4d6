-- list_schedules_by_time: a tenant's schedules by their next or last time, beyond a time. The index has all that is asked,
-- so only the rows of the page are read.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules
         where tenant = :tenant and {moment} {beyond} :after_time
           and {chosen}
         order by {moment} {order}, id {order}
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by {moment} {order}, id {order}
