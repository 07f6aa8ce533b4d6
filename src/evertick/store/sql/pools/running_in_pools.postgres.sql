-- running_in_pools: the pool and the tenant of each job that runs. Reads the index jobs_running: what runs on all workers, however
-- much waits. `worker_id > ''` is that index's first column.
select pool, tenant
  from jobs
 where state = 'in_progress' and worker_id > ''
