-- name: add_script_run
-- The usage of an attempt, and how it ended. A test has a row from its start, which is replaced at its end.
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

-- name: add_script_version
-- A version, which never changes.
insert into script_versions (tenant, script, version, language, source, digest, parameters, note, created_at)
values (:tenant, :script, :version, :language, :source, :digest, :parameters, :note, :created_at)

-- name: count_runs_of_script
-- How many attempts of a script ended since an instant, without tests.
select count(*)
  from script_runs
 where tenant = :tenant and script = :script and ended_at >= :since and attempt > 0

-- name: count_script_values
-- How many values the scripts of a tenant have stored.
select count(*)
  from script_values
 where tenant = :tenant

-- name: count_scripts
-- How many scripts a tenant has.
select count(*)
  from scripts
 where tenant = :tenant

-- name: delete_script
-- One script of a tenant.
delete from scripts
 where tenant = :tenant and name = :name

-- name: delete_script_value
-- A value that scripts of a tenant have stored.
delete from script_values
 where tenant = :tenant and key = :key

-- name: delete_script_versions
-- All versions of a script.
delete from script_versions
 where tenant = :tenant and script = :script

-- name: get_script
-- One script of a tenant.
select tenant, name, language, source, parameters, note, published, versions, created_at, updated_at
  from scripts
 where tenant = :tenant and name = :name

-- name: get_script_plan
-- The limits of a tenant that differ from those of the app.
select limits
  from script_plans
 where tenant = :tenant

-- name: get_script_value
-- A value that scripts of a tenant have stored.
select value
  from script_values
 where tenant = :tenant and key = :key

-- name: get_script_version
-- One version of a script.
select tenant, script, version, language, source, digest, parameters, note, created_at
  from script_versions
 where tenant = :tenant and script = :script and version = :version

-- name: list_runs_of_schedule
-- The last attempts that a schedule has started, the newest first.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where tenant = :tenant and schedule_id = :schedule_id
 order by ended_at desc
 limit :limit

-- name: list_runs_of_script
-- The attempts of one script that ended since an instant and before another, the newest first.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where tenant = :tenant and script = :script and ended_at >= :since and ended_at < :before and attempt > 0
 order by ended_at desc
 limit :limit

-- name: list_script_runs
-- The attempts of all scripts of a tenant that ended before an instant, the newest first.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where tenant = :tenant and ended_at < :before and attempt > 0
 order by ended_at desc
 limit :limit

-- name: list_script_versions
-- The versions of a script before :before, the newest first.
select tenant, script, version, language, source, digest, parameters, note, created_at
  from script_versions
 where tenant = :tenant and script = :script and version < :before
 order by version desc
 limit :limit

-- name: list_scripts
-- The scripts of a tenant by name, beyond :after.
select tenant, name, language, source, parameters, note, published, versions, created_at, updated_at
  from scripts
 where tenant = :tenant and name > :after
 order by name
 limit :limit

-- name: prune_script_runs
-- The oldest attempts that ended before an instant.
delete from script_runs
 where (job_id, attempt) in (select job_id, attempt from script_runs where ended_at < :before order by ended_at limit :limit)

-- name: put_script_value
-- A value that scripts of a tenant have stored.
insert into script_values (tenant, key, value, updated_at)
values (:tenant, :key, :value, :updated_at)
on conflict (tenant, key) do update set value = excluded.value, updated_at = excluded.updated_at

-- name: save_script
-- A script, new or changed.
insert into scripts (tenant, name, language, source, parameters, note, published, versions, created_at, updated_at)
values (:tenant, :name, :language, :source, :parameters, :note, :published, :versions, :created_at, :updated_at)
on conflict (tenant, name)
   do update set language = excluded.language, source = excluded.source, parameters = excluded.parameters,
                 note = excluded.note, published = excluded.published, versions = excluded.versions,
                 updated_at = excluded.updated_at

-- name: save_script_plan
-- The limits of a tenant that differ from those of the app.
insert into script_plans (tenant, limits)
values (:tenant, :limits)
on conflict (tenant) do update set limits = excluded.limits

-- name: script_runs_of_job
-- The attempts of one job.
select job_id, attempt, tenant, script, version, schedule_id, deaths, outcome, exceeded, error, started, ended_at,
       waited_ms, cpu_ms, wall_ms, rss_kb, host_calls, staged, isolation, engine, paused
  from script_runs
 where job_id = :job_id and tenant = :tenant
 order by attempt

-- name: script_usage
-- How many scripts of a tenant ran since an instant, and how long they computed; and how many more run now, of those
-- that were claimed before a job, or of all.
with mine as (select started_at from jobs where id = :job_id)
select count(*), coalesce(sum(cpu_ms), 0),
       (select count(*)
          from jobs
         where state = 'in_progress' and tenant = :tenant and name = :function
           and (not exists (select 1 from mine)
                or started_at < (select started_at from mine)
                or (started_at = (select started_at from mine) and id < :job_id)))
  from script_runs
 where tenant = :tenant and ended_at >= :since and started = 1

-- name: unchanged_scripts
-- The scripts whose draft is the same as the published version. Reads the primary keys.
select s.name
  from scripts as s
  join script_versions as v on v.tenant = s.tenant and v.script = s.name and v.version = s.published
 where s.tenant = :tenant and s.name in {list :names}
   and v.language = s.language and v.source = s.source and coalesce(v.parameters, '') = coalesce(s.parameters, '')
