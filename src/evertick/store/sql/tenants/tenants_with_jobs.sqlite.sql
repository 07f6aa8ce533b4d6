-- tenants_with_jobs: tenants beyond :after with unfinished jobs, by name: one step of the index jobs_by_name for each.
with recursive found (tenant) as (
  select * from (select tenant from jobs indexed by jobs_by_name where tenant > :after order by tenant limit 1) as first
  union all
  select (select j.tenant from jobs j indexed by jobs_by_name where j.tenant > found.tenant order by j.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
