-- run_reports_of: what the runs of a schedule reported, in the order in which they ended.
select job_id, tenant, schedule_id, nominal_at, origin, request, ended_at, outcome, result, message
  from run_reports
 where tenant = :tenant and schedule_id = :schedule_id
 order by ended_at, job_id
 limit :limit
