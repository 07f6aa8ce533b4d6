-- running_jobs: the tenant of each job that runs, of those in the JSON list :tenants. Reads the index jobs_running: what runs on
-- all workers, however much waits.
select tenant
  from jobs indexed by jobs_running
 where state = 'in_progress' and tenant in (select value from json_each(:tenants))
