-- is_run: whether an unfinished job of a tenant is a run that has begun.
select 1
  from workflow_runs
  join jobs on jobs.id = workflow_runs.run_id
 where workflow_runs.run_id = :run_id and jobs.tenant = :tenant
