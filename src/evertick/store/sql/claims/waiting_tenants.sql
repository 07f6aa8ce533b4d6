-- waiting_tenants: every tenant that has a pending job of :kind, with the moment its earliest is due.
-- Suspects do not count: `suspect_due_at` tells of them. One step of the index jobs_due a tenant (a loose index
-- scan), however many jobs each has. In the order of the index, beyond :after, at most :limit tenants.
with recursive waiting (tenant) as (
    select (select tenant from jobs where kind = :kind and state = 'pending' and blocked = 0 and crashes < 2
               and tenant > :after order by tenant limit 1)
    union all
    select (select tenant from jobs where kind = :kind and state = 'pending' and blocked = 0 and crashes < 2
               and tenant > waiting.tenant order by tenant limit 1)
      from waiting
     where waiting.tenant is not null
)
select tenant, (select due_at from jobs where kind = :kind and state = 'pending' and blocked = 0 and crashes < 2
                   and tenant = waiting.tenant order by due_at limit 1)
  from waiting
 where tenant is not null
 limit :limit
