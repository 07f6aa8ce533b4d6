-- overdue_schedules: how many schedules of the tenants in the JSON list :tenants have a next time before :late_at, and since when.
-- Looks at no more than :limit of them, by the index schedules_by_next.
select tenant, count(*), min(next_at)
  from (select s.tenant, s.next_at
          from json_each(:tenants) as t
         cross join schedules as s indexed by schedules_by_next
            on s.tenant = t.value and coalesce(s.next_at, 9223372036854775807) < :late_at
         limit :limit) as overdue
 group by tenant
