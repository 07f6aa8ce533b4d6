-- overdue_schedules: as SQLite's; a lateral join takes the schedules of each tenant, in the order of the index.
select tenant, count(*), min(next_at)
  from (select s.tenant, s.next_at
          from json_array_elements_text(:tenants::json) as t (each)
         cross join lateral (select tenant, next_at
                               from schedules
                              where tenant = t.each and coalesce(next_at, 9223372036854775807) < :late_at
                              order by coalesce(next_at, 9223372036854775807), id
                              limit :limit) as s
         limit :limit) as overdue
 group by tenant
