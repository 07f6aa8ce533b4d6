-- report_runs: runs of schedules ended, in one round trip. A job reports once.
insert into run_reports (job_id, tenant, schedule_id, nominal_at, origin, request, ended_at, outcome, result, message)
select job_id, tenant, schedule_id, nominal_at, origin, request, ended_at, outcome, result, message
  from json_to_recordset(:rows::json)
       as r (job_id text, tenant text, schedule_id text, nominal_at bigint, origin text, request text, ended_at bigint,
             outcome text, result text, message text)
on conflict do nothing
