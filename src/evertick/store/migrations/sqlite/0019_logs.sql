-- Lines of logs across functions: whose they are, which function wrote them, and when they were stored.
-- oldest code: 17
-- Lines that an older release stores have no tenant: they are in the log of their job, and not in this list.

alter table logs add column tenant text;
alter table logs add column name text;
alter table logs add column stored_at integer;
update logs
   set (tenant, name) = (select tenant, name from history where id = job_id), stored_at = at;
update logs
   set (tenant, name) = (select tenant, name from jobs where id = job_id)
 where tenant is null;
create index logs_stored on logs (tenant, stored_at, job_id, attempt, number);
