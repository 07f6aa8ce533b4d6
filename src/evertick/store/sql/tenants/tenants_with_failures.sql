-- tenants_with_failures: tenants beyond :after with failed jobs, by name. Two steps of an index for each tenant with finished jobs.
with recursive found (tenant) as (
  select * from (select tenant from history where tenant > :after order by tenant limit 1) as first
  union all
  select (select h.tenant from history h where h.tenant > found.tenant order by h.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant
  from found
 where exists (select 1 from history h where h.tenant = found.tenant and h.state = 'failed')
 limit :limit
