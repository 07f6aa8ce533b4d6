-- tenants_with: tenants beyond :after with {rows}, by name: one step of an index that begins with the tenant for each.
with recursive found (tenant) as (
  select * from (select tenant from {rows} tenant > :after order by tenant limit 1) as first
  union all
  select (select tenant from {rows} tenant > found.tenant order by tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
