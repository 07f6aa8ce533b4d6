-- tenant_usage: as SQLite's; the kept counts and what has changed since they were summed, which is read once for all tenants.
with changes as materialized (
    select tenant, sum(unfinished) as jobs
      from job_count_changes
     where tenant in {list :tenants}
     group by tenant
)
select t.each,
       (select coalesce(sum(unfinished), 0) from job_counts where tenant = t.each)
       + coalesce((select jobs from changes where changes.tenant = t.each), 0),
       (select coalesce(sum(size), 0) from jobs where tenant = t.each),
       (select count(*) from (select 1 from schedules where tenant = t.each limit :most) as counted)
  from {each :tenants} as t
