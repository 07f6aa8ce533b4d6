-- name: any_limits
-- Whether any tenant of this database has limits, whether any pool has, and whether any job is held for its key.
select exists (select 1 from tenant_limits), exists (select 1 from pool_limits),
       exists (select 1 from jobs where state = 'pending' and stage = 'held' and limit_key is not null)

-- name: declare_pool
-- Store the declaration of a pool in code.
update pool_limits
   set declared = :declared
 where pool = :pool

-- name: drop_pool_limits
-- Remove the row of a pool without limits and declaration.
delete from pool_limits
 where pool = :pool and declared is null

-- name: pool_holds
-- The limits of the pools in the JSON list :pools, locked until the end of the claim, so that two workers do not both
-- take the last place. Always in the order of names: claims wait for each other, and never in a circle.
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
-- The pools with limits, their declarations and the used rate; and the pool, the tenant and the limit key of each
-- running job, if any pool has limits or :every is 1. Running jobs are read from the index jobs_running: those of all
-- workers, however many jobs wait.
select 0, pool, running, per_tenant, starts_per_minute, paused, per_key, note, declared, used_until_us, null, null
  from pool_limits
union all
select 1, pool, null, null, null, null, null, null, null, null, tenant, limit_key
  from {running}
 where state = 'in_progress' and worker_id > '' and (:every = 1 or exists (select 1 from pool_limits))

-- name: ready_in_pools
-- Of each queue how many jobs are ready, or held for their keys, at most :limit of each, and when the first of the
-- counted ones was due: a JSON list [pool, jobs, instant]. All jobs of a queue are of one pool. One step of the index
-- jobs_ready for each queue, and of jobs_by_limit_key for each with held jobs, and one for each counted job.
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
-- The pool and the tenant of each running job. Reads the index jobs_running: the jobs of all workers, however many jobs
-- wait. `worker_id > ''` is that index's first column.
select pool, tenant
  from jobs
 where state = 'in_progress' and worker_id > ''

-- name: running_in_pools (sqlite)
-- The pool and the tenant of each running job. Reads the index jobs_running: the jobs of all workers, however many jobs
-- wait.
select pool, tenant
  from jobs indexed by jobs_running
 where state = 'in_progress'

-- name: save_pool_limits
-- The limits of a pool. The used rate stays.
insert into pool_limits (pool, running, per_tenant, starts_per_minute, paused, per_key, note)
values (:pool, :running, :per_tenant, :starts_per_minute, :paused, :per_key, :note)
on conflict (pool)
   do update set running = excluded.running, per_tenant = excluded.per_tenant,
                 starts_per_minute = excluded.starts_per_minute, paused = excluded.paused, per_key = excluded.per_key,
                 note = excluded.note

-- name: use_pool_starts
-- Store that jobs of a pool have started.
update pool_limits
   set used_until_us = :used_until_us
 where pool = :pool
