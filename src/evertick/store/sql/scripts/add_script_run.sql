-- add_script_run: what an attempt used, and how it ended. A test has a row from its start, which is replaced at its end.
insert into script_runs
       (job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
        waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused)
values (:job_id, :attempt, :tenant, :script, :version, :schedule_id, :deaths, :outcome, :exceeded, :error, :started,
        :ended_at, :waited_ms, :cpu_ms, :wall_ms, :rss_kb, :host_calls, :staged, :isolation, :engine,
        :paused)
    on conflict (job_id, attempt) do update
   set outcome = excluded.outcome, exceeded = excluded.exceeded, error = excluded.error, started = excluded.started,
       ended_at = excluded.ended_at, waited_ms = excluded.waited_ms, cpu_ms = excluded.cpu_ms,
       wall_ms = excluded.wall_ms, rss_kb = excluded.rss_kb, host_calls = excluded.host_calls,
       isolation = excluded.isolation, engine = excluded.engine
 where script_runs.attempt = 0
