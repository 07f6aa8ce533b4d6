-- next_due: when the next job of each function of a tenant is due, as far as it is among the first :limit that wait. Reads the
-- index jobs_waiting.
select name, min(due_at)
  from (select name, tenant, due_at
          from jobs
         where state = 'pending' and stage = 'waiting'
         order by due_at, id
         limit :limit) as waiting
 where tenant = :tenant
 group by name
