-- orphaned_reports: ends of runs whose schedule was deleted meanwhile, but for those another evaluator is looking at.
select job_id, tenant, schedule_id, nominal_at, origin, request, ended_at, outcome, result, message
  from run_reports r
 where not exists (select 1 from schedules s where s.tenant = r.tenant and s.id = r.schedule_id)
 limit :limit
{for update skip locked}
