-- running_jobs: the tenant of each job that runs, of those in the JSON list :tenants. Reads the index jobs_running: what runs on
-- all workers, however much waits. `tenant || ''` keeps PostgreSQL from the indexes of all a tenant's jobs.
select tenant
  from jobs
 where state = 'in_progress' and worker_id > ''
   and (tenant || '') = any (array(select json_array_elements_text(:tenants::json)))
