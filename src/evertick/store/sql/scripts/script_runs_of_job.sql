-- script_runs_of_job: the attempts of one job.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where job_id = :job_id and tenant = :tenant
 order by attempt
