-- tenants_with_jobs: tenants beyond :after with unfinished jobs, by name: one step of the index jobs_unfinished for each.
with recursive found (tenant) as (
  select * from (select tenant
                   from jobs indexed by jobs_unfinished
                  where tenant > :after and state in ('pending', 'in_progress')
                  order by tenant limit 1) as first
  union all
  select (select j.tenant
            from jobs j indexed by jobs_unfinished
           where j.tenant > found.tenant and j.state in ('pending', 'in_progress')
           order by j.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
