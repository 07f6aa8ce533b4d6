-- list_chosen_schedules: as list_schedules_by_id, those that a filter chooses. The index schedules_in_order has all that
-- is asked, so only the rows of the page are read.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules {indexed by schedules_in_order}
         where tenant = :tenant and {id} {beyond} :after_id
           and {chosen}
         order by {id} {order}
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by id {order}
