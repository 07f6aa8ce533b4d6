-- waiting_tenants: every tenant that has a pending job of :kind, with the moment its earliest is due.
-- As SQLite's, but one step takes tenant and moment together: a step may lead over many entries of claimed jobs, which
-- PostgreSQL keeps until the next VACUUM.
with recursive waiting (tenant, due_at) as (
    (select tenant, due_at from jobs where kind = :kind and state = 'pending' and blocked = 0 and crashes < 2
        and tenant > :after order by tenant, due_at limit 1)
    union all
    (select following.tenant, following.due_at
       from waiting
      cross join lateral (select tenant, due_at from jobs
                           where kind = :kind and state = 'pending' and blocked = 0 and crashes < 2
                             and tenant > waiting.tenant order by tenant, due_at limit 1) as following)
)
select tenant, due_at
  from waiting
 limit :limit
