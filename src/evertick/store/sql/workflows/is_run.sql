-- is_run: whether an unfinished job of a tenant is a run that has begun. One that was started with attributes has a record
-- before that.
select 1
  from jobs
 where id = :run_id and tenant = :tenant
   and exists (select 1 from workflow_journal where run_id = :run_id)
