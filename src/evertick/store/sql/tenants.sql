-- name: any_tenant_limits
-- Whether any tenant of this database has limits.
select 1
  from tenant_limits
 limit 1

-- name: argument_bytes
-- The size of the arguments of a tenant's unfinished jobs. Reads only the index jobs_by_name.
select coalesce(sum(size), 0)
  from jobs
 where tenant = :tenant

-- name: count_schedules
-- How many schedules a tenant has, at most :limit.
select count(*)
  from (select 1
          from schedules
         where tenant = :tenant
         limit :limit) as found

-- name: drop_tenant_limits
-- Remove the limits of a tenant.
delete from tenant_limits
 where tenant = :tenant

-- name: held_back_tenants
-- Which of the tenants in the JSON list :tenants have limits on what starts.
select tenant
  from tenant_limits
 where tenant in {list :tenants} and (running is not null or starts_per_minute is not null)

-- name: list_tenant_limits
-- Tenants with limits, by name, from :first on.
select tenant, running, starts_per_minute, jobs, argument_bytes, schedules
  from tenant_limits
 where tenant >= :first
 order by tenant
 limit :limit

-- name: list_tenants
-- Tenants with any rows (jobs, also ended ones, schedules, documents, limits), by name, from :first on. For each tenant
-- it takes one step in an index that begins with the tenant, of each of the five tables.
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

-- name: running_jobs
-- The tenant of each running job, of those in the JSON list :tenants. Reads the index jobs_running: the jobs of all
-- workers, however many jobs wait. `tenant || ''` keeps databases from the indexes of all a tenant's jobs.
select tenant
  from {running}
 where state = 'in_progress' and worker_id > ''
   and (tenant || '') in {list :tenants}

-- name: save_tenant_limits
-- The limits of a tenant. The used rate stays.
insert into tenant_limits (tenant, running, starts_per_minute, jobs, argument_bytes, schedules)
values (:tenant, :running, :starts_per_minute, :jobs, :argument_bytes, :schedules)
on conflict (tenant)
   do update set running = excluded.running, starts_per_minute = excluded.starts_per_minute, jobs = excluded.jobs,
                 argument_bytes = excluded.argument_bytes, schedules = excluded.schedules

-- name: start_limits
-- The limits of the tenants in the JSON list :tenants, locked until the end of the claim, so that two workers do not
-- both take the last place. A tenant for which another worker claims now is skipped.
select tenant, running, starts_per_minute, used_until_us
  from tenant_limits
 where tenant in {list :tenants}
   and (running is not null or starts_per_minute is not null)
{for update skip locked}

-- name: tenant_usage (postgres)
-- As SQLite's; the kept counts and the changes since they were summed, which are read once for all tenants.
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

-- name: tenant_usage (sqlite)
-- The usage of each tenant in the JSON list :tenants, except running jobs: unfinished jobs, the size of their
-- arguments, and schedules, at most :most. Reads the kept counts, and only the indexes jobs_by_name and of schedules.
-- SQLite keeps one count for each function, PostgreSQL changes as well.
select t.each,
       (select coalesce(sum(unfinished), 0) from job_counts where tenant = t.each),
       (select coalesce(sum(size), 0) from jobs where tenant = t.each),
       (select count(*) from (select 1 from schedules where tenant = t.each limit :most) as counted)
  from {each :tenants} as t

-- name: tenants_with
-- Tenants beyond :after with {rows}, by name: one step of an index that begins with the tenant for each.
with recursive found (tenant) as (
  select * from (select tenant from {rows} tenant > :after order by tenant limit 1) as first
  union all
  select (select tenant from {rows} tenant > found.tenant order by tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit

-- name: use_starts
-- Store that jobs of a tenant have started.
update tenant_limits
   set used_until_us = :used_until_us
 where tenant = :tenant
