-- failing_schedules: the first :limit schedules of all tenants whose last run failed. Reads the index schedules_failing.
select tenant, id, function, 1
  from schedules {indexed by schedules_failing}
 where failing = 1
 order by tenant, failing, id
 limit :limit
