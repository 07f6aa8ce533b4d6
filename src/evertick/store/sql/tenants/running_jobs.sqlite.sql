-- running_jobs: how many jobs of each tenant in the JSON list :tenants run. Reads the index jobs_running: what runs on
-- all workers, however much waits.
select tenant, count(*)
  from jobs indexed by jobs_running
 where state = 'in_progress' and tenant in (select value from json_each(:tenants))
 group by tenant
