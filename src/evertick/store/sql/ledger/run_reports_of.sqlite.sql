-- run_reports_of: what the runs of some schedules reported, schedule by schedule, in the order in which they ended.
-- :keys is a JSON list of [tenant, id].
select r.job_id, r.tenant, r.schedule_id, r.nominal_at, r.origin, r.request, r.ended_at, r.outcome, r.result, r.message
  from (select json_extract(value, '$[0]') as tenant, json_extract(value, '$[1]') as id from json_each(:keys)) k
 cross join run_reports r on r.tenant = k.tenant and r.schedule_id = k.id
 order by r.tenant, r.schedule_id, r.ended_at, r.job_id
 limit :limit
