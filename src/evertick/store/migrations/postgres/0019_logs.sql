-- Lines of logs across functions: whose they are, which function wrote them, and when they were stored.
-- oldest code: 17
-- Lines that an older release stores have no tenant: they are in the log of their job, and not in this list.

alter table logs add column tenant text collate "C";
alter table logs add column name text collate "C";
alter table logs add column stored_at bigint;
update logs
   set tenant = history.tenant, name = history.name, stored_at = at
  from history
 where history.id = job_id;
update logs
   set tenant = jobs.tenant, name = jobs.name, stored_at = at
  from jobs
 where jobs.id = job_id and logs.tenant is null;

-- afterwards:

create index concurrently if not exists logs_stored on logs (tenant, stored_at, job_id, attempt, number);
