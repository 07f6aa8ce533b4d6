-- any_limits: whether a tenant of this database has limits at all, whether a pool has, and whether a job is held for its key.
select exists (select 1 from tenant_limits), exists (select 1 from pool_limits),
       exists (select 1 from jobs where state = 'pending' and stage = 'held' and limit_key is not null)
