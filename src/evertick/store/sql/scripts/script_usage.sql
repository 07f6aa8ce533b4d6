-- script_usage: how many scripts of a tenant ran since a moment, and for how long they computed; and how many more run now, of those that were claimed before a job, or of all.
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
