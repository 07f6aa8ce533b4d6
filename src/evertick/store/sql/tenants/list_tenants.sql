-- list_tenants: tenants of which anything is kept (jobs, ended ones too, schedules, documents, limits), by name, from :first on.
-- For each tenant it takes one step in an index that begins with the tenant, of each of the five tables.
with recursive found (tenant) as (
  select min(tenant)
    from (select (select min(tenant) from jobs {indexed by jobs_by_name} where tenant >= :first) as tenant
          union all
          select (select min(tenant) from history {indexed by history_by_state} where tenant >= :first)
          union all
          select (select min(tenant) from schedules where tenant >= :first)
          union all
          select (select min(tenant) from documents where tenant >= :first)
          union all
          select (select min(tenant) from tenant_limits where tenant >= :first)) as first
  union all
  select (select min(tenant)
            from (select (select min(tenant) from jobs {indexed by jobs_by_name} where tenant > found.tenant) as tenant
                  union all
                  select (select min(tenant) from history {indexed by history_by_state} where tenant > found.tenant)
                  union all
                  select (select min(tenant) from schedules where tenant > found.tenant)
                  union all
                  select (select min(tenant) from documents where tenant > found.tenant)
                  union all
                  select (select min(tenant) from tenant_limits where tenant > found.tenant)) as following)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
