-- running_in_pools: the pool and the tenant of each job that runs. Reads the index jobs_running: what runs on all workers, however
-- much waits.
select pool, tenant
  from jobs indexed by jobs_running
 where state = 'in_progress'
