-- name: any_limits
-- Whether a tenant of this database has limits at all, whether a pool has, and whether a job is held for its key.
select exists (select 1 from tenant_limits), exists (select 1 from pool_limits),
       exists (select 1 from jobs where state = 'pending' and stage = 'held' and limit_key is not null)

-- name: declare_pool
-- Keep what code has declared for a pool.
update pool_limits
   set declared = :declared
 where pool = :pool

-- name: drop_pool_limits
-- Nothing holds the jobs of a pool back, and no code has declared it.
delete from pool_limits
 where pool = :pool and declared is null

-- name: pool_holds
-- What holds back the pools in the JSON list :pools, locked until the end of the claim, so that two workers do
-- not both take the last place. Always in the order of names: claims wait for each other, and never in a circle.
select pool, running, per_tenant, starts_per_minute, used_until_us, paused, per_key
  from pool_limits
 where pool in {list :pools}
 order by pool
{for update}

-- name: pool_limits
-- The pools with limits, by name.
select pool, running, per_tenant, starts_per_minute, paused, per_key, note
  from pool_limits
 order by pool

-- name: pool_use
-- The pools with limits, what code has declared for each and what is used of its rate; and the pool, the tenant
-- and the limit key of each job that runs, if any pool has limits or :every is 1. What runs is read by the index
-- jobs_running: what runs on all workers, however much waits.
select 0, pool, running, per_tenant, starts_per_minute, paused, per_key, note, declared, used_until_us, null, null
  from pool_limits
union all
select 1, pool, null, null, null, null, null, null, null, null, tenant, limit_key
  from {running}
 where state = 'in_progress' and worker_id > '' and (:every = 1 or exists (select 1 from pool_limits))

-- name: ready_in_pools
-- Of each queue how many jobs are ready, or held for their keys, at most :limit of each, and when the first of
-- those that were counted was due: a JSON list [pool, jobs, moment]. All jobs of a queue are of one pool. One step of the
-- index jobs_ready for each queue, and of jobs_by_limit_key for each with held jobs, and one for each job that is counted.
with recursive {queues}
select cast((select {json list}(max(pool), count(*), min(due_at))
               from (select pool, due_at
                       from jobs
                      where state = 'pending' and stage = 'ready' and queue = ready.due
                      order by tenant, rank
                      limit :limit) as counted) as text)
  from ready
 where due is not null
union all
select cast((select {json list}(max(pool), count(*), min(due_at))
               from (select pool, due_at
                       from jobs
                      where state = 'pending' and stage = 'held' and limit_key is not null and queue = held.due
                      order by tenant, limit_key, rank
                      limit :limit) as counted) as text)
  from held
 where due is not null

-- name: running_in_pools (postgres)
-- The pool and the tenant of each job that runs. Reads the index jobs_running: what runs on all workers, however
-- much waits. `worker_id > ''` is that index's first column.
select pool, tenant
  from jobs
 where state = 'in_progress' and worker_id > ''

-- name: running_in_pools (sqlite)
-- The pool and the tenant of each job that runs. Reads the index jobs_running: what runs on all workers, however
-- much waits.
select pool, tenant
  from jobs indexed by jobs_running
 where state = 'in_progress'

-- name: save_pool_limits
-- What holds the jobs of a pool back. What was used of its rate stays.
insert into pool_limits (pool, running, per_tenant, starts_per_minute, paused, per_key, note)
values (:pool, :running, :per_tenant, :starts_per_minute, :paused, :per_key, :note)
on conflict (pool)
   do update set running = excluded.running, per_tenant = excluded.per_tenant,
                 starts_per_minute = excluded.starts_per_minute, paused = excluded.paused, per_key = excluded.per_key,
                 note = excluded.note

-- name: use_pool_starts
-- Jobs of a pool have started.
update pool_limits
   set used_until_us = :used_until_us
 where pool = :pool
