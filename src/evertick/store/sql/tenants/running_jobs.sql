-- running_jobs: the tenant of each job that runs, of those in the JSON list :tenants. Reads the index jobs_running: what runs on
-- all workers, however much waits. `tenant || ''` keeps
-- databases from the indexes of all a tenant's jobs.
select tenant
  from {running}
 where state = 'in_progress' and worker_id > ''
   and (tenant || '') in {list :tenants}
