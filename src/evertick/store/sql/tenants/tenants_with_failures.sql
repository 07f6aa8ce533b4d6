-- tenants_with_failures: tenants beyond :after with failed jobs, by name: one step of the index history_failed for each.
with recursive found (tenant) as (
  select * from (select tenant from history where state = 'failed' and tenant > :after order by tenant limit 1) as first
  union all
  select (select h.tenant from history h where h.state = 'failed' and h.tenant > found.tenant order by h.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant
  from found
 where tenant is not null
 limit :limit
