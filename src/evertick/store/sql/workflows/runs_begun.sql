-- runs_begun: which of these unfinished jobs of a tenant are runs that have begun. :ids is a JSON list.
-- `tenant || ''` keeps databases from an index that begins with the tenant.
select id
  from jobs
 where id in {list :ids} and (tenant || '') = :tenant
   and exists (select 1 from workflow_journal where run_id = jobs.id)
