-- The specs of a tenant's schedules that are due before a moment, of the first :limit.
-- Reads the index schedules_by_next.
select spec, count(*) as schedules
  from (select spec
          from schedules
         where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :until
         order by coalesce(next_at, 9223372036854775807), id
         limit :limit) as coming
 group by spec
