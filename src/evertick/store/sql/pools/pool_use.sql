-- pool_use: the pools with limits, what code has declared for each and what is used of its rate; and the pool, the tenant
-- and the limit key of each job that runs, if any pool has limits or :every is 1. What runs is read by the index
-- jobs_running: what runs on all workers, however much waits.
select 0, pool, running, per_tenant, starts_per_minute, paused, per_key, note, declared, used_until_us, null, null
  from pool_limits
union all
select 1, pool, null, null, null, null, null, null, null, null, tenant, limit_key
  from {running}
 where state = 'in_progress' and worker_id > '' and (:every = 1 or exists (select 1 from pool_limits))
