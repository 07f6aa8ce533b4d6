-- list_tenant_limits: tenants with limits, by name, from :first on.
select tenant, running, starts_per_minute, jobs, argument_bytes, schedules
  from tenant_limits
 where tenant >= :first
 order by tenant
 limit :limit
