-- tenants_with_schedules: tenants beyond :after with schedules, by name: one step of an index for each.
with recursive found (tenant) as (
  select * from (select tenant from schedules where tenant > :after order by tenant limit 1) as first
  union all
  select (select s.tenant from schedules s where s.tenant > found.tenant order by s.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
