-- running_by_key: the pool, the tenant and the key of each job with a key that runs. Reads the index jobs_running: what runs on
-- all workers, however much waits.
select pool, tenant, limit_key
  from jobs indexed by jobs_running
 where state = 'in_progress' and limit_key is not null
