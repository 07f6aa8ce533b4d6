-- list_runs_of_script: the attempts of one script that ended since a moment and before another, the newest first.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where tenant = :tenant and script = :script and ended_at >= :since and ended_at < :before and attempt > 0
 order by ended_at desc
 limit :limit
