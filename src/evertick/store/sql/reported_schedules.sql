-- reported_schedules: which schedules have runs that ended and were not yet heard of.
select distinct tenant, schedule_id
  from run_reports
 limit :limit
