-- list_runs_of_schedule: the last attempts that a schedule has started, the newest first.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where tenant = :tenant and schedule_id = :schedule_id
 order by ended_at desc
 limit :limit
