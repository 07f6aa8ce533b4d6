-- any_limits: whether a tenant of this database has limits at all, and whether a pool has.
select exists (select 1 from tenant_limits), exists (select 1 from pool_limits)
