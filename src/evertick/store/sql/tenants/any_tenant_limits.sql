-- any_tenant_limits: whether a tenant of this database has limits at all.
select 1
  from tenant_limits
 limit 1
