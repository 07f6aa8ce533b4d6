-- add_script_run: what an attempt used, and how it ended.
insert into script_runs
       (job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
        waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused)
values (:job_id, :attempt, :tenant, :script, :version, :schedule_id, :deaths, :outcome, :exceeded, :error, :started,
        :ended_at, :waited_ms, :cpu_ms, :wall_ms, :rss_kb, :host_calls, :staged, :isolation, :engine,
        :paused)
