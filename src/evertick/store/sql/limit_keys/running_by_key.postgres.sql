-- running_by_key: the pool, the tenant and the key of each job with a key that runs. Reads the index jobs_running: what runs on
-- all workers, however much waits. `worker_id > ''` is that index's first column.
select pool, tenant, limit_key
  from jobs
 where state = 'in_progress' and worker_id > '' and limit_key is not null
