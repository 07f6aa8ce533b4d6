-- running_in_pools: the pool, the tenant and the limit key of each job that runs. Reads the index jobs_running: what runs on all workers, however
-- much waits. `worker_id > ''` is that index's first column.
select pool, tenant, limit_key
  from jobs
 where state = 'in_progress' and worker_id > ''
